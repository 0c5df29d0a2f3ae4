"""Judges the set of packages that a plan would leave, before anything is installed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.plans import Install

_HOW = "the installer's preview"
_LATER = "not known before it is installed"


def planned(install: Install, facts: FactSet) -> FactSet:
    """The facts as if the releases were there; what only the installed files can tell is unknown."""
    changes = {one.name: one for one in install.changes}
    found: dict[FactName, Fact] = {}
    for name, change in changes.items():
        for fact in (*facts.values(),):
            if fact.name.kind == "package" and fact.name.subject == name and fact.name.attribute != "path":
                found[fact.name] = _fact(fact.name, Unknown(_LATER))
        version = FactName("package", name, "version")
        found[version] = _fact(version, Known(change.after))
        found[FactName("package", name, "duplicates")] = facts.fact(FactName("package", name, "duplicates"))
    torch = "torch" in changes
    modules = {name.replace("-", "_") for name in changes}
    for fact in facts.values():
        kind, subject = fact.name.kind, fact.name.subject
        touched = any(subject == one or subject.startswith((one + ".", one + "_2_cuda")) for one in modules)
        if kind in ("extension", "import", "sample", "promotion", "attention", "kernel") and (torch or touched):
            found[fact.name] = _fact(fact.name, Unknown(_LATER))
        if torch and kind == "torch":
            found[fact.name] = _fact(fact.name, Unknown(_LATER))
    if torch and FactName.parse("torch.version") in facts:
        found[FactName.parse("torch.version")] = _fact(FactName.parse("torch.version"), Known(changes["torch"].after))
    return facts.with_facts(found.values())


def check(install: Install, facts: FactSet, before: Diagnosis, judged: Callable[[FactSet], Diagnosis]) -> None:
    """Raises Refused where the planned set brings up a finding as bad as a warning."""
    known = {one.id: one.severity.rank for one in _flat(before.findings)}
    fresh = [
        one
        for one in _flat(judged(planned(install, facts)).findings)
        if one.severity is not Severity.INFO and known.get(one.id, 99) > one.severity.rank
    ]
    if fresh:
        words = "; ".join(f"{one.id}: {one.title}" for one in fresh)
        raise Refused(f"the cure would bring up other trouble and is not started: {words}")


def _fact(name: FactName, state: Known | Unknown) -> Fact:
    return Fact(name=name, state=state, how=_HOW, origin=Origin.ASSUMED)


def _flat(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield one
        yield from _flat(one.symptoms)
