"""Which nodes are worth a deep examination: one for each distinct fingerprint, and every odd one. Pure.

A thousand nodes must not import torch from one file server at once to learn the same thing a thousand times.
"""

from __future__ import annotations

from enum import Enum

from attn_doctor.fleet.gather import Gathered
from attn_doctor.model.fleet import FleetVerdict, State


class Deep(str, Enum):
    """How many nodes are examined in depth."""

    AUTO = "auto"
    ALL = "all"
    NONE = "none"


def representatives(gathered: Gathered, verdict: FleetVerdict) -> tuple[str, ...]:
    """The nodes, of those that sent a quick report. Call them what the verdict calls them."""
    first: dict[tuple[object, ...], str] = {}
    seen = set(verdict.states) - set(verdict.missing)
    known_as = {node.partition(".")[0]: node for node in seen}
    for there in gathered.records.values():
        for record in there:
            if record.fingerprint is None:
                continue  # what could not be looked at from outside cannot be looked at in depth either
            node = record.node if record.node in seen else known_as.get(record.node.partition(".")[0], record.node)
            key = (record.cohort, record.fingerprint)
            first[key] = min(node, first.get(key, node))
    return tuple(sorted({*first.values(), *verdict.nodes_in(State.DRIFTS)} & seen))
