"""Evaluates the recipes on the packages that a plan would install, before anything is installed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from attn_doctor.diagnose.requirements import unmet_in_stack
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.kinds import KINDS, kind_of
from attn_doctor.model.plans import Install, PackageChange

_HOW = "the installer's preview"
_LATER = "not known before it is installed"
#: The CUDA runtime that torch's wheels require shows which CUDA release they were built for.
_RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?$")


def planned(install: Install, facts: FactSet) -> FactSet:
    """The facts as they would be after the installation; facts that need the installed files become unknown."""
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
            # The packages that a release brings are not listed yet: without this its own modules would count as
            # missing.
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
    """The CUDA release of the planned torch, as far as package names show it, to compare it with the driver."""
    _, _, local = changes["torch"].after.partition("+")
    if local == "cpu":
        return Absent("a CPU build")
    tag = re.fullmatch(r"cu(\d+)(\d)", local)
    if tag:
        return Known(f"{tag[1]}.{tag[2]}")
    runtimes = [one.after for name, one in changes.items() if _RUNTIME.match(name)]
    return Known(".".join(runtimes[0].split(".")[:2])) if len(runtimes) == 1 else Unknown(_LATER)


def warnings(install: Install, facts: FactSet) -> tuple[str, ...]:
    """Warnings about extensions affected by a change of torch."""
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


def fresh_findings(facts: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> tuple[Finding, ...]:
    """The findings with severity warning or error that these facts have, and `before` has not."""
    known = {key: one.severity.rank for one in _flat(before.findings) for key in _keys(one)}
    return tuple(
        one
        for one in _flat(judged(facts).findings)
        if one.severity is not Severity.INFO and any(known.get(key, 99) > one.severity.rank for key in _keys(one))
    )


def refuse_unmet(had: FactSet, facts: FactSet) -> None:
    """Raises Refused for requirements that are met by the facts as they are, and would not be any more."""
    broken = newly_unmet(had, facts)
    if broken:
        raise Refused(f"the fix would break requirements that are met today and is not started: {'; '.join(broken)}")


def check_facts(had: FactSet, facts: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> None:
    """Raises Refused when these facts, such as those of downloaded files, have new findings; `had`: today's."""
    refuse_unmet(had, facts)
    fresh = fresh_findings(facts, before, judged)
    if fresh:
        raise other_trouble(f"{one.id}: {one.title}" for one in fresh)


def other_trouble(words: Iterable[str]) -> Refused:
    """The refusal with these faults, each once."""
    several = "; ".join(dict.fromkeys(words))
    return Refused(f"the fix would cause other trouble and is not started: {several}")


def newly_unmet(had: FactSet, facts: FactSet) -> tuple[str, ...]:
    """Requirements of the attention stack that are now met (or not relevant) and would no longer be met."""
    before = unmet_in_stack(had)
    return tuple(words for subject, words in unmet_in_stack(facts).items() if subject not in before)


def _keys(finding: Finding) -> tuple[tuple[str, str], ...]:
    """Keys that distinguish findings: the same recipe on another extension is another finding."""
    return tuple((finding.id, subject) for subject in finding.subjects) or ((finding.id, ""),)


def _fact(name: FactName, state: State) -> Fact:
    return Fact(name=name, state=state, how=_HOW, origin=Origin.ASSUMED)


def _flat(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield one
        yield from _flat(one.symptoms)
