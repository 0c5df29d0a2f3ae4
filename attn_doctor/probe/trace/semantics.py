"""Runs the checks of patient/semantics in the patient's interpreter, and makes facts of what is broken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import TargetUnusable
from attn_doctor.formats import semantics_v1
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.facts import Fact
from attn_doctor.model.semantics import BROKEN, REFUSED, Check, Semantics
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The checks, and the answer unchanged, for reports in JSON."""

    semantics: Semantics
    answer: Mapping[str, Any]


def run_semantics(
    target: Target,
    request: Mapping[str, Any],
    *,
    timeout: float,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
) -> Examined:
    """Makes the checks; a run that dies or takes too long still reports those it came to.

    Raises TargetUnusable when the interpreter cannot run it.
    """
    running, answers = target.start_in_patient("semantics_run", request, folder=folder)
    started = time.monotonic()
    try:
        while running.alive() and time.monotonic() - started < timeout:
            seen = read_answer(answers / "semantics.json")
            say(f"checking what attention computes: {len(seen['checks']) if seen else 0} checks")
            time.sleep(0.05)
    finally:
        completed = running.wait(0.5)
    answer = read_answer(answers / "semantics.json")
    how = f"took longer than {timeout:g} s" if completed.timed_out else completed.ended()
    if answer is None:
        last = completed.stderr.strip().splitlines()[-5:]
        raise TargetUnusable(
            f"the model {how} before anything was seen",
            about="\n".join([f"interpreter: {target.python}", *(f"  {line}" for line in last)]),
            hint="Try it without attn-doctor first; --timeout gives it longer.",
        )
    if answer["seconds"] is None and answer["error"] is None:
        answer["error"] = {"kind": "ended early", "message": f"the run {how}: later checks were not made"}
    return Examined(semantics=semantics_v1.read(answer), answer=answer)


def facts_of(found: Semantics) -> tuple[Fact, ...]:
    """Facts about each sort of trouble; call forms that fail alike are one."""
    notes = FactNotes()
    how = "tokens changed in a small copy (--semantics)"
    groups = _grouped(found.checks)
    if found.error_kind and not found.checks:
        notes.unknown("listed.semantics", how, found.error)
    else:
        notes.known("listed.semantics", len(groups), how)
    refused = tuple(f"{one.form}: {one.words}" for one in found.checks if one.outcome == REFUSED)
    for slug, checks in groups.items():
        own, first = f"semantics.{slug}.", checks[0]
        culprits = tuple(dict.fromkeys(culprit for one in checks for culprit in one.culprits))
        layers = sorted({one.layer for one in culprits if one.layer is not None})
        place = culprits[0].at if culprits else None
        notes.known(own + "name", first.name, how)
        notes.known_or_absent(own + "whose", first.whose or None, how)
        notes.known(own + "subject", found.words, how)
        notes.known(own + "words", first.words, how)
        notes.known_or_absent(own + "forms", tuple(one.form for one in checks if one.form), how)
        notes.known_or_absent(own + "safe", first.safe, how, "no form that was tried keeps them apart")
        notes.known_or_absent(own + "refused", refused if first.form else None, how)
        named = dict.fromkeys(f"{one.module or 'the whole'} ({one.type})" for one in culprits)
        notes.known_or_absent(own + "modules", tuple(named), how)
        notes.known_or_absent(own + "layers", tuple(str(one) for one in layers), how)
        notes.known_or_absent(own + "place", str(place) if place else None, how)
        notes.known_or_absent(own + "mask", first.mask or None, how)
        notes.known_or_absent(own + "mask_place", str(first.mask_place) if first.mask_place else None, how)
    return notes.facts()


def _grouped(checks: Iterable[Check]) -> dict[str, list[Check]]:
    """Broken checks by the subject of their facts. Where the model itself mixes documents, forms that the library's
    contract rules out are listed with the others: none of them is the cure."""
    broken = [one for one in checks if one.outcome == BROKEN]
    by_model = any(one.name == "packing" and one.whose == "model" and not one.safe for one in broken)
    groups: dict[str, list[Check]] = {}
    for one in broken:
        whose = "model" if by_model else one.whose
        slug = f"{one.name}-by-{whose}" if one.name == "packing" else one.name
        groups.setdefault(slug, []).append(one)
    return {slug: sorted(of_one, key=lambda one: one.whose != "model") for slug, of_one in groups.items()}
