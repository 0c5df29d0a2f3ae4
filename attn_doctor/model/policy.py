"""A site's policy: what is lived with, what gates, how much each fact of a fingerprint weighs, and thresholds; each for
all nodes or for those of some partitions. What a policy does not say is as the built-in tables have it.
"""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase

from attn_doctor.model.findings import Acceptance, Gate
from attn_doctor.model.fingerprint import Importance, fits
from attn_doctor.model.fingerprint import importance as built_in
from attn_doctor.quick_dataclasses import dataclass

#: Name of a threshold -> its value, and what it says.
THRESHOLDS: dict[str, tuple[float, str]] = {
    "slow-kernel-percent": (10, "a kernel that is so much below the median of its peers is slower than they are"),
    "slow-kernel-scatters": (3.5, "and by so many of their own scatters (median absolute deviation)"),
    "slow-kernel-peers": (4, "fewer peers have no scatter to be measured by"),
    "slow-pair-percent": (10, "a node whose best all-reduce is so much below the median is slow (fleet pairs)"),
    "clock-ahead-minutes": (5, "a report dated farther ahead is of a wrong clock"),
    "young-hours": (24, "older reports are marked"),
    "max-age-days": (7, "a node whose last report is older is not known to be fit"),
    "quarantine-percent": (2, "most nodes that fleet quarantine keeps out at once"),
}
#: The finding that says that a node's kernels are slower than those of its peers: it gates where a policy says so.
SLOWER = "slower-than-its-peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FactWeight:
    """How much a difference in facts of a fingerprint matters."""

    pattern: str
    """Name of a fact, with one star at most."""
    importance: Importance
    reason: str
    partition: str = ""
    """Pattern of the partition; empty for every node."""
    expires: str = ""
    """ISO date; empty when it never expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number of this site."""

    name: str
    value: float
    partition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a policy file says. Of several entries that fit, one for a partition counts before one for every node, then
    the longest pattern: tables of TOML have no common order."""

    acceptances: tuple[Acceptance, ...] = ()
    gates: tuple[Gate, ...] = ()
    weights: tuple[FactWeight, ...] = ()
    thresholds: tuple[Threshold, ...] = ()

    def here(self, partition: str | None) -> Policy:
        """The entries that hold for nodes of this partition; None: of none, or of an unknown one."""
        if not self:
            return self

        def holds(pattern: str) -> bool:
            return not pattern or (partition is not None and fnmatchcase(partition, pattern))

        return Policy(
            acceptances=tuple(one for one in self.acceptances if holds(one.partition)),
            gates=tuple(one for one in self.gates if holds(one.partition)),
            weights=tuple(one for one in self.weights if holds(one.partition)),
            thresholds=tuple(one for one in self.thresholds if holds(one.partition)),
        )

    def on(self, today: date) -> Policy:
        """Without what has expired."""
        return Policy(
            acceptances=tuple(one for one in self.acceptances if _valid(one.expires, today)),
            gates=self.gates,
            weights=tuple(one for one in self.weights if _valid(one.expires, today)),
            thresholds=self.thresholds,
        )

    def __bool__(self) -> bool:
        """False when it says nothing."""
        return bool(self.acceptances or self.gates or self.weights or self.thresholds)

    def importance(self, name: str) -> Importance:
        """How much a difference in this fact matters."""
        found = [one for one in self.weights if fits(name, one.pattern)]
        if not found:
            return built_in(name)
        return max(found, key=lambda one: (bool(one.partition), len(one.pattern), one.importance.value)).importance

    def threshold(self, name: str) -> float:
        """The value of a threshold. Raises KeyError for a name that is none."""
        found = [one for one in self.thresholds if one.name == name]
        return max(found, key=lambda one: bool(one.partition)).value if found else THRESHOLDS[name][0]


def _valid(expires: str, today: date) -> bool:
    return not expires or date.fromisoformat(expires) >= today
