"""Which of thousands of literal texts stand in a short text: the one unit of a log that is matched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

#: Characters of the piece by which a literal is found. Shorter literals, which are few, are each searched for.
_PIECE = 6
#: For `str.translate`: lines that differ in their numbers alone become one.
NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))
#: Shapes whose literals are remembered, and the longest of them, in characters: lines, not tracebacks.
_MOST_SHAPES, _LONGEST_SHAPE = 2000, 400

#: A literal, and what is known by it.
_Known = tuple[str, Sequence[int]]


class LiteralIndex:
    """Literals by a piece from their middle.

    To search for each of five thousand literals takes half a millisecond a unit, and to compile them into one
    expression longer than the rest of a short log; the pieces of a text are looked up in its length. All without their
    digits: a log prints the same line a thousand times with other numbers, and then a few literals are left to look
    for.
    """

    def __init__(self, numbers: Mapping[str, Sequence[int]]) -> None:
        """`numbers`: what is known by each literal."""
        self._everywhere: list[tuple[str, _Known]] = []
        self._by_piece: dict[str, list[tuple[str, _Known]]] = {}
        self._of_shapes: dict[str, list[_Known]] = {}
        for known in numbers.items():
            shape = known[0].translate(NO_DIGITS)
            if len(shape) < _PIECE:
                self._everywhere.append((shape, known))
            else:
                middle = (len(shape) - _PIECE) // 2
                self._by_piece.setdefault(shape[middle : middle + _PIECE], []).append((shape, known))

    def standing(self, text: str) -> Iterator[int]:
        """The numbers of the literals that the text contains, some of them more than once.

        White space in the text is single blanks, as in the literals.
        """
        shape = text.translate(NO_DIGITS)
        may_stand = self._of_shapes.get(shape)
        if may_stand is None:
            may_stand = [*self._in_shape(shape)]
            if len(shape) <= _LONGEST_SHAPE:
                if len(self._of_shapes) >= _MOST_SHAPES:
                    self._of_shapes.clear()
                self._of_shapes[shape] = may_stand
        for literal, known in may_stand:
            if literal in text:
                yield from known

    def _in_shape(self, shape: str) -> Iterator[_Known]:
        """The literals that may stand in a text which is this without its digits."""
        pieces = {shape[at : at + _PIECE] for at in range(len(shape) - _PIECE + 1)}
        for piece in pieces & self._by_piece.keys():
            for wanted, known in self._by_piece[piece]:
                if wanted in shape:
                    yield known
        for wanted, known in self._everywhere:
            if wanted in shape:
                yield known
