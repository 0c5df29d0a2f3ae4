"""Judges the set of packages that a plan would leave, before anything is installed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.requirements import unmet_in_stack
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.kinds import KINDS, kind_of
from attn_doctor.model.plans import Install, PackageChange

_HOW = "the installer's preview"
_LATER = "not known before it is installed"
#: CUDA runtimes that torch's wheels bring along tell which CUDA they are for.
_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?$")


def planned(install: Install, facts: FactSet) -> FactSet:
    """The facts as if the releases were there; what only the installed files can tell is unknown."""
    changes = {one.name: one for one in install.changes}
    found: dict[FactName, Fact] = {}
    for name, change in changes.items():
        for fact in (*facts.values(),):
            own = fact.name.kind == "package" and fact.name.subject == name and fact.name.attribute != "path"
            asks = fact.name.kind == "requirement" and fact.name.subject.startswith(f"{name}.")
            if own or (asks and fact.name.attribute == "specifier"):
                found[fact.name] = _fact(fact.name, Unknown(_LATER))
        version = FactName("package", name, "version")
        found[version] = _fact(version, Known(change.after))
        found[FactName("package", name, "duplicates")] = facts.fact(FactName("package", name, "duplicates"))
    for listing in (FactName("listed", "", kind.name) for kind in KINDS if kind.part_of_package):
        if changes and listing in facts:
            # What a release brings along is not in the list: without this its own modules would be missing ones.
            found[listing] = _fact(listing, Unknown(_LATER))
    torch = "torch" in changes
    modules = {name.replace("-", "_") for name in changes}
    for fact in facts.values():
        kind, subject = fact.name.kind, fact.name.subject
        touched = any(subject == one or subject.startswith((one + ".", one + "_2_cuda")) for one in modules)
        if kind_of(kind).from_installed_code and (torch or touched):
            found[fact.name] = _fact(fact.name, Unknown(_LATER))
        if torch and kind == "torch":
            found[fact.name] = _fact(fact.name, Unknown(_LATER))
    if torch and FactName.parse("torch.version") in facts:
        found[FactName.parse("torch.version")] = _fact(FactName.parse("torch.version"), Known(changes["torch"].after))
        found[FactName.parse("torch.cuda")] = _fact(FactName.parse("torch.cuda"), _cuda(changes))
    return facts.with_facts(found.values())


def _cuda(changes: dict[str, PackageChange]) -> State:
    """The CUDA that the planned torch is for, as far as names tell: so that the driver can be held against it."""
    _, _, local = changes["torch"].after.partition("+")
    if local == "cpu":
        return Absent("a CPU build")
    tag = re.fullmatch(r"cu(\d+)(\d)", local)
    if tag:
        return Known(f"{tag[1]}.{tag[2]}")
    runtimes = [one.after for name, one in changes.items() if _RUNTIME.match(name)]
    return Known(".".join(runtimes[0].split(".")[:2])) if len(runtimes) == 1 else Unknown(_LATER)


def warnings(install: Install, facts: FactSet) -> tuple[str, ...]:
    """What a person should know of the extensions that a change of torch reaches."""
    changing = {one.name for one in install.changes}
    if "torch" not in changing:
        return ()
    bound = {
        package
        for subject in facts.subjects("extension")
        if (package := facts.text(f"extension.{subject}.package")) and package not in changing
    }
    if not bound:
        return ()
    words = (
        f"compiled against the torch that goes: {', '.join(sorted(bound))}; their files are held against the new one"
    )
    return (f"{words} once it is fetched, and nothing is changed if they do not fit",)


def check(install: Install, facts: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> None:
    """Raises Refused where the planned set brings up a finding as bad as a warning."""
    check_facts(facts, derive(planned(install, facts)), before, judged)


def check_facts(had: FactSet, facts: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> None:
    """The same of facts that were gathered already, such as those of fetched files; `had` are today's."""
    broken = newly_unmet(had, facts)
    if broken:
        raise Refused(f"the cure would leave unmet what is met today and is not started: {'; '.join(broken)}")
    known = {key: one.severity.rank for one in _flat(before.findings) for key in _keys(one)}
    fresh = [
        one
        for one in _flat(judged(facts).findings)
        if one.severity is not Severity.INFO and any(known.get(key, 99) > one.severity.rank for key in _keys(one))
    ]
    if fresh:
        words = "; ".join(dict.fromkeys(f"{one.id}: {one.title}" for one in fresh))
        raise Refused(f"the cure would bring up other trouble and is not started: {words}")


def newly_unmet(had: FactSet, facts: FactSet) -> tuple[str, ...]:
    """Requirements of the attention stack that are met, or that nothing has, and would not be met."""
    before = unmet_in_stack(had)
    return tuple(words for subject, words in unmet_in_stack(facts).items() if subject not in before)


def _keys(finding: Finding) -> tuple[tuple[str, str], ...]:
    """The same trouble on another extension is another trouble."""
    return tuple((finding.id, subject) for subject in finding.subjects) or ((finding.id, ""),)


def _fact(name: FactName, state: State) -> Fact:
    return Fact(name=name, state=state, how=_HOW, origin=Origin.ASSUMED)


def _flat(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield one
        yield from _flat(one.symptoms)
