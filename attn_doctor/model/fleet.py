"""Records for fleets: the kept part of each node's report, and the verdict over all nodes. No input or output."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from attn_doctor.model.fingerprint import Importance
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """One finding of one node, reduced to what the fleet report shows."""

    id: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one report. Most nodes of a fleet have an equal one, which is stored once."""

    exit_status: int
    findings: tuple[NodeFinding, ...]
    """Without accepted findings."""
    open_questions: tuple[str, ...]
    """Ids of the recipes that could not be decided."""
    doctor_version: str
    failure: str = ""
    """Why the node could not be examined, as its report words it."""

    @property
    def fails(self) -> bool:
        """True when a finding fails the node. An error counts, whatever exit status the report claims."""
        return self.exit_status == 1 or any(one.severity == "error" for one in self.findings)

    def gating(self) -> set[NodeFinding]:
        """The errors; of a report that fails without an error, the findings on which it was asked to fail."""
        errors = {one for one in self.findings if one.severity == "error"}
        if errors or not self.fails:
            return errors
        worst = "warning" if any(one.severity == "warning" for one in self.findings) else "info"
        return {one for one in self.findings if one.severity == worst}

    @property
    def unexamined(self) -> bool:
        """True when the report itself records that the node could not be examined."""
        return not self.fails and self.exit_status != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMarks:
    """Marks that distinguish two machines with the same name."""

    boot: str = ""
    """The Linux kernel's boot id; containers on one node share it."""
    gpu_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The parts of one report that fleet commands use."""

    node: str
    environment: str
    """Folder of the environment, with the node's name replaced by a placeholder, and its container image."""
    created: str
    quick: bool
    limited: bool
    """Only some recipes were evaluated (--only, --skip), so problems may have been missed."""
    machine: MachineMarks
    cohort: Mapping[str, Any]
    outcome: Outcome
    facts: Mapping[str, Any] | None
    """Name -> value; None means absent, {"unknown": reason} means that the probe could not look. The whole field is
    None when the report has no fingerprint."""
    task: int | None = None
    """Task number under `srun --label`."""
    kernels: str = ""
    """Whether attention kernels were run (--kernels): "ran", "none ran", or empty when not requested."""
    shares: Mapping[str, float] | None = None
    """Kernel -> its speed as a share of a matrix product on the same GPU, of the slowest GPU; from --kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Input that is not a report. `source` is where it was read, `node` the node that sent it, if recognizable."""

    source: str
    reason: str
    node: str | None = None
    task: int | None = None
    """Task number under `srun --label`: the node's position in the job."""
    unlabelled: bool = False
    """It came in lines without a label: the launcher broke the lines apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBy:
    """One finding, and the nodes that have it."""

    finding: NodeFinding
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a fact, and the nodes of a cohort that have it."""

    shown: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact that is not equal on all nodes of a cohort."""

    fact: str
    importance: Importance
    baseline: str | None
    """The value of the majority or of the golden file; None when no value has more than half of the nodes."""
    others: tuple[Value, ...]
    unknown: tuple[Value, ...] = ()
    """Nodes where the fact is unknown although the baseline has a value; `shown` is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OddGroup:
    """Nodes that differ from their cohort in the same facts and values."""

    nodes: tuple[str, ...]
    differences: tuple[tuple[str, str | None, str], ...]
    """(fact, baseline, value on these nodes), for facts of one importance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Nodes that should be equal."""

    key: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    fingerprints: int
    """Number of different fingerprints."""
    deep: tuple[str, ...]
    """The nodes that were examined in depth as well."""
    quick: bool
    """At least one node was examined by its files alone."""
    by_golden: bool
    golden_missing: bool
    """A golden file was given, but it does not contain this cohort."""
    drifting: tuple[OddGroup, ...]
    """Groups that differ in critical facts."""
    benign: tuple[OddGroup, ...]
    undecided: tuple[Difference, ...]
    """Facts without a majority: every value with its nodes."""
    uncompared: tuple[Difference, ...]
    """Critical facts that are unknown on some nodes."""
    unknown: tuple[tuple[str, str], ...] = ()
    """(fact, reason) for facts that are unknown on every node: critical facts, and facts needed for the verdict."""
    unproven: bool = False
    """One of these unknown facts is needed before a node can be called fit."""
    unproven_nodes: tuple[str, ...] = ()
    """The nodes for which that holds: a deep examination may have found what files do not say."""
    serves: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What software has to run on: (driver, glibc, machine, python) -> the values of its nodes, the lowest first."""


class State(str, Enum):
    """The state of one node; the first that applies, in this order."""

    FAILS = "fails"
    DRIFTS = "drifts"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNSURE = "unsure"
    FIT = "fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVerdict:
    """The verdict over all nodes."""

    created: str
    exit_status: int
    expected: tuple[str, ...] | None
    """The expected nodes; None when no list was given."""
    states: Mapping[str, State]
    reports: int
    missing: tuple[str, ...]
    missing_because: Mapping[str, str]
    """Node -> the message of the engine or of the node itself."""
    not_started: tuple[str, ...]
    """Missing nodes on which the engine started nothing: busy, reserved or refused, which says nothing about them."""
    unreadable: tuple[Unreadable, ...]
    unexpected: tuple[str, ...]
    failing: tuple[FailedBy, ...]
    """Findings that fail nodes."""
    warned: tuple[FailedBy, ...]
    unexamined: tuple[tuple[str, str], ...]
    """(node, reason) for nodes whose own report records that they could not be examined."""
    not_deep: tuple[str, ...]
    """Nodes that should have been examined in depth and sent no report of it."""
    without_gpu: tuple[str, ...]
    """Nodes on which no GPU was found: their results hold only for jobs that need none."""
    without_torch: tuple[str, ...]
    """Nodes with an environment without torch: no attention stack was examined in it."""
    open_questions: tuple[tuple[str, tuple[str, ...]], ...]
    cohorts: tuple[Cohort, ...]
    repeated: tuple[str, ...]
    """Nodes with several reports for one environment; the latest counts."""
    same_name: tuple[str, ...]
    """Names that two machines share."""
    skewed: tuple[tuple[str, str], ...]
    """(node, how far its clock is off)"""
    old: tuple[tuple[str, str], ...]
    """(node, time of its last examination) for nodes examined long ago."""
    aging: tuple[tuple[str, str], ...]
    """The same for nodes that are not too old yet, and were examined more than a day ago."""
    age_decides: bool
    """A maximum age was given, so these nodes are not known to be fit."""
    without_fingerprint: tuple[str, ...]
    versions: tuple[tuple[str, tuple[str, ...]], ...]
    """Versions of attn-doctor in the reports, when they differ."""
    kernels: tuple[tuple[str, tuple[str, ...]], ...]
    """(result of --kernels, nodes), where the result is "ran", "none ran" or "not asked for"; empty when no node ran
    it.
    """
    slow: tuple[tuple[str, str], ...]
    """(node, which kernel is how far below its peers), from --kernels."""
    stands_for: Mapping[str, tuple[str, ...]]
    """Node examined in depth -> the nodes of the same fingerprint that it represents."""

    def nodes_in(self, *states: State) -> tuple[str, ...]:
        """The nodes that are in one of these states."""
        return tuple(node for node, state in self.states.items() if state in states)
