"""Finds the node that slows all-reduce down: nodes are paired, each time otherwise, and the pairs measured. Pure.

A pair is as slow as its slower half. In the next round its partner is with another node: a node is as good as the best
pair that it was in, and what stays slow with every partner is slow itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from attn_doctor.fleet.kernel_outliers import below_the_median
from attn_doctor.machine.process import Completed
from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass

Pair = tuple[str, str]
_HALF = 0.5
#: What patient/pair_allreduce.py prints.
_REACHED = re.compile(r"^AD-PAIR (\d+\.\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One pair of one round."""

    pair: Pair
    gbs: float | None
    """Bandwidth of the bus in GB/s; None when there is none."""
    said: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """What the rounds came to."""

    best: tuple[tuple[str, float], ...]
    """(node, the best that a pair with it reached), the slowest first."""
    slow: tuple[tuple[str, str], ...]
    """(node, words)"""
    silent: tuple[tuple[str, str], ...]
    """(node, words): no pair with it came to an end, and its partners did with others."""
    unknown: tuple[str, ...]
    """Nodes of which nothing can be said: nobody they were paired with ended with anybody."""
    suspects: tuple[str, ...]
    """Nodes that are so much below the median, scatter or not: to be measured again."""
    few: bool
    """Too few nodes to tell slow from scatter."""


def rounds_of(nodes: Sequence[str], rounds: int) -> list[list[Pair]]:
    """The rounds of a tournament: nobody meets the same node twice; of an odd number one rests each time."""
    ring: list[str] = [*nodes, *([""] if len(nodes) % 2 else [])]
    found = []
    for _ in range(min(rounds, len(ring) - 1)):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        found.append([(one, other) for one, other in pairs if one and other])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def measured_by(pair: Pair, done: Completed) -> Measured:
    """What the step of a pair came to."""
    reached = _REACHED.search(done.stdout)
    if reached is not None:
        return Measured(pair=pair, gbs=float(reached[1]))
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if "Error" in line or "error" in line), lines[-1] if lines else "")
    return Measured(pair=pair, gbs=None, said=f"srun {done.ended()}{f': {last[:160]}' if last else ''}")


def again(verdict: PairVerdict, *, most: int = 8, partners: int = 2) -> list[Pair]:
    """Pairs of the slowest suspects with the fastest nodes, to be measured one at a time: in its round, what else ran
    may have slowed a node down."""
    fast = [node for node, _ in reversed(verdict.best) if node not in verdict.suspects][:partners]
    return [(node, partner) for node in verdict.suspects[:most] for partner in fast]


def judge_pairs(measured: Iterable[Measured], policy: Policy) -> PairVerdict:
    """Which nodes are slow, and which never came to an end."""
    best: dict[str, float] = {}
    failed: dict[str, list[Measured]] = defaultdict(list)
    for one in measured:
        for node in one.pair:
            if one.gbs is None:
                failed[node].append(one)
            else:
                best[node] = max(best.get(node, 0.0), one.gbs)
    silent, unknown = [], []
    for node in sorted(set(failed) - set(best)):
        partners = [other for one in failed[node] for other in one.pair if other != node]
        if any(other in best for other in partners):
            silent.append((node, f"no all-reduce with it ended, of {len(partners)} partners: {failed[node][0].said}"))
        else:
            unknown.append(node)
    few = len(best) <= policy.threshold("slow-kernel-peers")
    far, least = policy.threshold("slow-kernel-scatters"), policy.threshold("slow-pair-percent") / 100
    suspects = [] if few else sorted(below_the_median(best, scatters=0, least=least), key=lambda one: -one[1])
    # Half of the median is slow, however much the others scatter.
    sure = {node for node, _ in below_the_median(best, scatters=far, least=least)} if suspects else set()
    words = [
        (node, f"all-reduce reaches {best[node]:.2f} GB/s with its best partner, {below:.0%} below its peers")
        for node, below in suspects
        if node in sure or below >= _HALF
    ]
    return PairVerdict(
        best=tuple(sorted(best.items(), key=lambda one: (one[1], one[0]))),
        slow=tuple((node, said.replace("%", " %")) for node, said in words),
        silent=tuple(silent),
        unknown=tuple(unknown),
        suspects=tuple(node for node, _ in suspects),
        few=few,
    )
