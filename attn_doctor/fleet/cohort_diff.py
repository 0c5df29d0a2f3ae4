"""Compares the nodes of one cohort with their majority or with a golden file. Pure.

The vote is per fact and node: the value of more than half of the nodes is the baseline. When one fingerprint has the
majority, the baseline is that fingerprint. When every node differs in some fact (a value of its own), the other facts
are still compared.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

from attn_doctor.fleet.cohorts import Voting
from attn_doctor.fleet.gather import ABSENT, CohortKey, Gathered, Record
from attn_doctor.model.fingerprint import Importance, whole_family
from attn_doctor.model.fleet import Cohort, Difference, OddGroup, Value
from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass

_Weigh: TypeAlias = Callable[[str], Importance]
#: Facts that decide what would run at all; the driver is added on nodes with GPUs.
_DECIDING = frozenset({"packages.torch", "gpu_count", "compute_capability"})
#: In place of the number of a pair, for a name that a node does not have.
_NOT_THERE = -1
#: In place of the number of a pair, for a value of a golden file that no node has.
_NOWHERE = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The values that a golden file gives for one cohort."""

    facts: Mapping[str, Any]


@dataclass(slots=True)
class _Fact:
    name: str
    counts: dict[int, int]
    """Number of a pair -> number of nodes that have it."""
    baseline: int | None = None
    """Number of a pair; _NOT_THERE; or None when there is no majority."""
    baseline_shown: str | None = None


def compare(
    gathered: Gathered,
    key: CohortKey,
    members: Sequence[Voting],
    *,
    expectation: Expectation | None,
    golden: bool,
    policy: Policy,
) -> Cohort:
    """Compares the `members` of one cohort; `golden`: a golden file was given; `policy`: of the cohort's partition."""
    importance = functools.cache(policy.importance)
    votes = _holders(members, lambda member: member.voters)
    holders = _holders(members, lambda member: member.held)
    facts = _varying(gathered, votes, [one for one in holders if one not in votes], expectation, importance)
    deciding = _DECIDING | ({"driver"} if dict(key).get("gpu") else set())
    judged = {fact.name: fact for fact in facts}
    theirs = _theirs(gathered, holders, judged)
    odd: dict[Importance, dict[tuple[tuple[str, str | None, str], ...], list[str]]] = {
        Importance.CRITICAL: defaultdict(list),
        Importance.BENIGN: defaultdict(list),
    }
    unlooked: dict[str, list[int]] = defaultdict(list)
    for fingerprint, nodes in holders.items():
        different: dict[Importance, list[tuple[str, str | None, str]]] = defaultdict(list)
        for fact in facts:
            if fact.baseline is None or _unknown(gathered, fact.baseline):
                continue
            pair = theirs[fingerprint].get(fact.name, _NOT_THERE)
            if pair == fact.baseline:
                continue
            if _unknown(gathered, pair):
                unlooked[fact.name].append(fingerprint)
            else:
                weight = importance(fact.name)
                different[weight].append((fact.name, fact.baseline_shown, _shown(gathered, pair)))
        for weight, found in different.items():
            odd[weight][tuple(found)] += nodes
    # A fact in the golden file is reported as not compared with it.
    told = {name for name in unlooked if importance(name) is Importance.CRITICAL}
    unknown = tuple(one for one in _unknown_everywhere(gathered, votes, deciding, importance) if one[0] not in told)
    unproven = {name for name, _ in unknown if name in deciding}
    return Cohort(
        key=key,
        nodes=tuple(sorted({member.node for member in members})),
        deep=tuple(sorted({member.node for member in members if not member.quick})),
        fingerprints=len(holders),
        quick=any(member.quick for member in members),
        by_golden=expectation is not None,
        golden_missing=golden and expectation is None,
        drifting=_groups(odd[Importance.CRITICAL]),
        benign=_groups(odd[Importance.BENIGN]),
        undecided=tuple(
            _difference(fact, gathered, holders, theirs, holders, importance) for fact in facts if fact.baseline is None
        ),
        uncompared=tuple(
            _difference(judged[name], gathered, holders, theirs, fingerprints, importance)
            for name, fingerprints in sorted(unlooked.items())
            if importance(name) is Importance.CRITICAL
        ),
        unknown=unknown,
        unproven=bool(unproven),
        unproven_nodes=_not_looked_at(gathered, holders, unproven) if unproven else (),
        serves=_serves(gathered, holders),
    )


#: Facts of a fingerprint that decide which releases of packages run on a node, beside its GPUs.
_SERVED = ("driver", "glibc", "machine", "python")


def _serves(gathered: Gathered, holders: Iterable[int]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    numbers = {number for number, pair in enumerate(gathered.pairs) if pair.name in _SERVED and not pair.unknown}
    there = {gathered.pairs[one] for held in holders for one in numbers.intersection(gathered.fingerprints[held])}
    found: dict[str, set[str]] = defaultdict(set)
    for pair in there:
        found[pair.name].add(pair.shown)
    return tuple((name, tuple(sorted(found[name], key=_as_version))) for name in sorted(found))


def _as_version(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in text.split("."))


def _holders(members: Iterable[Voting], which: Callable[[Voting], tuple[Record, ...]]) -> dict[int, list[str]]:
    """Fingerprint -> the nodes that have it."""
    holders: dict[int, list[str]] = defaultdict(list)
    for member in members:
        for record in which(member):
            if record.fingerprint is not None:
                holders[record.fingerprint].append(member.node)
    return holders


def _not_looked_at(gathered: Gathered, holders: Mapping[int, Sequence[str]], names: Set[str]) -> tuple[str, ...]:
    """The nodes on which one of these facts is unknown: a deep examination may have found what the files do not say."""
    found: set[str] = set()
    for fingerprint, nodes in holders.items():
        pairs = (gathered.pairs[one] for one in gathered.fingerprints[fingerprint])
        if any(pair.unknown and pair.name in names for pair in pairs):
            found.update(nodes)
    return tuple(sorted(found))


def _unknown_everywhere(
    gathered: Gathered, holders: Iterable[int], deciding: Set[str], importance: _Weigh
) -> tuple[tuple[str, str], ...]:
    """Facts unknown on all nodes: since all are alike, no vote would ever report them."""
    shared = set.intersection(*(set(gathered.fingerprints[one]) for one in holders))
    found = (gathered.pairs[one] for one in shared if gathered.pairs[one].unknown)
    return tuple(
        sorted(
            (pair.name, pair.shown)
            for pair in found
            if importance(pair.name) is Importance.CRITICAL or pair.name in deciding
        )
    )


def majority(gathered: Gathered, members: Iterable[Voting]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the facts on which more than half of the nodes agree, and the names of the others, for a golden file.

    Unknown facts never become part of a golden file.
    """
    holders = _holders(members, lambda member: member.voters)
    counts, total = _counts(gathered, holders)
    by_name: dict[str, dict[int, int]] = defaultdict(dict)
    for pair, count in counts.items():
        by_name[gathered.pairs[pair].name][pair] = count
    agreed: dict[str, Any] = {}
    left = []
    for name, values in sorted(by_name.items()):
        fact = _voted(name, values, total, gathered)
        if fact.baseline is None:
            left.append(name)
        elif fact.baseline != _NOT_THERE:
            agreed[name] = gathered.value(fact.baseline)
    return agreed, tuple(left)


def _counts(gathered: Gathered, holders: Mapping[int, Sequence[str]]) -> tuple[Counter[int], int]:
    # Grouped by weight, so that Counter counts arrays at C speed: ten thousand fingerprints have millions of pairs.
    by_weight: dict[int, list[int]] = defaultdict(list)
    for fingerprint, nodes in holders.items():
        by_weight[len(nodes)].append(fingerprint)
    counts: Counter[int] = Counter()
    for weight, fingerprints in by_weight.items():
        some: Counter[int] = Counter()
        for fingerprint in fingerprints:
            some.update(gathered.fingerprints[fingerprint])
        for pair, count in some.items():
            counts[pair] += weight * count
    return counts, sum(len(nodes) for nodes in holders.values())


def _varying(
    gathered: Gathered,
    votes: Mapping[int, Sequence[str]],
    others: Iterable[int],
    expectation: Expectation | None,
    importance: _Weigh,
) -> list[_Fact]:
    """The facts in which nodes differ, each with the vote on it; `others` are fingerprints that do not vote."""
    counts, total = _counts(gathered, votes)
    universal = {pair for pair, count in counts.items() if count == total}
    touched: set[str] = set()
    for fingerprint in others:
        # What they have beside the vote, and what they lack of it.
        touched.update(
            gathered.pairs[pair].name for pair in universal.symmetric_difference(gathered.fingerprints[fingerprint])
        )
    by_name: dict[str, dict[int, int]] = {name: {} for name in touched}
    for pair, count in counts.items():
        name = gathered.pairs[pair].name
        if pair not in universal or expectation is not None or name in touched:
            by_name.setdefault(name, {})[pair] = count
    names = sorted(by_name if expectation is None else {*by_name, *expectation.facts})
    weighed = [name for name in names if importance(name) is not Importance.IGNORED]
    if expectation is None:
        return [_voted(name, by_name[name], total, gathered) for name in weighed]
    found = []
    for name in weighed:
        value = expectation.facts.get(name)
        number = _NOT_THERE if value is None else gathered.number_of(name, value)
        values = by_name.get(name, {})
        if name not in touched and number in universal and number in values:
            continue
        # A value that no node has: a number that equals none of theirs.
        found.append(
            _Fact(name, values, _NOWHERE if number is None else number, ABSENT if value is None else str(value))
        )
    return found


def _voted(name: str, values: Mapping[int, int], total: int, gathered: Gathered) -> _Fact:
    counts = {**values, _NOT_THERE: total - sum(values.values())}
    known = {pair: count for pair, count in counts.items() if pair == _NOT_THERE or not gathered.pairs[pair].unknown}
    voters = sum(known.values())
    best = max(known, key=lambda pair: (known[pair], pair), default=None) if voters else None
    if best is None or known[best] * 2 <= voters:
        if not voters:  # unknown on every node: nothing to compare
            only = next(iter(values))
            return _Fact(name, dict(values), only, gathered.pairs[only].shown)
        return _Fact(name, {pair: count for pair, count in counts.items() if count})
    return _Fact(name, dict(values), best, _shown(gathered, best))


def _theirs(gathered: Gathered, holders: Iterable[int], judged: Mapping[str, _Fact]) -> dict[int, dict[str, int]]:
    """Fingerprint -> its pairs of the facts that vary.

    Where a node could list none of a kind, the pair that says so stands for each fact of that kind that it lacks.
    """
    voted = {pair for fact in judged.values() for pair in fact.counts if pair != _NOT_THERE}
    found = {}
    for fingerprint in holders:
        pairs = gathered.fingerprints[fingerprint]
        wanted = voted.intersection(pairs)
        if len(wanted) < len(judged):  # it lacks some, or has values that nobody voted for
            wanted.update(pair for pair in pairs if gathered.pairs[pair].name in judged)
        theirs = {gathered.pairs[pair].name: pair for pair in wanted}
        for name, pair in list(theirs.items()):
            if name.endswith(".*"):
                theirs |= {one: pair for one in judged if one not in theirs and whole_family(one) == name}
        found[fingerprint] = theirs
    return found


def _difference(
    fact: _Fact,
    gathered: Gathered,
    holders: Mapping[int, Sequence[str]],
    theirs: Mapping[int, Mapping[str, int]],
    fingerprints: Iterable[int],
    importance: _Weigh,
) -> Difference:
    nodes_of: dict[int, list[str]] = defaultdict(list)
    for fingerprint in fingerprints:
        nodes_of[theirs[fingerprint].get(fact.name, _NOT_THERE)] += holders[fingerprint]
    values = {
        pair: Value(shown=_shown(gathered, pair), nodes=tuple(sorted(set(nodes)))) for pair, nodes in nodes_of.items()
    }
    return Difference(
        fact=fact.name,
        importance=importance(fact.name),
        baseline=fact.baseline_shown,
        others=_ordered(value for pair, value in values.items() if not _unknown(gathered, pair)),
        unknown=_ordered(value for pair, value in values.items() if _unknown(gathered, pair)),
    )


def _unknown(gathered: Gathered, pair: int) -> bool:
    return pair >= 0 and gathered.pairs[pair].unknown


def _ordered(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(sorted(values, key=lambda value: (-len(value.nodes), value.shown)))


def _groups(found: Mapping[tuple[tuple[str, str | None, str], ...], list[str]]) -> tuple[OddGroup, ...]:
    groups = (OddGroup(nodes=tuple(sorted(set(nodes))), differences=what) for what, nodes in found.items())
    return tuple(sorted(groups, key=lambda group: (-len(group.nodes), group.nodes, group.differences)))


def _shown(gathered: Gathered, pair: int) -> str:
    return ABSENT if pair == _NOT_THERE else gathered.pairs[pair].shown
