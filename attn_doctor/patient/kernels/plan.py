"""The plan for a GPU: the trials to run, those that contracts exclude, and those omitted for time. Needs no torch."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, TypedDict

from ..libraries import flex
from ..simulate.cuda.simulated_gpu import capability
from . import matrix, offers, recorded
from .cells import DTYPES, FORMS, Cell, Place
from .registry import Backend
from .situations import Situation

__all__ = ["Plan", "capability", "make_plan"]

#: Most cells of a backend that is compiled when it is called: seconds each, and up to a minute with autotuning.
_MOST_COMPILED = {"quick": 1, "full": 9}
_QUICK_HEAD_DIMS = (128, 64)
_TELLING_HEAD_DIMS = (128, 256, 64, 192, 96)


class Planned(TypedDict):
    """A backend as the plan lists it."""

    name: str
    title: str
    version: Optional[str]
    state: str
    """The expected result, in words."""


@dataclasses.dataclass
class Plan:
    """The cells in the order in which they run, and why others do not."""

    cells: List[Cell]
    not_offered: List[Tuple[Cell, str]]
    left_out: Dict[str, int]
    """Backend -> number of offered cells that the mode omits, because others cover pairs of their values."""
    backends: List[Planned]

    def as_json(self) -> Dict[str, object]:
        return {
            "cells": [cell.as_json() for cell in self.cells],
            "not_offered": [{**cell.as_json(), "reason": reason} for cell, reason in self.not_offered],
            "left_out": self.left_out,
            "backends": self.backends,
        }


def make_plan(
    backends: Sequence[Tuple[Backend, Optional[str]]],
    place: Place,
    mode: str,
    dtypes: Optional[Iterable[str]],
    *,
    named: bool,
) -> Plan:
    """Makes the plan. `backends`: each with the reason why it cannot run at all, or None. `named`: the user requested
    exactly these.

    quick: pairs of values over two head dimensions; nothing that is compiled unless it is named.
    """
    plan = Plan(cells=[], not_offered=[], left_out={}, backends=[])
    first: List[List[Cell]] = []
    rest: List[List[Cell]] = []
    for backend, missing in backends:
        entry: Planned = {
            "name": backend.name,
            "title": backend.title,
            "version": place.versions.get(backend.distribution or ""),
            "state": missing or ("contract only (preview)" if backend.calls is None else "runs"),
        }
        plan.backends.append(entry)
        if missing is not None:
            continue
        offered: List[Cell] = []
        for cell in matrix.everything(backend.name, dtypes or (*DTYPES, *backend.more_dtypes)):
            reason = backend.contract(cell, place) if backend.contract is not None else None
            if reason is None:
                offered.append(cell)
            else:
                plan.not_offered.append((cell, reason))
        if backend.calls is None:
            plan.left_out[backend.name] = len(offered)
            continue
        timed = [cell for cell in matrix.for_share(backend) if cell in offered]
        few = matrix.pairwise([cell for cell in offered if cell.head_dim in _QUICK_HEAD_DIMS])
        few += [cell for cell in timed if cell not in few]
        special = [
            cell
            for cell in matrix.special(backend, dtypes or DTYPES)
            if backend.contract is None or backend.contract(cell, place) is None
        ]
        few += matrix.of_each_situation(special, thoroughly=False)
        chosen = few
        if mode == "full":
            more = [*matrix.thorough(offered), *matrix.of_each_situation(special, thoroughly=True)]
            chosen = [*few, *(cell for cell in more if cell not in set(few))]
        if backend.linear:
            chosen = [cell for cell in offered if (cell.dtype, cell.direction) == (offered[0].dtype, "train")]
        elif backend.compiled:
            # The point is which head dimensions and masks compile: all pairs would be too many.
            chosen = matrix.singles(offered)
        if backend.compiled:
            chosen = chosen[: _MOST_COMPILED[mode]] if mode == "full" or named else []
            if mode == "full" and not backend.linear:
                chosen += matrix.of_each_situation(special, thoroughly=False)
            few = chosen
        few, chosen = (
            [dataclasses.replace(c, variant=v) for c in part for v in backend.variants] for part in (few, chosen)
        )
        first.append(matrix.by_faults(few))
        rest.append(matrix.by_faults([cell for cell in chosen if cell not in set(few)]))
        usual = {cell.axes for cell in chosen if not cell.situation}
        plan.left_out[backend.name] = len(offered) - len(usual)
    # Backends alternate, so that each one has been tried when the time is over.
    plan.cells = [*_in_turn(first), *_in_turn(rest)]
    return plan


def make_replay(
    backends: Sequence[Tuple[Backend, Optional[str]]], place: Place, calls: Sequence[Tuple[Situation, Optional[str]]]
) -> Plan:
    """The plan for recorded calls: each of them by each backend that takes it, the first call first."""
    plan = Plan(cells=[], not_offered=[], left_out={}, backends=[])
    for backend, missing in backends:
        state = missing or ("contract only (preview)" if backend.calls is None else "runs")
        version = place.versions.get(backend.distribution or "")
        plan.backends.append({"name": backend.name, "title": backend.title, "version": version, "state": state})
    for situation, why_not in calls:
        for backend, missing in backends:
            if missing is not None or backend.calls is None or backend.linear:
                continue
            if why_not is not None:
                cell = Cell(backend.name, "", 0, "dense", "forward", situation=situation.name)
                plan.not_offered.append((cell, "{}: {}".format(situation.words, why_not)))
                continue
            cell = recorded.cell_of(backend.name, situation)
            reason = backend.contract(cell, place) if backend.contract is not None else None
            if reason is None:
                plan.cells.append(cell)
            else:
                plan.not_offered.append((cell, reason))
    return plan


def _in_turn(lists: Sequence[Sequence[Cell]]) -> List[Cell]:
    return [cell for cells in itertools.zip_longest(*lists) for cell in cells if cell is not None]


def flex_calls(place: Place, mode: str, dtypes: Optional[Iterable[str]]) -> List[Cell]:
    """The calls of FlexAttention that are compiled without a GPU, the most informative first.

    dtype and head dimension decide how much shared memory a kernel needs: each pair occurs once, each form once.
    """
    head_dims = _QUICK_HEAD_DIMS if mode == "quick" else _TELLING_HEAD_DIMS
    asked = tuple(dtypes or DTYPES)
    wanted = [dtype for dtype in ("bfloat16", "float32", "float16") if dtype in asked]
    if not wanted:
        return []  # only fp8 was requested, which it does not support
    first, *others = [[Cell("flex", dtype, dim, "causal", "train") for dim in head_dims] for dtype in wanted]
    forms = [dataclasses.replace(first[0], form=form) for form in FORMS if mode == "full"]
    # One float32 call early: its kernels take the longest to compile, and are the less common.
    found = [*first, *(cells[0] for cells in others), *forms, *itertools.chain(*others)]
    return [cell for cell in dict.fromkeys(found) if offers.by(flex.clauses)(cell, place) is None]
