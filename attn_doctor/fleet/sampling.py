"""Chooses the nodes for a deep examination: one for each distinct fingerprint, and every node that differs. Pure.

A thousand nodes must not import torch from one file server at once for a thousand equal answers.
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


def representatives(
    gathered: Gathered, verdict: FleetVerdict, *, without: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """The nodes to examine, of those that sent a quick report, under the names used in the verdict.

    `without`: nodes on which nothing can be started now; another of the same fingerprint is taken.
    """
    first: dict[tuple[object, ...], str] = {}
    seen = set(verdict.states) - set(verdict.missing)
    known_as = {node.partition(".")[0]: node for node in seen}
    for record in gathered.all_records():
        if record.fingerprint is None:
            continue  # what --quick could not examine, a deep examination cannot examine either
        node = record.node if record.node in seen else known_as.get(record.node.partition(".")[0], record.node)
        if node in without:
            continue
        key = (record.cohort, record.fingerprint)
        first[key] = min(node, first.get(key, node))
    return tuple(sorted({*first.values(), *verdict.nodes_in(State.DRIFTS)} & seen - without))
