"""The smallest set of wants that nothing fulfils, in words. Pure: tables only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from attn_doctor.model.stack import Clash, PlannedNode
from attn_doctor.stack.candidates import Obstacle, Piece, Spot, torches
from attn_doctor.stack.wants import Want

#: Larger sets are not told apart: every want is named then.
_MOST = 3

Fit = Callable[[Want, Spot], Piece | Obstacle]


def clashes(
    wants: Sequence[Want],
    node: PlannedNode,
    can: Sequence[Spot],
    cannot: Sequence[tuple[Spot, Obstacle]],
    fit: Fit,
) -> tuple[Clash, ...]:
    """The smallest sets of wants without a common build of torch; empty when all wants have one.

    `can`: builds that the node runs, of every release; `cannot`: the others with the reason.
    """
    torch, *others = wants
    if not can:
        return (_no_torch(torch, node, cannot, asked=False),)
    pinned = [torch] if torch.specifier else []
    sets = [*others, *pinned]
    for size in range(1, min(len(sets), _MOST) + 1):
        found = [_clash(these, node, can, cannot, fit) for these in combinations(sets, size)]
        told = tuple(one for one in found if one is not None)
        if told:
            return told
    whole = _clash(tuple(sets), node, can, cannot, fit) if sets else None
    return (whole,) if whole else ()


def _clash(
    these: tuple[Want, ...], node: PlannedNode, can: Sequence[Spot], cannot: Sequence[tuple[Spot, Obstacle]], fit: Fit
) -> Clash | None:
    torch = next((one for one in these if one.name == "torch"), None)
    among = [one for one in can if torch is None or torch.specifier.contains(one.torch)]
    others = [one for one in these if one.name != "torch"]
    if not among:
        return _no_torch(torch, node, cannot, asked=True) if torch is not None else None
    fitting = {one.name: [spot for spot in among if isinstance(fit(one, spot), Piece)] for one in others}
    if any(all(spot in fitting[one.name] for one in others) for spot in among):
        return None
    names = tuple(one.words for one in these)
    alone = [one for one in others if not fitting[one.name]]
    if alone:
        first = [obstacle for spot in among if isinstance(obstacle := fit(alone[0], spot), Obstacle)]
        words = _said(first)
        if torch is not None and not any(one.by_gpu for one in first):
            words = f"with {torch.words}: {words}"
        return Clash(wants=names, words=words, sources=tuple(dict.fromkeys(s for one in first for s in one.sources)))
    parts = [f"{one.words} goes with torch {torches(fitting[one.name])}" for one in others]
    return Clash(wants=names, words="; ".join(parts) + ": no build of torch is in all of them")


def _no_torch(torch: Want | None, node: PlannedNode, cannot: Sequence[tuple[Spot, Obstacle]], *, asked: bool) -> Clash:
    """No build of torch, or none of the wanted releases, runs on the node."""
    specifier = torch.specifier if torch is not None else None
    those = [(spot, why) for spot, why in cannot if specifier is None or specifier.contains(spot.torch)]
    named = torch.words if torch is not None and asked else "torch"
    if not those:
        words = f"no release of torch that the shelf's tables know is {named}"
        return Clash(wants=(named,), words=words)
    # The nearest to what could run: what is wrong with a GPU or a Python, no other build of the release mends.
    words = "; ".join(dict.fromkeys(why.words for _, why in sorted(those, key=lambda one: _rank(one[1]))[:2]))
    return Clash(wants=(named,), words=words)


def _rank(one: Obstacle) -> int:
    return 0 if one.by_driver else 1 if one.by_gpu else 2


def _said(obstacles: Iterable[Obstacle]) -> str:
    """The reasons, each once: those beside a torch that there are wheels for come first, then the commonest."""
    counted = Counter(_short(one.words) for one in obstacles)
    several = sorted(counted, key=lambda words: ("none is for" in words, -counted[words]))
    return several[0] if len(several) == 1 else "; ".join(several[:2])


def _short(words: str) -> str:
    return words.replace(" for this node", "")
