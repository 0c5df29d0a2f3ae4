"""Collects reports one by one and keeps only what the verdict needs: the reports of a fleet are gigabytes.

Each node leaves a small record. Facts are stored once for each distinct fingerprint, as numbers of shared (name, value)
pairs. The order in which reports arrive does not change the result.
"""

from __future__ import annotations

import json
import marshal
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias
from zlib import crc32

from attn_doctor.machine import faults
from attn_doctor.model.fleet import MachineMarks, NodeReport, Outcome, Unreadable
from attn_doctor.quick_dataclasses import dataclass, field, replace

#: Shown when a node does not have the fact, or its value is null.
ABSENT = "absent"
#: Shortest time in seconds for a reboot. A rebooted node has another boot id; two machines of one name answer at the
#: same time.
_RESTART = 120.0
_SHOWN_WIDTH = 200
_UNKNOWN = "\0unknown"
_NO_BOOT = crc32(b"").to_bytes(4, "big")

CohortKey: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A fact's name and value."""

    name: str
    shown: str
    text: str
    """The form that is compared; unknown values are equal whatever their reasons."""

    @property
    def unknown(self) -> bool:
        """True for an unknown value; `shown` is one of the reasons."""
        return self.text == _UNKNOWN


@dataclass(slots=True)
class Record:
    """The kept part of one node's report about one environment."""

    node: str
    created: str
    quick: bool
    limited: bool
    machine: bytes
    """Checksum of its boot id in 4 bytes, then 4 bytes for each of its GPUs."""
    cohort: CohortKey
    outcome: Outcome
    fingerprint: int | None
    """Index into Gathered.fingerprints."""
    kernels: str = ""
    """As in NodeReport."""
    shares: Mapping[str, float] | None = None
    """As in NodeReport."""

    @property
    def voters(self) -> tuple[Record, ...]:
        """The only report of its node votes (cohorts.Member); a Member for each node would double what stays of it."""
        return (self,)

    held = voters


@dataclass(slots=True)
class Gathered:
    """All reports collected so far."""

    reports: int = 0
    _records: dict[tuple[str, bool, bool], dict[str, Record | tuple[Record, ...]]] = field(default_factory=dict)
    """By environment, quick or not, and limited or not, then by node; several records only when two machines share one
    name. A key or a tuple for each node would take as much memory as its record."""
    repeated: set[str] = field(default_factory=set)
    unreadable: list[Unreadable] = field(default_factory=list)
    fingerprints: list[array[int]] = field(default_factory=list)
    """Each as numbers into `pairs`, sorted by name."""
    pairs: list[Pair] = field(default_factory=list)
    tasks: dict[int, str] = field(default_factory=dict)
    """Task number of `srun --label` -> node."""
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _digests: dict[bytes, int] = field(default_factory=dict)
    _by_pairs: dict[bytes, int] = field(default_factory=dict)
    _shared: dict[Any, Any] = field(default_factory=dict)
    """One object for equal values: nodes of a fleet send equal values ten thousand times."""

    def add(self, arrival: NodeReport | Unreadable) -> None:
        """Adds one report."""
        if isinstance(arrival, Unreadable):
            self.unreadable.append(arrival)
            return
        self.reports += 1
        part = f"taking in of {arrival.node}'s report"
        faults.survive(part, partial(self._take, arrival), partial(self._lose, arrival))

    def _lose(self, arrival: NodeReport, reason: str) -> None:
        self.unreadable.append(Unreadable(source="its report", reason=reason, node=arrival.node, task=arrival.task))

    def _take(self, arrival: NodeReport) -> None:
        record = Record(
            node=arrival.node,
            created=self._share(arrival.created),
            quick=arrival.quick,
            limited=arrival.limited,
            machine=_marked(arrival.machine),
            cohort=self._share(_cohort(arrival.cohort)),
            outcome=self._share(arrival.outcome),
            fingerprint=None if arrival.facts is None else self._fingerprint(arrival.facts),
            kernels=arrival.kernels,
            shares=arrival.shares,
        )
        if arrival.task is not None:
            self.tasks[arrival.task] = arrival.node
        self._place(record, self._share(arrival.environment))

    def add_all(self, arrivals: Iterable[NodeReport | Unreadable]) -> None:
        """Adds all of them."""
        for arrival in arrivals:
            self.add(arrival)

    def places(self, order: Sequence[str], *, proven: bool) -> dict[int, str]:
        """Task number -> node: the position in the job, if the nodes already known agree with it.

        `proven`: at least one of the nodes must be known."""
        agree = all(task < len(order) and _short(order[task]) == _short(node) for task, node in self.tasks.items())
        return dict(enumerate(order)) if agree and (self.tasks or not proven) else {}

    def close_round(self, order: Sequence[str]) -> dict[int, str]:
        """Assigns the tasks of one launch to the nodes it was started on, then forgets the task numbers."""
        found = self.places(order, proven=False)
        self.unreadable = [
            replace(one, node=one.node or found.get(one.task), task=None) if one.task is not None else one
            for one in self.unreadable
        ]
        self.tasks.clear()
        return found

    def all_records(self) -> Iterator[Record]:
        """Every record, also those that do not count."""
        for by_node in self._records.values():
            for there in by_node.values():
                yield from _tuple(there)

    def shared_names(self) -> set[str]:
        """The names under which two machines reported."""
        return {
            node for by_node in self._records.values() for node, there in by_node.items() if isinstance(there, tuple)
        }

    def every(self) -> Iterator[tuple[str, Record]]:
        """Yields (environment, record) for each record that counts. A limited record never replaces a full one of the
        same node and environment; only its own findings are added, and only while they are newer."""
        for (environment, _, limited), by_node in self._records.items():
            for node, there in by_node.items():
                full = self._full(node, environment) if limited else ()
                for record in _tuple(there):
                    if not full:
                        yield environment, record
                    elif record.outcome.fails and record.created > max(full):
                        yield environment, replace(record, fingerprint=None)

    def _full(self, node: str, environment: str) -> list[str]:
        """When the full reports of this node and environment were made."""
        there = (self._records.get((environment, quick, False), {}).get(node, ()) for quick in (True, False))
        return [one.created for records in there for one in _tuple(records)]

    def _place(self, record: Record, environment: str) -> None:
        by_node = self._records.setdefault((environment, record.quick, record.limited), {})
        there = _tuple(by_node.get(record.node, ()))
        for other in there:
            if not _two_machines(record, other):
                self.repeated.add(record.node)
                kept = max(record, other, key=self._fixed)
                left = tuple(kept if one is other else one for one in there)
                by_node[record.node] = left if len(left) > 1 else kept
                return
        by_node[record.node] = (*there, record) if there else record

    def _fixed(self, record: Record) -> tuple[Any, ...]:
        """Sort key to choose between two reports: the later one; at equal age the worse; then any fixed order."""
        facts = b"" if record.fingerprint is None else self.digest(record.fingerprint)
        worse = 2 if record.outcome.fails else int(record.outcome.unexamined)
        return (record.created, worse, facts, repr(record.outcome), record.machine, record.cohort)

    def digest(self, fingerprint: int) -> bytes:
        """A digest that is equal for equal facts in every run."""
        written = sorted((self.pairs[one].name, self.pairs[one].text) for one in self.fingerprints[fingerprint])
        return blake2b(repr(written).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _fingerprint(self, facts: Mapping[str, Any]) -> int:
        # Facts with equal digests are compared only once; the hash sent by a node is not used.
        # marshal instead of repr: this runs for every report, and marshal is five times as fast. Version 2 does not
        # mark shared objects.
        mark = blake2b(marshal.dumps(dict(facts), 2), digest_size=16).digest()
        known = self._digests.get(mark)
        if known is not None:
            return known
        numbers = array("L", sorted(self._pair(name, value) for name, value in facts.items() if value is not None))
        key = numbers.tobytes()
        number = self._by_pairs.setdefault(key, len(self.fingerprints))
        if number == len(self.fingerprints):
            self.fingerprints.append(numbers)
        self._digests[mark] = number
        return number

    def number_of(self, name: str, value: Any) -> int | None:
        """The pair's number; None when no report has it."""
        return self._numbers.get((name, _compared(value)))

    def value(self, number: int) -> Any:
        """A pair's value as in JSON."""
        text = self.pairs[number].text
        return json.loads(text[1:]) if text.startswith("\0") else text

    def _pair(self, name: str, value: Any) -> int:
        text = value if isinstance(value, str) else _compared(value)
        number = self._numbers.get((name, text))
        if number is None:
            number = self._numbers[(name, text)] = len(self.pairs)
            self.pairs.append(Pair(name, _shown(value), text))
        elif text == _UNKNOWN:  # of several reasons the same one is shown, whatever the order of arrival
            self.pairs[number] = min(self.pairs[number], Pair(name, _shown(value), text), key=lambda one: one.shown)
        return number

    def _share(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)


def _tuple(there: Record | tuple[Record, ...]) -> tuple[Record, ...]:
    return there if isinstance(there, tuple) else (there,)


def _cohort(written: Mapping[str, Any]) -> CohortKey:
    """The cohort's key with every part as text, so that keys of all types can be compared."""
    return tuple(sorted((str(name), _part(value)) for name, value in written.items()))


def _compared(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _UNKNOWN
    return f"\0{json.dumps(value)}"  # 8 and "8" are two values


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"could not be looked at: {value.get('unknown')}"[:_SHOWN_WIDTH]
    return (value if isinstance(value, str) else json.dumps(value))[:_SHOWN_WIDTH]


def _marked(machine: MachineMarks) -> bytes:
    # Checksums, because the names of eight GPUs would take more memory than the rest of a record.
    return b"".join(crc32(mark.encode()).to_bytes(4, "big") for mark in (machine.boot, *machine.gpu_uuids))


def _two_machines(one: Record, other: Record) -> bool:
    first, second = ([marks[at : at + 4] for at in range(0, len(marks), 4)] for marks in (one.machine, other.machine))
    if first[1:] and second[1:]:
        return not set(first[1:]) & set(second[1:])
    if first[0] == second[0] or _NO_BOOT in (first[0], second[0]):
        return False
    return _seconds_apart(one.created, other.created) < _RESTART


def _short(node: str) -> str:
    return node.partition(".")[0]


def _seconds_apart(one: str, other: str) -> float:
    try:
        return abs((moment(one) - moment(other)).total_seconds())
    except ValueError:
        return 0.0


def moment(written: str) -> datetime:
    """Parses a report's `created`; without a zone it is UTC.

    Raises ValueError.
    """
    found = datetime.fromisoformat(written.replace("Z", "+00:00"))
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def _part(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return json.dumps(value, sort_keys=True)
