"""Facts of what is broken in which token reaches which (patient/semantics)."""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.model.facts import Fact
from attn_doctor.model.semantics import BROKEN, REFUSED, Check, Semantics
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.trace.packing_trainers import trainers


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
        said = trainers(first.safe, found.implementation) if first.name == "packing" and found.implementation else None
        notes.known_or_absent(own + "trainers", said, how)
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
