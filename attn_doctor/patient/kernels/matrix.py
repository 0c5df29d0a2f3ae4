"""The sets of trials: all, or a few that still cover every pair of values of two axes.

Deterministic: the same backends on the same GPU give the same trials in the same order on every node.
"""

from __future__ import annotations

import itertools
from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

from . import situations
from .cells import DIRECTIONS, DTYPES, FORMS, HEAD_DIMS, Cell
from .registry import Backend
from .situations import Situation

Pair = Tuple[int, object, int, object]


def everything(backend: str, dtypes: Iterable[str] = DTYPES) -> List[Cell]:
    """Every combination of the axes for one backend, whether supported or not."""
    wanted = tuple(dtypes)
    return [
        Cell(backend, dtype, head_dim, form, direction)
        for form, dtype, direction, head_dim in itertools.product(FORMS, wanted, DIRECTIONS, HEAD_DIMS)
    ]


def special(backend: Backend, dtypes: Iterable[str] = DTYPES) -> List[Cell]:
    """Every combination of a situation with its forms, and with the dtypes and head dims that models use."""
    wanted = [dtype for dtype in dtypes if dtype in DTYPES]
    return [
        Cell(backend.name, dtype, head_dim, form, direction, situation=one.name)
        for one in asked_of(backend)
        for form, dtype, direction, head_dim in itertools.product(one.forms, wanted, one.directions, (64, 128))
    ]


def asked_of(backend: Backend) -> List[Situation]:
    """The situations in which a backend is tried, those that fail most often first."""
    if backend.linear:
        return []
    named = [one for one in situations.NAMED.values() if one.name and not one.recorded]
    if backend.compiled:
        return [one for one in named if one.name in _COMPILED_SITUATIONS]
    return [one for one in named if not one.asked or one.name in backend.takes]


_COMPILED_SITUATIONS = ("dead-rows", "fused", "again", "off-tile", "one-hot")
"""Each costs seconds: those for which such a kernel was reported wrong."""

#: Forms of which most faults have been reported, first; trials of a mode are run in this order.
_FORMS_BY_FAULTS = ("fp32-mask", "bool-mask", "varlen", "gqa", "half-mask", "window", "softcap", "causal", "dense")


def by_faults(cells: Sequence[Cell]) -> List[Cell]:
    """The trials that fail most often first: situations and forms in turn."""
    usual = sorted((cell for cell in cells if not cell.situation), key=_rank)
    others = sorted((cell for cell in cells if cell.situation), key=_rank)
    return [cell for pair in itertools.zip_longest(others, usual) for cell in pair if cell is not None]


def _rank(cell: Cell) -> Tuple[int, int, int]:
    order = list(situations.NAMED)
    return order.index(cell.situation), _FORMS_BY_FAULTS.index(cell.form), DIRECTIONS.index(cell.direction)


def of_each_situation(cells: Sequence[Cell], *, thoroughly: bool) -> List[Cell]:
    """One trial for each situation; thoroughly: each of its forms and directions, and each dtype."""

    def goals(cell: Cell) -> Set[object]:
        if not thoroughly:
            return {cell.situation}
        return {(cell.situation, cell.form, cell.direction), (cell.situation, cell.dtype)}

    return cover(cells, goals)


def for_share(backend: Backend) -> List[Cell]:
    """The trials whose speed is compared with the same kernel elsewhere (shares.py): for kernels that exist for speed,
    have one implementation, and are not compiled when they are called."""
    choice = backend.chooses or backend.linear or backend.compiled or ":" in backend.name
    if choice or backend.calls is None or backend.name == "sdpa-math":
        return []
    return [Cell(backend.name, "bfloat16", 128, "causal", direction) for direction in ("forward", "train")]


def worth_timing(cell: Cell) -> bool:
    """True for common sizes and forms: cuDNN makes a new plan for each size, which takes half a second."""
    common = cell.head_dim in (64, 128) and cell.form in ("dense", "causal", "gqa", "varlen")
    return (common and not cell.situation) or bool(situations.named(cell.situation).recorded)


def pairs(cell: Cell) -> Set[Pair]:
    """Each pair of axes with their values."""
    numbered = list(enumerate(cell.axes))
    return {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(numbered, 2)}


def thorough(cells: Sequence[Cell]) -> List[Cell]:
    """Every backend and dtype with every form and direction; head dims alternate so that all pairs are covered."""
    return cover(cells, lambda cell: {("all", cell.dtype, cell.form, cell.direction), *pairs(cell)})


def pairwise(cells: Sequence[Cell]) -> List[Cell]:
    """A small subset of `cells` that covers every pair of values in `cells`."""
    return cover(cells, pairs)


def singles(cells: Sequence[Cell]) -> List[Cell]:
    """A smaller subset: every value of every axis, and every head dimension in training, which needs the most of
    a GPU.
    """

    def goals(cell: Cell) -> Set[object]:
        trained = {("train", cell.head_dim)} if cell.direction == "train" else set()
        return {*enumerate(cell.axes), *trained}

    return cover(cells, goals)


def cover(cells: Sequence[Cell], goals_of: Callable[[Cell], Iterable[object]]) -> List[Cell]:
    """Greedy: repeatedly takes the first cell that covers most of the remaining goals, until all are covered."""
    goals: Dict[Cell, Set[object]] = {cell: set(goals_of(cell)) for cell in cells}
    left: Set[object] = set().union(*goals.values()) if goals else set()
    chosen: List[Cell] = []
    candidates = list(cells)
    while left:
        best = max(candidates, key=lambda cell: len(goals[cell] & left))
        chosen.append(best)
        left -= goals[best]
        candidates.remove(best)
    return chosen
