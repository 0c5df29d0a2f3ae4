"""Nouns of the fleet side: what is kept of one node's report, and what all of them together come to. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from attn_doctor.model.fingerprint import Importance


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """One finding of one node, as much of it as the roll-up says."""

    id: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a report comes to; equal for most nodes of a fleet, and kept once."""

    exit_status: int
    findings: tuple[NodeFinding, ...]
    """Without those that somebody accepted."""
    open_questions: tuple[str, ...]
    """Ids of the recipes that could not be decided."""
    doctor_version: str
    failure: str = ""
    """Why it could not examine, in its own words."""

    @property
    def fails(self) -> bool:
        """It found something that gates. An error counts whatever status the report claims."""
        return self.exit_status == 1 or any(one.severity == "error" for one in self.findings)

    @property
    def unexamined(self) -> bool:
        """It says of itself that it could not examine."""
        return not self.fails and self.exit_status != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMarks:
    """What tells two machines of one name apart."""

    boot: str = ""
    """The kernel's id of this boot; containers of one node share it."""
    gpu_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What is read from one report."""

    node: str
    environment: str
    """Its folder, the node's name in it replaced, and its container image."""
    created: str
    quick: bool
    limited: bool
    """Some recipes alone were judged (--only, --skip): what it did not find may be there."""
    machine: MachineMarks
    cohort: Mapping[str, Any]
    outcome: Outcome
    facts: Mapping[str, Any] | None
    """Name to value; None is an absent one, {"unknown": reason} could not be looked at. None altogether: no
    fingerprint in this report."""
    task: int | None = None
    """Its number under `srun --label`."""
    kernels: str = ""
    """Whether attention kernels were run (--kernels): "ran", "none ran", or empty where nobody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Something that arrived and is no report; `source` is where, `node` whose, as far as that can be told."""

    source: str
    reason: str
    node: str | None = None
    task: int | None = None
    """Number of the task under `srun --label`, which is a node's place in the job."""
    unlabelled: bool = False
    """It came in lines without a sender: the sign of a launcher that tore them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBy:
    """One finding and the nodes it was found on."""

    finding: NodeFinding
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A fact's value on some nodes of a cohort."""

    shown: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact that is not the same on all nodes of a cohort."""

    fact: str
    importance: Importance
    baseline: str | None
    """What the majority or the golden file says; None where no value has more than half of the nodes."""
    others: tuple[Value, ...]
    unknown: tuple[Value, ...] = ()
    """Where it could not be looked at although the baseline knows it; `shown` is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddGroup:
    """Nodes that differ from their cohort in the same way."""

    nodes: tuple[str, ...]
    differences: tuple[tuple[str, str | None, str], ...]
    """(fact, baseline, theirs) of the facts of one importance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Nodes that ought to be equal."""

    key: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    fingerprints: int
    """How many different ones there are."""
    quick: bool
    by_golden: bool
    golden_missing: bool
    """A golden file was given and does not know this cohort."""
    drifting: tuple[OddGroup, ...]
    """Critical ones."""
    benign: tuple[OddGroup, ...]
    undecided: tuple[Difference, ...]
    """No majority: every value with its nodes."""
    uncompared: tuple[Difference, ...]
    """Critical facts that some nodes could not look at."""
    unknown: tuple[tuple[str, str], ...] = ()
    """(fact, why) of what no node could look at: critical ones, and those that decide."""
    unproven: bool = False
    """Among them is one without which nobody can say that a node is fit."""


class State(str, Enum):
    """What one node comes to; the first that holds, in this order."""

    FAILS = "fails"
    DRIFTS = "drifts"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNSURE = "unsure"
    FIT = "fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVerdict:
    """One answer for all nodes."""

    created: str
    exit_status: int
    expected: tuple[str, ...] | None
    """None where nobody said which nodes there are."""
    states: Mapping[str, State]
    reports: int
    missing: tuple[str, ...]
    missing_because: Mapping[str, str]
    """What the engine or the node itself said of it."""
    unreadable: tuple[Unreadable, ...]
    unexpected: tuple[str, ...]
    failing: tuple[FailedBy, ...]
    """Findings that gate."""
    warned: tuple[FailedBy, ...]
    unexamined: tuple[tuple[str, str], ...]
    """(node, why) of those whose report says that it could not examine."""
    not_deep: tuple[str, ...]
    """Asked for a deep examination, of which no report came."""
    without_gpu: tuple[str, ...]
    """Those that saw no GPU: what they say holds for jobs that need none."""
    without_torch: tuple[str, ...]
    """Those with an environment that has no torch: nothing of attention was examined in it."""
    open_questions: tuple[tuple[str, tuple[str, ...]], ...]
    cohorts: tuple[Cohort, ...]
    repeated: tuple[str, ...]
    """Nodes with several reports of one environment; the latest counts."""
    same_name: tuple[str, ...]
    """Names that two machines go by."""
    skewed: tuple[tuple[str, str], ...]
    """(node, how its clock is off)"""
    old: tuple[tuple[str, str], ...]
    """(node, when it was last examined) where that is long ago."""
    age_decides: bool
    """Somebody said how old is too old: these nodes are not known to be fit."""
    without_fingerprint: tuple[str, ...]
    versions: tuple[tuple[str, tuple[str, ...]], ...]
    """Of attn-doctor itself, where there are several."""
    kernels: tuple[tuple[str, tuple[str, ...]], ...]
    """What came of --kernels ("ran", "none ran", "not asked for") and on which nodes; empty where no node was asked."""
    stands_for: Mapping[str, tuple[str, ...]]
    """Nodes that were examined in depth, and the nodes of the same fingerprint that they speak for."""

    def nodes_in(self, *states: State) -> tuple[str, ...]:
        """Nodes in any of these states."""
        return tuple(node for node, state in self.states.items() if state in states)
