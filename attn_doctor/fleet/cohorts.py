"""Forms cohorts of nodes: one vote for each node and environment, however many reports describe it. Pure.

A node that was examined by its files and then in depth sent two reports. It is one node: the quick report votes, since
every node of a round has one, and the deep one is held against that vote. Otherwise the few nodes that represent others
would form an electorate of their own, in which each odd node counts as much as the hundred that one node represents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias

from attn_doctor.fleet.gather import CohortKey, Record, moment
from attn_doctor.quick_dataclasses import dataclass

#: The number of GPUs is not part of it: a node that lost a GPU must differ within its cohort instead of forming a new
#: one.
COHORT_BY = ("gpu", "compute_capability", "partition", "environment")
#: A quick report that is older than its node's deep report by more than this belongs to an earlier round.
_ROUND = timedelta(hours=24)
_GPU = frozenset({"gpu", "compute_capability"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node with one environment."""

    node: str
    voters: tuple[Record, ...]
    """The records that vote; several only when two machines share the name."""
    held: tuple[Record, ...]
    """The records that are compared with the vote: the latest ones."""
    quick: bool
    """No deep report of it exists."""


#: A node with several reports, or the only report of one.
Voting: TypeAlias = Member | Record


def members(records: Iterable[Record]) -> Iterator[Voting]:
    """The nodes with their environments, for records with a fingerprint."""
    by_place: dict[str, dict[str, Record | tuple[Record, ...]]] = defaultdict(dict)
    for record in records:
        if record.fingerprint is not None:
            by_node = by_place[environment_of(record)]
            there = by_node.get(record.node)
            if there is None:
                by_node[record.node] = record
            else:
                by_node[record.node] = (*(there if isinstance(there, tuple) else (there,)), record)
    for by_node in by_place.values():
        for node, there in by_node.items():
            yield _member(node, there) if isinstance(there, tuple) else there


def environment_of(record: Record) -> str:
    """The environment that the record describes."""
    return dict(record.cohort).get("environment", "")


def _member(node: str, there: tuple[Record, ...]) -> Member:
    quick = tuple(record for record in there if record.quick)
    deep = tuple(record for record in there if not record.quick)
    if not (quick and deep):
        return Member(node=node, voters=(*quick, *deep), held=(*quick, *deep), quick=not deep)
    newest_quick, newest_deep = max(one.created for one in quick), max(one.created for one in deep)
    if _rounds_apart(newest_quick, newest_deep):
        return Member(node=node, voters=deep, held=deep, quick=False)
    if max(len(quick), len(deep)) > 1:  # two machines of one name: each is compared
        return Member(node=node, voters=quick, held=(*quick, *deep), quick=False)
    return Member(node=node, voters=quick, held=quick if newest_quick > newest_deep else deep, quick=False)


def _rounds_apart(quick: str, deep: str) -> bool:
    try:
        return moment(deep) - moment(quick) > _ROUND
    except ValueError:
        return False


def cohorts(
    records: Iterable[Record], cohort_by: Sequence[str], *, as_given: bool = False
) -> dict[CohortKey, list[Voting]]:
    """The cohorts, sorted by key. `as_given`: the user chose the cohorts, so nodes without a GPU stay in their own."""
    groups: dict[CohortKey, list[Voting]] = defaultdict(list)
    for member in members(records):
        groups[_key(member.voters[0].cohort, cohort_by)].append(member)
    if not as_given:
        _bring_home(groups)
    return dict(sorted(groups.items()))


def _key(cohort: CohortKey, cohort_by: Sequence[str]) -> CohortKey:
    values = dict(cohort)
    return tuple((name, values.get(name, "")) for name in cohort_by)


def _bring_home(groups: dict[CohortKey, list[Voting]]) -> None:
    """Moves a node without a visible GPU into the cohort of the nodes it belongs to: in a cohort of its own, nothing
    would differ.
    """
    for key in sorted(groups):
        parts = dict(key)
        if any(parts.get(name) for name in _GPU) or not _GPU & set(parts):
            continue
        rest = {name: value for name, value in key if name not in _GPU}
        alike = [
            other
            for other in groups
            if any(dict(other).get(name) for name in _GPU)
            and {name: value for name, value in other if name not in _GPU} == rest
        ]
        if alike:
            home = max(alike, key=lambda other: (len(groups[other]), other))
            groups[home] += groups.pop(key)


def represented(by_cohort: Iterable[Sequence[Voting]]) -> dict[str, tuple[str, ...]]:
    """Node examined in depth -> the nodes of the same fingerprint that sent only quick reports."""
    found: dict[str, tuple[str, ...]] = {}
    for there in by_cohort:
        files_only: dict[int | None, list[str]] = defaultdict(list)
        for member in there:
            if member.quick:
                for record in member.voters:
                    files_only[record.fingerprint].append(member.node)
        for member in there:
            deep = {record.fingerprint for record in (*member.voters, *member.held) if not member.quick}
            spoken_for = {node for fingerprint in deep for node in files_only.get(fingerprint, ())}
            if spoken_for:
                found[member.node] = tuple(sorted({*spoken_for, *found.get(member.node, ())}))
    return dict(sorted(found.items()))
