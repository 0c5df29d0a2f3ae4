"""Counts steps, and examines one of every N: at the end of its step each new trouble is told in words."""

from __future__ import annotations

import contextlib
import time
import traceback
from typing import Any, Dict, List, Optional

import torch

from ..libraries import flash_attn_2, version_of
from ..simulate.cuda import simulated_gpu
from ..trace.answer import Answer
from ..trace.meet.attention import Conditions
from ..trace.read import result
from ..trace.record import frames
from . import hooks
from .attention import GuardedAttention, Seen

_BOUNDED = 100
"""From this interval on it grows where examined steps would cost more than a hundredth of the run."""
_SHARE = 0.01


class Pace:
    """How long steps take: those that are examined, and those that are not."""

    def __init__(self) -> None:
        self.last: Optional[float] = None
        self.extra = 0.0
        self.plain = 0.0
        """Seconds of a step that is not examined, the mean of the last ones."""

    def ended(self, *, examined: bool, first: bool) -> None:
        now = time.perf_counter()
        # The first step of a run warms up, and the first that is examined loads what it needs.
        if self.last is not None and not first:
            took = now - self.last
            if examined:
                self.extra = max(took - self.plain, 0.0) if self.plain else 0.0
            else:
                self.plain = took if not self.plain else 0.9 * self.plain + 0.1 * took
        self.last = now

    def interval(self) -> int:
        """The fewest steps between examined ones at which these take a hundredth of the time."""
        return int(self.extra / (_SHARE * self.plain)) + 1 if self.plain else 0


class Guard:
    """`start()`, `step()` at the end of each step, `stop()`. Single use."""

    def __init__(self, every: int, rows: int, calls: int = 2) -> None:
        self.every, self.rows, self.calls = max(every, 1), max(rows, 1), max(calls, 1)
        self.number = 0
        """Steps that have ended."""
        self.examined = 0
        self.compiled = False
        """Something was compiled by torch.compile, whose calls are not seen."""
        self.attention: Optional[GuardedAttention] = None
        self._trouble: Optional[str] = None
        self._pace = Pace()
        self._next = self.every
        self._stack: Optional[contextlib.ExitStack] = None

    @property
    def trouble(self) -> Optional[str]:
        """The traceback of an error of ours; None otherwise."""
        return self._trouble or (self.attention.trouble if self.attention is not None else None)

    def start(self) -> Guard:
        on_gpu = torch.cuda.is_available()
        capability = torch.cuda.get_device_capability() if on_gpu else (0, 0)
        version = version_of(flash_attn_2.LIBRARY) or flash_attn_2.LIBRARY.newest
        conditions = Conditions(capability=capability, simulated=False, flash_attn_version=version)
        if on_gpu:
            with contextlib.suppress(ValueError):  # newer than the table
                conditions.gpu = simulated_gpu.from_request({"compute_capability": "{}.{}".format(*capability)})
        self.attention = GuardedAttention(conditions, "cuda" if on_gpu else "cpu", self.rows, self.calls)
        with contextlib.ExitStack() as stack:
            stack.enter_context(hooks.hooked(self.attention))
            self._stack = stack.pop_all()
        return self

    def step(self) -> List[str]:
        """Ends a step. Returns each new trouble in words."""
        attention = self.attention
        if attention is None or self._stack is None:
            return []
        told: List[str] = []
        if not attention.recorder.paused:
            told = self._read()
        self.number += 1
        attention.step = self.number
        self._pace.ended(examined=not attention.recorder.paused, first=self.number == 1)
        if self.number >= self._next:
            self._next = self.number + max(self.every, self._pace.interval() if self.every >= _BOUNDED else 0)
            attention.recorder.paused = 0
        else:
            attention.recorder.paused = 1
        return told

    def _read(self) -> List[str]:
        assert self.attention is not None
        self.examined += 1
        self.compiled = self.compiled or _compiles()
        try:
            return [words(what, seen, self.number) for what, seen in self.attention.read()]
        except Exception:
            self._trouble = traceback.format_exc()
            return []

    def stop(self) -> List[str]:
        """Takes the hooks away; a step that has begun is read. Returns each new trouble in words."""
        stack, self._stack = self._stack, None
        if stack is None:
            return []
        stack.close()
        return self._read() if self.attention is not None and self.attention.begun else []

    def answer(self) -> Answer:
        """What was seen so far, in the tracer's format, each call with `guarded`."""
        promotions = result.Promotions()
        calls: List[Any] = []
        seen_all: Dict[int, Seen] = self.attention.seen if self.attention is not None else {}
        for seen in seen_all.values():
            calls.append({**result.describe(seen.record, promotions), "guarded": seen.as_json()})
        found = "ran as the program runs, {} of {} steps examined".format(
            self.examined, max(self.number, self.examined)
        )
        if self.compiled:
            found += "; what torch.compile compiled was not seen"
        return {
            "schema": "trace/1", "outcome": "watched", "entry": None,
            "verdict": result.worst([one.record for one in seen_all.values()]),
            "rules": {"name": "gpu" if torch.cuda.is_available() else "cpu", "words": found, "gpu": None,
                      "autocast_source": None, "torch": str(torch.__version__), "fake": False, "not_simulated": [],
                      "stood_in": []},
            "forms": [], "slow_paths": [],
            "attention": calls, "promotions": [], "counterfactual": None, "failure": None, "launches": [],
            "progress": None, "error": None, "judged": None, "seconds": None,
        }  # fmt: skip


def words(what: str, seen: Seen, step: int) -> str:
    """One line about a new trouble."""
    record = seen.record
    backend = " ({})".format(record.backend["taken"]) if record.backend and record.backend["taken"] else ""
    place = frames.described(record.site)
    where = " at {}:{}".format(place["file"], place["line"]) if place else ""
    module = " in {}".format(record.modules[-1]) if record.modules else ""
    told = {
        "not finite": "{} of {} rows are not finite, though q, k and v are".format(seen.nonfinite_rows, seen.rows),
        "passed on": "its q, k or v are not finite: that began before this call",
        "gradient": "its backward pass turns numbers into NaN",
        "wrong": "{} of {} sampled rows are wrong: off by {:.2g} of what they are made of, {:.2g} is allowed".format(
            seen.wrong_rows, seen.shadowed_rows, seen.worst or 0.0, seen.limit or 0.0
        ),
        "mixed": "{}; the line that changed a dtype: run one step in `with attn_doctor.watch():`".format(
            "; ".join("not met: " + one.words for one in record.clauses if not one.kept)
        ),
    }[what]
    return "step {}: {}{}{}{}: {}".format(step, record.name, backend, module, where, told)


def _compiles() -> bool:
    import sys

    utils = sys.modules.get("torch._dynamo.utils")
    counters: Any = getattr(utils, "counters", None)
    return bool(counters and counters["stats"].get("unique_graphs"))
