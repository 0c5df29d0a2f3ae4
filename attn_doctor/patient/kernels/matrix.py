"""The sets of trials: all, or a few that still cover every pair of values of two axes.

Deterministic: the same backends on the same GPU give the same trials in the same order on every node.
"""

from __future__ import annotations

import itertools
from typing import Callable, Dict, Iterable, List, Sequence, Set, Tuple

from .cells import DIRECTIONS, DTYPES, FORMS, HEAD_DIMS, Cell
from .registry import Backend

Pair = Tuple[int, object, int, object]


def everything(backend: str, dtypes: Iterable[str] = DTYPES) -> List[Cell]:
    """Every combination of the axes for one backend, whether supported or not."""
    wanted = tuple(dtypes)
    return [
        Cell(backend, dtype, head_dim, form, direction)
        for form, dtype, direction, head_dim in itertools.product(FORMS, wanted, DIRECTIONS, HEAD_DIMS)
    ]


def for_share(backend: Backend) -> List[Cell]:
    """The trials whose speed is compared with the same kernel elsewhere (shares.py): for kernels that exist for speed,
    have one implementation, and are not compiled when they are called."""
    choice = backend.chooses or backend.linear or backend.compiled or ":" in backend.name
    if choice or backend.calls is None or backend.name == "sdpa-math":
        return []
    return [Cell(backend.name, "bfloat16", 128, "causal", direction) for direction in ("forward", "train")]


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
