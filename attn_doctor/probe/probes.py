"""How one probe is run: one that fails makes its facts unknown, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of an examination."""

    name: str
    look: Callable[[], Iterable[Fact]]
    """Raises BadInput for what a person named and that cannot be read."""
    files: tuple[str, ...]
    """Files of probe/, without their ending, whose terms of the vocabulary it answers for (`Term.probe`)."""
    more: tuple[str, ...] = ()
    """Facts that it finds as well, though they are another file's."""


def run(probe: Probe) -> tuple[Fact, ...]:
    """Its facts; each of them unknown where it fails."""
    return faults.survive(
        f'probe "{probe.name}"', lambda: tuple(probe.look()), lambda reason: not_looked(probe, reason)
    )


def not_looked(probe: Probe, reason: str) -> tuple[Fact, ...]:
    """Every fact that the probe would have found, as one that could not be looked at for this reason."""
    from attn_doctor.model.vocabulary import TERMS  # a table that is only needed here

    homes = {f"probe/{file}.py" for file in probe.files}
    names = [term.name for term in TERMS if term.probe in homes]
    notes = FactNotes()
    for name in (*names, *probe.more):
        kind, star, _ = name.partition(".*")
        # What cannot be listed settles no member: each of them is unknown for the reason that the listing is.
        notes.unknown(f"listed.{kind}" if star else name, f'attn-doctor\'s probe "{probe.name}"', reason)
    return notes.facts()
