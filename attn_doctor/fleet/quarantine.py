"""Which nodes to drain and which to resume, given a verdict and what Slurm says now. Pure.

A node is drained only for what was found on it, not for what most nodes have: that is their environment's. It is
resumed only when it was drained by this and is fit in a newer report. A cap on the nodes that are out at once keeps one
wrong finding from emptying a cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from attn_doctor.model.fleet import FleetVerdict, State
from attn_doctor.quick_dataclasses import dataclass

#: The beginning of our reasons: who drained, and since when, is Slurm's own to say.
MARK = "[node_problem] attn-doctor: "
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One node to drain or to resume."""

    node: str
    resume: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What there is to do, and what is left undone, with the reason."""

    todo: tuple[Move, ...]
    left: tuple[tuple[str, str], ...]
    """(node, why nothing is done with it)"""
    out: tuple[tuple[str, str], ...]
    """(node, reason) of the nodes that attn-doctor keeps out already."""


def cap_of(written: str, nodes: int) -> int:
    """`2%` or `5`: how many nodes may be out at once; of a share at least one. Raises ValueError."""
    known = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", written.strip())
    if known is None or (known[2] and float(known[1]) > 100) or (not known[2] and "." in known[1]):
        raise ValueError(written)
    return max(1, math.floor(nodes * float(known[1]) / 100)) if known[2] else int(known[1])


def moves(
    verdict: FleetVerdict,
    drained: Mapping[str, str],
    usable: frozenset[str],
    *,
    cap: int,
    doubtful: frozenset[str] = frozenset(),
) -> Moves:
    """What to do. `drained`: node -> the reason that Slurm has for it; `usable`: nodes that take jobs now; `doubtful`:
    nodes whose reports say nothing of them as they are now.

    The worst first: what fails before what differs.
    """
    ours = {node: reason for node, reason in drained.items() if reason.startswith(MARK)}
    common = _of_most(verdict)
    reasons = {node: why for node, why in _reasons(verdict).items() if node not in common}
    todo: list[Move] = []
    left: list[tuple[str, str]] = [(node, why) for node, why in common.items() if node not in drained]
    for node in sorted(ours):
        if verdict.states.get(node) is State.FIT and node not in doubtful:
            todo.append(Move(node=node, resume=True, reason=""))
    room = cap - (len(ours) - len(todo))
    for node, reason in reasons.items():
        if node in ours:
            continue
        if node in doubtful:
            left.append((node, f"its report is too old, dated ahead, or of two machines: {reason}"))
            continue
        if node in drained:
            left.append((node, f"out already: {drained[node]}"))
        elif node not in usable:
            left.append((node, "takes no jobs now, or Slurm does not know it"))
        elif room <= 0:
            left.append((node, f"not drained, {cap} are out and more may not be (--max): {reason}"))
        else:
            room -= 1
            todo.append(Move(node=node, resume=False, reason=f"{MARK}{reason}"[:_LONGEST]))
    resumed = {move.node for move in todo if move.resume}
    staying = {node: reason for node, reason in ours.items() if node not in resumed}
    return Moves(todo=tuple(todo), left=tuple(left), out=tuple(sorted(staying.items())))


def _of_most(verdict: FleetVerdict) -> dict[str, str]:
    """Node -> the findings for which it is not drained, since most nodes have them; only where it has no other."""
    there = len(verdict.states)
    own = {node for one in verdict.failing if len(one.nodes) * 2 <= there for node in one.nodes}
    own |= {node for cohort in verdict.cohorts for group in cohort.drifting for node in group.nodes}
    return {
        node: f"{len(one.nodes):,} of {there:,} nodes have {one.finding.id}: mend the environment"
        for one in verdict.failing
        if len(one.nodes) * 2 > there > 1
        for node in one.nodes
        if node not in own
    }


def _reasons(verdict: FleetVerdict) -> dict[str, str]:
    """Node -> why it should be out: findings that fail it, then critical differences from its cohort."""
    found: dict[str, str] = {}
    for one in sorted(verdict.failing, key=lambda one: len(one.nodes)):
        for node in one.nodes:
            found.setdefault(node, one.finding.id)
    for cohort in verdict.cohorts:
        for group in cohort.drifting:
            fact, old, new = group.differences[0]
            for node in group.nodes:
                found.setdefault(node, f"differs: {fact} {old} -> {new}")
    return {node: " ".join(reason.split()) for node, reason in found.items() if node in verdict.states}
