"""The wants with fewer pins that everything else goes together with: the fewest pins that have to go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from packaging.specifiers import SpecifierSet

from attn_doctor.model.stack import Alternative, PlannedNode, StackPlan
from attn_doctor.quick_dataclasses import replace
from attn_doctor.stack.candidates import Limits
from attn_doctor.stack.wants import Want

#: Sets of wants that are looked up at most; each that the tables know no obstacle to is asked of the resolver.
_MOST = 12

#: (wants, node, limits) -> the best plan, or None
Solve = Callable[[Sequence[Want], PlannedNode, Limits], "StackPlan | None"]


def nearest(wants: Sequence[Want], node: PlannedNode, limits: Limits, solve: Solve) -> Iterator[Alternative]:
    """At most two: one that gives up a pin of torch, and one that keeps it."""
    given: set[bool] = set()
    for number, (loosened, kept) in enumerate(_loosened(wants)):
        gives_torch = any(one.name == "torch" for one in loosened)
        if number == _MOST:
            return
        if gives_torch in given:
            continue
        plan = solve(kept, node, limits)
        if plan is not None:
            given.add(gives_torch)
            yield Alternative(title=plan.words, gives_up=" and ".join(one.words for one in loosened), plan=plan)


def _loosened(wants: Sequence[Want]) -> Iterator[tuple[tuple[Want, ...], tuple[Want, ...]]]:
    """(wants that lose their pin, all wants), the fewest first, torch's before others; `==V` becomes `==V.*`, which a
    corrected release fulfils, before any release will do."""
    pinned = [one for one in wants if one.specifier]
    for size in range(1, len(pinned) + 1):
        for these in combinations(pinned, size):
            any_of = {one.name: SpecifierSet() for one in these}
            corrected = {one.name: SpecifierSet() if one.name == "torch" else one.corrected for one in these}
            for form in [corrected, any_of] if corrected != any_of else [any_of]:
                yield these, tuple(replace(one, specifier=form.get(one.name, one.specifier)) for one in wants)
