"""Reports, one after the other → what the verdict needs of them, and no more: a fleet's reports are gigabytes.

Of each node a small record stays; facts are kept once for each distinct fingerprint, as numbers of (name, value) pairs
that all share. In which order reports come makes no difference.
"""

from __future__ import annotations

import json
import marshal
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias
from zlib import crc32

from attn_doctor.machine import faults
from attn_doctor.model.fleet import MachineMarks, NodeReport, Outcome, Unreadable

#: Shown where a fact's name is not among a node's facts, or null.
ABSENT = "absent"
#: A node that restarted is back no sooner, with another boot id; two machines of one name answer side by side.
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
    """What it is compared by; values that could not be looked at are equal whatever the reason."""

    @property
    def unknown(self) -> bool:
        """It could not be looked at; `shown` tells one of the reasons."""
        return self.text == _UNKNOWN


@dataclass(slots=True)
class Record:
    """One node's report of one environment, as much as is kept of it."""

    node: str
    created: str
    quick: bool
    limited: bool
    machine: bytes
    """Its boot in 4 bytes, each of its GPUs in 4."""
    cohort: CohortKey
    outcome: Outcome
    fingerprint: int | None
    """Index into Gathered.fingerprints."""
    kernels: str = ""
    """As in NodeReport."""


@dataclass(slots=True)
class Gathered:
    """All that came."""

    reports: int = 0
    records: dict[tuple[str, str, bool, bool], tuple[Record, ...]] = field(default_factory=dict)
    """By node, environment, whether it was quick, and whether limited; several only where two machines go by one
    name."""
    repeated: set[str] = field(default_factory=set)
    unreadable: list[Unreadable] = field(default_factory=list)
    fingerprints: list[array[int]] = field(default_factory=list)
    """Each as numbers into `pairs`, sorted by name."""
    pairs: list[Pair] = field(default_factory=list)
    tasks: dict[int, str] = field(default_factory=dict)
    """Node of each task number of `srun --label`."""
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _digests: dict[bytes, int] = field(default_factory=dict)
    _by_pairs: dict[bytes, int] = field(default_factory=dict)
    _shared: dict[Any, Any] = field(default_factory=dict)
    """One object for equal values: a fleet says the same thing ten thousand times."""

    def add(self, arrival: NodeReport | Unreadable) -> None:
        """Takes one in."""
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
        )
        if arrival.task is not None:
            self.tasks[arrival.task] = arrival.node
        self._place(record, self._share(arrival.environment))

    def add_all(self, arrivals: Iterable[NodeReport | Unreadable]) -> None:
        """Takes all of them in."""
        for arrival in arrivals:
            self.add(arrival)

    def places(self, order: Sequence[str], *, proven: bool) -> dict[int, str]:
        """Node of each task number: its place in the job, if what is known of the others agrees with that. `proven`:
        at least one of them has to be known."""
        agree = all(task < len(order) and _short(order[task]) == _short(node) for task, node in self.tasks.items())
        return dict(enumerate(order)) if agree and (self.tasks or not proven) else {}

    def close_round(self, order: Sequence[str]) -> dict[int, str]:
        """Names the tasks of one launch by the nodes it was asked for, and forgets their numbers."""
        found = self.places(order, proven=False)
        self.unreadable = [
            replace(one, node=one.node or found.get(one.task), task=None) if one.task is not None else one
            for one in self.unreadable
        ]
        self.tasks.clear()
        return found

    def every(self) -> Iterator[tuple[str, Record]]:
        """(environment, record) of each that counts. A limited one hides no full one of the same node and environment:
        beside it only its own findings count, and those only while they are younger."""
        for (node, environment, _, limited), records in self.records.items():
            full = [
                one.created
                for quick in (True, False)
                for one in self.records.get((node, environment, quick, False), ())
            ]
            for record in records:
                if not limited or not full:
                    yield environment, record
                elif record.outcome.fails and record.created > max(full):
                    yield environment, replace(record, fingerprint=None)

    def _place(self, record: Record, environment: str) -> None:
        key = (record.node, environment, record.quick, record.limited)
        there = self.records.get(key, ())
        for other in there:
            if not _two_machines(record, other):
                self.repeated.add(record.node)
                kept = max(record, other, key=self._fixed)
                self.records[key] = tuple(kept if one is other else one for one in there)
                return
        self.records[key] = (*there, record)

    def _fixed(self, record: Record) -> tuple[Any, ...]:
        """Which of two reports counts: the later; of equal age the worse; at last any order that is always the same."""
        facts = b"" if record.fingerprint is None else self.digest(record.fingerprint)
        worse = 2 if record.outcome.fails else int(record.outcome.unexamined)
        return (record.created, worse, facts, repr(record.outcome), record.machine, record.cohort)

    def digest(self, fingerprint: int) -> bytes:
        """The same for equal facts in any run."""
        written = sorted((self.pairs[one].name, self.pairs[one].text) for one in self.fingerprints[fingerprint])
        return blake2b(repr(written).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _fingerprint(self, facts: Mapping[str, Any]) -> int:
        # Facts that are written alike need no second look; a sender's own hash is not what decides.
        # marshal and not repr: it is on every report's way, and five times as fast. Version 2 marks no shared objects.
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
        """The pair's number, None where no report has it."""
        return self._numbers.get((name, _compared(value)))

    def value(self, number: int) -> Any:
        """A pair's value as JSON has it."""
        text = self.pairs[number].text
        return json.loads(text[1:]) if text.startswith("\0") else text

    def _pair(self, name: str, value: Any) -> int:
        text = value if isinstance(value, str) else _compared(value)
        number = self._numbers.get((name, text))
        if number is None:
            number = self._numbers[(name, text)] = len(self.pairs)
            self.pairs.append(Pair(name, _shown(value), text))
        elif text == _UNKNOWN:  # of many reasons the same one is shown, whichever came first
            self.pairs[number] = min(self.pairs[number], Pair(name, _shown(value), text), key=lambda one: one.shown)
        return number

    def _share(self, value: Any) -> Any:
        return self._shared.setdefault(value, value)


def _cohort(written: Mapping[str, Any]) -> CohortKey:
    """Every part of it as text, so that anything can be compared with anything."""
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
    # Checksums: names of eight GPUs would take more room than all else that is kept of a node.
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
    """A report's `created`; without a zone it is UTC.

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
