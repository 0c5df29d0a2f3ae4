"""Runs one probe: when it fails, its facts become unknown, and the other probes continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of an examination."""

    name: str
    look: Callable[[], Iterable[Fact]]
    """Raises BadInput when a file named by the user cannot be read."""
    files: tuple[str, ...]
    """Files of probe/, without ending, that find its facts (`Term.probe` in the vocabulary)."""
    more: tuple[str, ...] = ()
    """Facts of other files that it finds as well."""


def run(probe: Probe) -> tuple[Fact, ...]:
    """Its facts; all of them unknown when it fails."""
    return faults.survive(
        f'probe "{probe.name}"', lambda: tuple(probe.look()), lambda reason: not_looked(probe, reason)
    )


def not_looked(probe: Probe, reason: str) -> tuple[Fact, ...]:
    """Every fact of the probe as unknown, with this reason."""
    from attn_doctor.model.vocabulary import TERMS  # a table that is only needed here

    homes = {f"probe/{file}.py" for file in probe.files}
    names = [term.name for term in TERMS if term.probe in homes]
    notes = FactNotes()
    for name in (*names, *probe.more):
        kind, star, _ = name.partition(".*")
        # An unknown listing decides no member: each is unknown with the listing's reason.
        notes.unknown(f"listed.{kind}" if star else name, f'attn-doctor\'s probe "{probe.name}"', reason)
    return notes.facts()
