"""Computes the verdict from all reports and the expected nodes. Pure.

The verdict comes from reports alone, never from the launcher's exit status: srun returns 0 even when a node was lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from attn_doctor.fleet.clocks import old_reports, skewed_clocks
from attn_doctor.fleet.cohort_diff import Expectation, compare
from attn_doctor.fleet.cohorts import COHORT_BY, Voting, cohorts, environment_of, represented
from attn_doctor.fleet.gather import CohortKey, Gathered, Record
from attn_doctor.fleet.kernel_outliers import SlowKernel, slow_kernels
from attn_doctor.fleet.launcher_messages import because
from attn_doctor.fleet.site_policy import SitePolicy
from attn_doctor.model.fleet import Cohort, FailedBy, FleetVerdict, NodeFinding, State, Unreadable
from attn_doctor.model.full_verdict import OF_ONE_NODE
from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass, field, replace

_NO_GPU = "GPUs were asked for, and none is seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Options for the verdict."""

    now: datetime
    expected: tuple[str, ...] | None = None
    """Expected nodes; in the order of the job, if there is one."""
    deep_expected: tuple[str, ...] = ()
    """Nodes that were also asked for a deep examination."""
    gpus_asked: bool = False
    """The engine was to allocate GPUs: a node on which none is found counts as not examined."""
    gpus_asked_on: frozenset[str] = frozenset()
    """The same for these nodes alone: each job asked for the GPUs of its own node."""
    not_started: tuple[str, ...] = ()
    """Nodes on which the engine started nothing: busy, reserved, refused. That says nothing about the node."""
    cohort_by: tuple[str, ...] = COHORT_BY
    cohorts_as_given: bool = False
    """Cohorts were given by option: nodes without a GPU stay in their own."""
    golden: Mapping[CohortKey, Expectation] | None = None
    max_age: timedelta | None = None
    """A node whose last report is older is not known to be fit. None: as the policy says, if `age_decides`."""
    age_decides: bool = False
    """Without a maximum age of its own: the policy's counts. Else old reports are marked, without effect on the
    verdict."""
    policy: Policy = field(default_factory=Policy)
    engine_said: Sequence[str] = ()
    node_said: Mapping[str, str] = field(default_factory=dict)


def verdict(gathered: Gathered, question: Question) -> FleetVerdict:
    """Computes the verdict. The order in which reports arrived does not change it."""
    names = _names(gathered, question.expected)
    records = _named(gathered, names)
    unreadable = _unreadable(gathered, question.expected, names)
    seen = {record.node for record in records}
    sent = {one.node for one in unreadable if one.node is not None}
    expected = question.expected
    missing = tuple(sorted(set(expected or ()) - seen - sent))
    not_deep = _not_deep(records, question.deep_expected, missing)
    site = SitePolicy(question.policy, today=question.now.date())
    counting = [site.judged(record) for record in _counting(records)]
    compared, by_cohort = _cohorts(gathered, records, question, site)
    stands_for = represented(by_cohort)
    slow = _slow(by_cohort, site)
    failing, warned = _findings(counting, stands_for, site.slower(slow))
    same_name = tuple(sorted({names.get(node, node) for node in gathered.shared_names()}))
    unexamined = {record.node: record.outcome.failure for record in counting if record.outcome.unexamined}
    without_gpu = tuple(sorted({one.node for one in counting if dict(one.cohort).get("gpu_count") == "0"}))
    blind = [node for node in without_gpu if question.gpus_asked or node in question.gpus_asked_on]
    unexamined = {**dict.fromkeys(blind, _NO_GPU), **unexamined}
    without = tuple(
        sorted({one.node for one in records if one.fingerprint is None and not (one.limited or one.outcome.failure)})
    )
    age_decides = question.max_age is not None or question.age_decides
    young = partial(site.span, "young-hours")
    longest = young if not age_decides else lambda one: question.max_age or site.span("max-age-days", one)
    old = old_reports(records, question.now, longest)
    too_old = {*old}
    skewed = skewed_clocks(records, question.now, partial(site.span, "clock-ahead-minutes"))
    wanted = {*missing, *not_deep, *sent}
    said = because(question.engine_said, question.node_said, wanted, nothing_came=not gathered.reports)
    states = _states(
        {
            State.FAILS: [node for one in failing for node in one.nodes],
            State.DRIFTS: [node for cohort in compared for node in _drifting(cohort)],
            State.MISSING: missing,
            State.UNREADABLE: sent,
            State.UNSURE: [
                *unexamined,
                *same_name,
                *without,
                *not_deep,
                *(node for node, _ in (old if age_decides else ())),
                *(node for node, _ in skewed),
                *_unsure(compared),
            ],
            State.FIT: seen,
        }
    )
    return FleetVerdict(
        created=question.now.isoformat(timespec="seconds"),
        exit_status=_status(states.values(), unreadable),
        expected=expected,
        states=states,
        reports=gathered.reports,
        missing=missing,
        missing_because=said,
        not_started=tuple(sorted(set(question.not_started) & set(missing))),
        unreadable=unreadable,
        unexpected=tuple(sorted(seen - set(expected))) if expected is not None else (),
        failing=failing,
        warned=warned,
        unexamined=tuple(sorted(unexamined.items())),
        not_deep=not_deep,
        without_gpu=without_gpu,
        without_torch=_without_torch(gathered, counting),
        open_questions=_folded((recipe, one.node) for one in counting for recipe in one.outcome.open_questions),
        cohorts=compared,
        repeated=tuple(sorted({names.get(one, one) for one in gathered.repeated})),
        same_name=same_name,
        skewed=skewed,
        old=old,
        aging=tuple(one for one in old_reports(records, question.now, young) if one not in too_old),
        age_decides=age_decides,
        without_fingerprint=without,
        versions=_versions(counting),
        kernels=_kernels(counting),
        slow=tuple((one.node, one.words()) for one, _ in slow),
        stands_for=stands_for,
    )


def _names(gathered: Gathered, expected: Sequence[str] | None) -> dict[str, str]:
    """Name in a report -> name in the expected set, with or without the domain."""
    if expected is None:
        return {}
    wanted = set(expected)
    by_short: dict[str, set[str]] = defaultdict(set)
    for name in wanted:
        by_short[name.partition(".")[0]].add(name)
    found = {}
    for node in {record.node for record in gathered.all_records()} | {
        one.node for one in gathered.unreadable if one.node
    }:
        fitting = by_short.get(node.partition(".")[0], set())
        one = next(iter(fitting)) if len(fitting) == 1 else node
        # n1.here and n1.there are two nodes: only a name without a domain may match one with a domain.
        if node not in wanted and (one == one.partition(".")[0] or node == node.partition(".")[0]):
            found[node] = one
    return found


def _named(gathered: Gathered, names: Mapping[str, str]) -> list[Record]:
    every = (record for _, record in gathered.every())
    return [replace(record, node=names[record.node]) if record.node in names else record for record in every]


def _unreadable(gathered: Gathered, expected: Sequence[str] | None, names: Mapping[str, str]) -> tuple[Unreadable, ...]:
    places = gathered.places(expected or (), proven=True)
    found = []
    for one in gathered.unreadable:
        node = one.node or (places.get(one.task) if one.task is not None else None)
        found.append(replace(one, node=names.get(node, node) if node is not None else None))
    return tuple(sorted(found, key=lambda one: (one.node or "", one.source, one.reason)))


def _cohorts(
    gathered: Gathered, records: Sequence[Record], question: Question, site: SitePolicy
) -> tuple[tuple[Cohort, ...], list[list[Voting]]]:
    found = []
    groups = cohorts(records, question.cohort_by, as_given=question.cohorts_as_given)
    for key, there in groups.items():
        expectation = None if question.golden is None else question.golden.get(key)
        policy = site.of(dict(key).get("partition"))
        golden = question.golden is not None
        found.append(compare(gathered, key, there, expectation=expectation, golden=golden, policy=policy))
    return tuple(found), list(groups.values())


def _not_deep(records: Iterable[Record], asked: Sequence[str], missing: Sequence[str]) -> tuple[str, ...]:
    """The nodes that were asked for a deep examination and sent none, of those that answered at all."""
    left = set(asked) - set(missing)
    return tuple(sorted(left - {record.node for record in records if not record.quick and record.node in left}))


def _counting(records: Sequence[Record]) -> list[Record]:
    """The records whose findings count: for each environment the deep one, unless a quick one is newer."""
    if len({record.quick for record in records}) < 2:
        return list(records)
    by_place: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_place[record.node, environment_of(record)].append(record)
    found = []
    for there in by_place.values():
        newest_deep = max((one.created for one in there if not (one.quick or one.limited)), default=None)
        found += [one for one in there if not one.quick or newest_deep is None or one.created > newest_deep]
    return found


def _findings(
    records: Iterable[Record], stands_for: Mapping[str, tuple[str, ...]], slower: Mapping[NodeFinding, set[str]]
) -> tuple[tuple[FailedBy, ...], tuple[FailedBy, ...]]:
    failing: dict[NodeFinding, set[str]] = defaultdict(set, slower)
    warned: dict[NodeFinding, set[str]] = defaultdict(set)
    for record in records:
        nodes = {record.node, *(() if record.quick else stands_for.get(record.node, ()))}
        gating = record.outcome.gating()
        for finding in record.outcome.findings:
            where = {record.node} if finding.id in OF_ONE_NODE else nodes
            (failing if finding in gating else warned)[finding] |= where
        if record.outcome.fails and not gating:
            failing[NodeFinding(id="unnamed", severity="error", title="it exits with 1 and names no finding")] |= nodes
    # A finding that fails a node or its representative is not repeated as a warning.
    gated: dict[str, set[str]] = defaultdict(set)
    for finding, nodes in failing.items():
        gated[finding.id] |= nodes
    left = {finding: nodes - gated[finding.id] for finding, nodes in warned.items()}
    return _ranked(failing), _ranked({finding: nodes for finding, nodes in left.items() if nodes})


def _kernels(records: Iterable[Record]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(result of --kernels, nodes); if one report of a node has a result, --kernels was requested there."""
    records = [*records]
    if not any(record.kernels for record in records):
        return ()
    by_node: dict[str, set[str]] = defaultdict(set)
    for record in records:
        by_node[record.node].add(record.kernels)
    found: dict[str, list[str]] = {"ran": [], "none ran": [], "not asked for": []}
    for node, states in sorted(by_node.items()):
        found["ran" if "ran" in states else "none ran" if "none ran" in states else "not asked for"].append(node)
    asked = found["ran"] or found["none ran"]
    return tuple((state, tuple(nodes)) for state, nodes in found.items() if nodes) if asked else ()


def _slow(by_cohort: Iterable[Sequence[Voting]], site: SitePolicy) -> list[tuple[SlowKernel, str | None]]:
    """Kernels that are slower than those of the node's peers, each with the node's partition."""
    found: list[tuple[SlowKernel, str | None]] = []
    for members in by_cohort:
        records = (record for member in members for record in (*member.voters, *member.held))
        shares = {record.node: record.shares for record in records if record.shares}
        partition = dict(members[0].voters[0].cohort).get("partition")
        found += [(one, partition) for one in slow_kernels(shares, site.of(partition))]
    return found


def _ranked(found: Mapping[NodeFinding, set[str]]) -> tuple[FailedBy, ...]:
    every = (FailedBy(finding=finding, nodes=tuple(sorted(nodes))) for finding, nodes in found.items())
    return tuple(sorted(every, key=lambda one: (-len(one.nodes), one.finding.id, one.finding.title)))


def _drifting(cohort: Cohort) -> Iterable[str]:
    for group in cohort.drifting:
        yield from group.nodes
    for difference in cohort.undecided:
        if difference.importance.value == "critical":
            for value in difference.others:
                yield from value.nodes


def _unsure(cohorts: Iterable[Cohort]) -> Iterable[str]:
    for cohort in cohorts:
        for difference in (*cohort.uncompared, *cohort.undecided):
            if difference.importance.value == "critical":
                for value in difference.unknown:
                    yield from value.nodes
        yield from cohort.nodes if cohort.golden_missing else cohort.unproven_nodes


def _states(found: Mapping[State, Iterable[str]]) -> dict[str, State]:
    states: dict[str, State] = {}
    for state in State:
        for node in found[state]:
            states.setdefault(node, state)
    return {node: states[node] for node in sorted(states)}


def _status(states: Iterable[State], unreadable: Sequence[Unreadable]) -> int:
    every = set(states)
    if every & {State.FAILS, State.DRIFTS}:
        return 1
    return 3 if unreadable or every != {State.FIT} else 0


def _folded(found: Iterable[tuple[str, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    nodes: dict[str, set[str]] = defaultdict(set)
    for what, node in found:
        nodes[what].add(node)
    return tuple((what, tuple(sorted(there))) for what, there in sorted(nodes.items()))


def _versions(records: Iterable[Record]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = _folded((record.outcome.doctor_version, record.node) for record in records)
    return found if len(found) > 1 else ()


def _without_torch(gathered: Gathered, records: Iterable[Record]) -> tuple[str, ...]:
    """Nodes with a fingerprint without torch: an absent fact has no pair."""
    torches = {number for number, pair in enumerate(gathered.pairs) if pair.name == "packages.torch"}
    bare = {number for number, pairs in enumerate(gathered.fingerprints) if torches.isdisjoint(pairs)}
    return tuple(sorted({record.node for record in records if record.fingerprint in bare}))
