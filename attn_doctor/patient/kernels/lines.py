"""The children of one GPU: what is judged beside what, and when it is timed.

A child that dies costs only its current cell; a new one continues with the next. Results do not depend on what else a
GPU does, so that everything is judged at once: a line of cells for most kernels, one each for kernels that are compiled
when they are called, and some for kernels that spend a fraction of a second of the processor on each new shape. What
was right is timed afterwards, in a line of its own, while the others pause.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from typing import Dict, List, Tuple

from .. import forked, outcomes
from . import child, matrix
from .cells import Cell, from_json
from .registry import backend
from .shapes import shapes_of

_MOST_OF_ONE = 3
"""Number of children that one backend may kill before the rest of its cells is skipped."""
_MOST_BESIDE = 6
_LATE = {"outcome": "not run", "reason": "it was still being compiled when the time was over"}


class Device:
    """All lines of one GPU."""

    def __init__(self, work: child.Work, scratch: str, beside: int = 1) -> None:
        """`work`: that of the first line, its file without ending. `beside`: lines for kernels that plan for long."""
        self.work = work
        self.beside = beside
        self.judging = 0
        self.lines: List[Line] = []
        self.measured, self.judged, self.timed = (
            os.path.join(scratch, "{}-{}".format(name, work.device)) for name in ("measured", "judged", "timed")
        )

    def children(self, cells: List[Cell]) -> List[forked.Child]:
        for part, own in parts(cells, self.beside).items():
            file = self.work.file + (".{}.jsonl".format(part) if part else ".jsonl")
            waits_for = self.measured if part else None
            compiled = bool(own) and backend(own[0].backend).compiled
            pauses = (self.judged, self.timed) if compiled else ("", "")
            work = dataclasses.replace(
                self.work, file=file, waits_for=waits_for, pauses=pauses, then_open="" if part else self.measured
            )
            self.lines.append(Line(self, part, own, work))
        self.judging = sum(not line.work.pauses[0] for line in self.lines)
        return [line.child() for line in self.lines]

    def ended(self, line: Line) -> List[forked.Child]:
        """A line is through: after the last one that judges, what was right is timed."""
        if line.work.times:
            _touch(self.timed)
        if not line.part:
            _touch(self.measured)
        if line.work.times or line.work.pauses[0]:
            return []
        self.judging -= 1
        if self.judging:
            return []
        written = [one for line in self.lines for one in child.lines(line.work.file)]
        ceilings = [one["ceiling"] for one in written if "ceiling" in one]
        right = [from_json(one["cell"]) for one in written if one.get("outcome") == "right"]
        right = [cell for cell in right if matrix.worth_timing(cell) and not backend(cell.backend).compiled]
        if not ceilings or not right:
            _touch(self.timed)
            return []
        _touch(self.judged)
        file = self.work.file + ".times.jsonl"
        work = dataclasses.replace(self.work, file=file, waits_for=None, times=True, ceiling=ceilings[-1])
        return [Line(self, "times", sorted(right, key=_timed_first), work).child()]


class Line:
    """Cells that run one after the other, in as many children as needed."""

    def __init__(self, device: Device, part: str, cells: List[Cell], work: child.Work) -> None:
        self.device = device
        self.part = part
        self.left = list(cells)
        self.taken: Dict[str, int] = {}
        self.work = work

    def child(self) -> forked.Child:
        return forked.Child(
            "gpu {} {}".format(self.work.device, self.part),
            lambda tell: child.run(self.work, self.left),
            # Each cell has an alarm of its own; this limit ends a child that outlives all of them.
            timeout=max(1.0, self.work.deadline - time.monotonic()) + self.work.cell_timeout + 60.0,
            done=lambda ended: self._more(ended) or self.device.ended(self),
        )

    def _more(self, ended: forked.Ended) -> List[forked.Child]:
        lines = child.lines(self.work.file)
        result = "timed" if self.work.times else "cell"
        finished = {from_json(line[result]) for line in lines if result in line}
        ceilings = [line["ceiling"] for line in lines if "ceiling" in line]
        self.work.ceiling = ceilings[-1] if ceilings else self.work.ceiling
        begun = [from_json(line["begun"]) for line in lines if "begun" in line]
        died_at = begun[-1] if begun and begun[-1] not in finished else None
        before = len(self.left)
        if died_at is not None:
            late = backend(died_at.backend).compiled and time.monotonic() > self.work.deadline
            ended_so = _LATE if late else death(ended)
            child.note(self.work.file, {result: died_at.as_json(), **ended_so, **child.about(died_at)})
            finished.add(died_at)
            self.taken[died_at.backend] = self.taken.get(died_at.backend, 0) + 1
        self.left = [cell for cell in self.left if cell not in finished]
        came_to_none = len(self.left) == before  # the next child would make no progress either
        given_up = {name for name, deaths in self.taken.items() if deaths >= _MOST_OF_ONE}
        for cell in [cell for cell in self.left if cell.backend in given_up]:
            reason = "not run: this backend ended its process {} times".format(_MOST_OF_ONE)
            if not self.work.times:
                child.note(self.work.file, {"cell": cell.as_json(), "outcome": "not run", "reason": reason})
        self.left = [cell for cell in self.left if cell.backend not in given_up]
        if not self.left or time.monotonic() > self.work.deadline:
            return []
        if came_to_none:
            child.note(self.work.file, {"stopped": death(ended)["reason"]})
            return []
        return [self.child()]


def parts(cells: List[Cell], beside: int = 1) -> Dict[str, List[Cell]]:
    """Groups the cells into lines: the GPU's own line under "", one for each compiled backend and each fixed tuning
    choice, one for each backend that cannot share a process with another, and `beside` for what plans each shape."""
    found: Dict[str, List[Cell]] = {"": []}
    names = {cell.backend for cell in cells}
    shapes: Dict[Tuple[object, ...], int] = {}
    for cell in cells:
        one = backend(cell.backend)
        part = ""
        if one.compiled or one.apart_from in names:
            part = "-".join([cell.backend, *cell.variant.split()])
        elif one.plans and beside > 1:
            # A plan is kept by its process: calls of one shape meet in the same line.
            shape = (cell.dtype, cell.direction, shapes_of(cell))
            part = "plans-{}".format(shapes.setdefault(shape, len(shapes)) % beside)
        found.setdefault(part, []).append(cell)
    return found


def at_once(gpus: int) -> int:
    """How many lines of one GPU may plan beside each other: each keeps a core busy."""
    return max(1, min(_MOST_BESIDE, len(os.sched_getaffinity(0)) // (2 * max(gpus, 1))))


def _timed_first(cell: Cell) -> Tuple[bool, bool]:
    """What is compared with elsewhere first, and what has to be planned again at this size last."""
    one = backend(cell.backend)
    return cell not in matrix.for_share(one), one.plans


def _touch(file: str) -> None:
    with open(file, "w"):
        pass


def death(ended: forked.Ended) -> Dict[str, object]:
    """The result of the cell that killed its child."""
    if ended.hung or ended.signal == signal.SIGALRM:
        return {"outcome": outcomes.HUNG, "reason": "it did not end in time and was killed"}
    if ended.trouble:
        return {"outcome": outcomes.HUNG, "reason": ended.trouble}
    words = " ".join(ended.stderr.strip().splitlines()[-1:])[:200]
    if ended.signal is not None:
        name = next((one.name for one in signal.Signals if one == ended.signal), "signal {}".format(ended.signal))
        return {"outcome": outcomes.CRASHED, "reason": "killed by {}".format(name) + (": " + words if words else "")}
    status = "left the process with status {}".format(ended.status)
    return {"outcome": outcomes.CRASHED, "reason": status + (": " + words if words else "")}
