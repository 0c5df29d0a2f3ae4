"""Facts from the library samples: the result of each, and the calls that changed a dtype in it.

Samples are traced, so their promotions and attention calls use the same facts as a traced run, and the same recipes
apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attn_doctor.formats import trace_v1
from attn_doctor.model.facts import Fact, Known
from attn_doctor.model.libraries import libraries
from attn_doctor.model.outcomes import Outcome
from attn_doctor.model.trace import Trace
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.not_examined import CALLS, FAILED_CALL
from attn_doctor.probe.trace.trace_facts import facts_of
from attn_doctor.quick_dataclasses import replace

#: Import names of the libraries that have samples.
LIBRARIES = frozenset(
    {"transformers", "x_transformers", "triton", *(library.module for library in libraries() if library.samples)}
)

_CANARY = "triton"
_MOST_WORDS = 200

Read = Callable[[str], Mapping[str, Any] | None]


def libraries_of(modules: Iterable[str]) -> tuple[str, ...]:
    """The libraries with samples, among the modules that `check` imports."""
    names = (module if module in LIBRARIES else module.split(".")[0] for module in modules)
    return tuple(name for name in dict.fromkeys(names) if name in LIBRARIES)


def facts(libraries: tuple[str, ...], read: Read, ended: str) -> tuple[tuple[Fact, ...], int]:
    """The facts, and the number of samples they are about.

    `read` returns an answer by its name, or None; `ended` describes how the examination ended.
    """
    notes = FactNotes()
    found: list[Fact] = []
    reasons: dict[str, list[str]] = {}
    count = 0
    with_samples = tuple(name for name in libraries if name != _CANARY)
    for library in with_samples:
        answer = read(f"samples-{library}") or {}
        entries = answer.get("samples") or []
        why = _for_one_reason(entries) if entries else f"the examination {ended} before it came to it"
        if why is not None:
            entries = [{"name": re.sub("[._]", "-", library), "outcome": Outcome.UNASKED, "error": why}]
        for entry in entries:
            count += 1
            if entry["outcome"] == Outcome.UNASKED:
                reasons.setdefault(str(entry["error"])[:_MOST_WORDS], []).append(entry["name"])
            found += _sample(notes, library, entry)
    not_run = tuple(f"not run: {', '.join(names)}: {reason}" for reason, names in reasons.items())
    _list(notes, found, with_samples, not_run, asked=not all(_has_a_finding(reason) for reason in reasons))
    if _CANARY in libraries:
        _canary(notes, read("canary") or {"outcome": "could_not_look", "message": f"the examination {ended}"})
    return (*notes.facts(), *found), count


def _for_one_reason(entries: list[Mapping[str, Any]]) -> str | None:
    """The common reason why none of a library's samples ran, if there is one: it is one gap, not eight."""
    reasons = {entry["error"] if entry["outcome"] == Outcome.UNASKED else None for entry in entries}
    return reasons.pop() if len(reasons) == 1 else None


def _sample(notes: FactNotes, library: str, entry: Mapping[str, Any]) -> list[Fact]:
    name = entry["name"]
    how = f"sample {name}"
    own = f"sample.{name}."
    ran = entry["outcome"] != Outcome.UNASKED
    if ran:
        notes.known(own + "outcome", entry["outcome"], how)
    else:
        reason = str(entry["error"])[:_MOST_WORDS]
        notes.unknown(own + "outcome", how, f"not run: {reason}", asked=not _has_a_finding(reason))
    notes.known(own + "library", library, how)
    notes.absent(own + "finite", how, "dtypes are looked at, not values")
    if entry.get("verdict"):
        notes.known(own + "verdict", entry["verdict"], how)
    elif entry["outcome"] == Outcome.RAN:
        notes.absent(own + "verdict", how, "no attention call was seen")
    else:
        asked = ran or not _has_a_finding(str(entry["error"]))
        notes.unknown(own + "verdict", how, f"it did not come to its end: {entry['error']}", asked=asked)
    for attribute in ("device", "rules", "stand_in", "where", "seconds"):
        notes.known_or_absent(own + attribute, entry.get(attribute), how)
    notes.known_or_absent(own + "error", entry["error"] if ran else None, how)
    if not entry.get("trace"):
        return []
    try:
        return _of_trace(name, trace_v1.read(entry["trace"]))
    except (KeyError, TypeError) as error:
        notes.unknown(own + "verdict", how, f"the tracer's answer cannot be read: {type(error).__name__}: {error}")
        return []


def _of_trace(sample: str, trace: Trace) -> list[Fact]:
    """Its promotions and attention calls, with subjects that no other sample uses."""
    how = f"sample {sample}"
    found = []
    seen: set[tuple[str, str]] = set()
    for fact in facts_of(trace):
        kind, subject = fact.name.kind, fact.name.subject
        if str(fact.name) in FAILED_CALL and isinstance(fact.state, Known):
            found.append(replace(fact, how=how))
        if kind not in CALLS:
            continue
        name = replace(fact.name, subject=f"{sample}-{subject}")
        found.append(replace(fact, name=name, how=how))
        if (kind, subject) not in seen:
            seen.add((kind, subject))
            found.append(Fact(name=replace(name, attribute="sample"), state=Known(sample), how=how))
    return found


def _has_a_finding(reason: str) -> bool:
    """True when a finding covers the reason: a failed import is reported, so its samples leave no open question."""
    return reason.startswith("import ")


def _list(
    notes: FactNotes, found: list[Fact], libraries: tuple[str, ...], not_run: tuple[str, ...], *, asked: bool
) -> None:
    """Adds the number of promotions and attention calls, and whether a call outside attention failed."""
    how = f"samples of {', '.join(libraries)}" if libraries else "no library with samples is installed"
    failed = {str(fact.name) for fact in found}
    for kind in CALLS:
        listed = f"listed.{kind}"
        if not_run:
            notes.unknown(listed, how, "; ".join(_first(not_run)), asked=asked)
        else:
            subjects = {fact.name.subject for fact in found if fact.name.kind == kind}
            notes.known(listed, len(subjects), how)
    for name in FAILED_CALL:
        if name in failed:
            continue
        if not_run:
            notes.unknown(name, how, "; ".join(_first(not_run)), asked=asked)
        else:
            notes.absent(name, how, "no sample failed over the dtypes of a call outside attention")


def _first(reasons: tuple[str, ...], most: int = 3) -> tuple[str, ...]:
    rest = len(reasons) - most
    return (*reasons[:most], f"and {rest} more") if rest > 0 else reasons


def _canary(notes: FactNotes, answer: Mapping[str, Any]) -> None:
    version = answer.get("triton_version")
    how = f"compiled a kernel with triton {version}" if version else "compiled a kernel with triton"
    outcome = answer["outcome"]
    if outcome == "could_not_look":
        reason = answer.get("message") or "no child could look"
        for name in ("triton.canary", "triton.bf16_becomes_i16"):
            notes.unknown(name, how, reason)
        return
    notes.known_or_absent("triton.canary", None if outcome == "absent" else outcome, how, "triton is not installed")
    notes.known("triton.bf16_becomes_i16", bool(answer.get("bf16_becomes_i16")), how)
    notes.known_or_absent("triton.canary_gpu", answer.get("compute_capability"), how)
    notes.known_or_absent("triton.canary_message", answer.get("message") or None, how)
