"""Facts about attention regions that torch.compile computes otherwise than eager mode (patient/compiled)."""

from __future__ import annotations

from attn_doctor.model.compiled_regions import RAISES, WRONG, CompiledRegions, Region
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes


def facts_of(found: CompiledRegions) -> tuple[Fact, ...]:
    """Facts about each region that is wrong, or that raises when it is compiled."""
    notes = FactNotes()
    how = "compiled and compared with float64 (--compile)"
    broken = [one for one in found.regions if one.outcome in (WRONG, RAISES)]
    if found.error_kind and not found.regions:
        notes.unknown("listed.region", how, found.error)
    else:
        notes.known("listed.region", len(broken), how)
    for number, region in enumerate(broken):
        _note(notes, f"region.{number}.", region, found.words, how)
    return notes.facts()


def _note(notes: FactNotes, own: str, region: Region, subject: str, how: str) -> None:
    layouts = [one for one in region.layouts if one.outcome == region.outcome]
    notes.known(own + "outcome", region.outcome, how)
    notes.known(own + "name", region.title, how)
    notes.known(own + "subject", subject, how)
    notes.known_or_absent(own + "layouts", tuple(f"{one.name}: {one.words}" for one in layouts), how)
    notes.known_or_absent(own + "place", str(region.at) if region.at else None, how)
    notes.known_or_absent(own + "stage", region.stage or None, how)
    if region.fused is None:
        notes.absent(own + "fused", how, "not tried")
    else:
        notes.known(own + "fused", region.fused, how)
    notes.known_or_absent(own + "script", region.script or None, how, "nothing smaller than the module shows it")
