"""Compares the nodes of one cohort with their majority or with a golden file. Pure.

The vote is per fact: the value of more than half of the nodes is the baseline. When one fingerprint has the majority,
the baseline is that fingerprint. When every node differs in some fact (a value of its own), the other facts are still
compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from attn_doctor.fleet.gather import ABSENT, CohortKey, Gathered, Record
from attn_doctor.model.fingerprint import Importance, importance, whole_family
from attn_doctor.model.fleet import Cohort, Difference, OddGroup, Value
from attn_doctor.quick_dataclasses import dataclass

#: Facts that decide what would run at all; the driver is added on nodes with GPUs.
_DECIDING = frozenset({"packages.torch", "gpu_count", "compute_capability"})
#: In place of the number of a pair, for a name that a node does not have.
_NOT_THERE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The values that a golden file gives for one cohort."""

    facts: Mapping[str, Any]
    quick: bool


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
    records: Sequence[Record],
    *,
    quick: bool,
    expectation: Expectation | None,
    golden: bool,
) -> Cohort:
    """Compares `records`, which are all of one cohort and have fingerprints; `golden`: a golden file was given."""
    holders: dict[int, list[str]] = defaultdict(list)
    for record in records:
        if record.fingerprint is not None:
            holders[record.fingerprint].append(record.node)
    facts = _varying(gathered, holders, expectation, quick=quick)
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
            if fact.baseline is None:
                continue
            pair = theirs[fingerprint].get(fact.name, _NOT_THERE)
            if pair == fact.baseline:
                continue
            if pair != _NOT_THERE and gathered.pairs[pair].unknown:
                unlooked[fact.name].append(fingerprint)
            else:
                weight = importance(fact.name)
                different[weight].append((fact.name, fact.baseline_shown, _shown(gathered, pair)))
        for weight, found in different.items():
            odd[weight][tuple(found)] += nodes
    # A fact in the golden file is reported as not compared with it.
    told = {name for name in unlooked if importance(name) is Importance.CRITICAL}
    unknown = tuple(one for one in _unknown_everywhere(gathered, holders, deciding) if one[0] not in told)
    return Cohort(
        key=key,
        nodes=tuple(sorted({record.node for record in records})),
        fingerprints=len(holders),
        quick=quick,
        by_golden=expectation is not None,
        golden_missing=golden and expectation is None,
        drifting=_groups(odd[Importance.CRITICAL]),
        benign=_groups(odd[Importance.BENIGN]),
        undecided=tuple(
            _difference(fact, gathered, holders, theirs, holders) for fact in facts if fact.baseline is None
        ),
        uncompared=tuple(
            _difference(judged[name], gathered, holders, theirs, fingerprints)
            for name, fingerprints in sorted(unlooked.items())
            if importance(name) is Importance.CRITICAL
        ),
        unknown=unknown,
        unproven=any(name in deciding for name, _ in unknown),
    )


def _unknown_everywhere(gathered: Gathered, holders: Iterable[int], deciding: Set[str]) -> tuple[tuple[str, str], ...]:
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


def majority(gathered: Gathered, records: Iterable[Record]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the facts on which more than half of the nodes agree, and the names of the others, for a golden file.

    Unknown facts never become part of a golden file.
    """
    holders: dict[int, list[str]] = defaultdict(list)
    for record in records:
        if record.fingerprint is not None:
            holders[record.fingerprint].append(record.node)
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
    gathered: Gathered, holders: Mapping[int, Sequence[str]], expectation: Expectation | None, *, quick: bool
) -> list[_Fact]:
    counts, total = _counts(gathered, holders)
    by_name: dict[str, dict[int, int]] = defaultdict(dict)
    universal: set[str] = set()
    for pair, count in counts.items():
        name = gathered.pairs[pair].name
        if count == total and expectation is None:
            continue
        by_name[name][pair] = count
        if count == total:
            universal.add(name)
    found = []
    if expectation is not None:
        same_depth = expectation.quick == quick
        names = {*by_name, *expectation.facts} if same_depth else {*by_name} & {*expectation.facts}
        for name in sorted(names):
            value = expectation.facts.get(name)
            number = _NOT_THERE if value is None else gathered.number_of(name, value)
            shown = ABSENT if value is None else str(value)
            values = by_name.get(name, {})
            if not (name in universal and number in values) and importance(name) is not Importance.IGNORED:
                # A value that no node has: a number that equals none of theirs.
                found.append(_Fact(name, values, -2 if number is None else number, shown))
        return found
    return [
        _voted(name, values, total, gathered)
        for name, values in sorted(by_name.items())
        if importance(name) is not Importance.IGNORED
    ]


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
    wanted = {pair for fact in judged.values() for pair in fact.counts if pair != _NOT_THERE}
    unlisted = {pair for pair in wanted if gathered.pairs[pair].name.endswith(".*")}
    found = {}
    for fingerprint in holders:
        pairs = gathered.fingerprints[fingerprint]
        theirs = {gathered.pairs[pair].name: pair for pair in wanted.intersection(pairs)}
        for pair in unlisted.intersection(pairs):
            for name in judged:
                if whole_family(name) == gathered.pairs[pair].name:
                    theirs.setdefault(name, pair)
        found[fingerprint] = theirs
    return found


def _difference(
    fact: _Fact,
    gathered: Gathered,
    holders: Mapping[int, Sequence[str]],
    theirs: Mapping[int, Mapping[str, int]],
    fingerprints: Iterable[int],
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
    return pair != _NOT_THERE and gathered.pairs[pair].unknown


def _ordered(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(sorted(values, key=lambda value: (-len(value.nodes), value.shown)))


def _groups(found: Mapping[tuple[tuple[str, str | None, str], ...], list[str]]) -> tuple[OddGroup, ...]:
    groups = (OddGroup(nodes=tuple(sorted(set(nodes))), differences=what) for what, nodes in found.items())
    return tuple(sorted(groups, key=lambda group: (-len(group.nodes), group.nodes, group.differences)))


def _shown(gathered: Gathered, pair: int) -> str:
    return ABSENT if pair == _NOT_THERE else gathered.pairs[pair].shown
