"""How many lines of a large log are examined around a line that a pattern may be in: fewer where such a line comes
again, and fewer in a log that is full of them, which would take minutes.
"""

from __future__ import annotations

from collections import Counter

from attn_doctor.diagnose.log.literal_index import NO_DIGITS
from attn_doctor.quick_patterns import when_used

#: Enough for a deep traceback of several interleaved ranks.
BEFORE, AFTER = 260, 210
#: Until so many characters were examined: (occurrences of a line, ignoring its numbers; lines examined before and after
#: it). Once all are, nothing is.
_PATIENCE = (
    (2 << 20, ((6, BEFORE, AFTER), (64, 40, 20), (700, 4, 4))),
    (4 << 20, ((6, BEFORE, AFTER), (64, 40, 20))),
    (6 << 20, ((6, BEFORE, AFTER),)),
    (10 << 20, ((1, BEFORE, AFTER),)),
    (16 << 20, ((1, 40, 20),)),
)
#: Most different lines that are counted separately, and occurrences of all others together.
_MOST_SHAPES, _MOST_OTHERS = 6000, 700
#: By this beginning a line is known.
_BEGINNING = 400
#: The number of a request or a commit, which no other line has.
_ID = when_used(r"\b(?=[a-fA-F-]*\d)[0-9a-fA-F][0-9a-fA-F-]{7,}\b")


class Budget:
    """What is left to be examined of one log."""

    def __init__(self) -> None:
        self._shapes: Counter[str] = Counter()
        self._come_again: set[str] = set()
        """Lines that were repeated so often that they are passed over."""
        self._examined = 0
        self._others = 0

    @property
    def is_spent(self) -> bool:
        """Nothing more is examined."""
        return self._examined >= _PATIENCE[-1][0] or self._others > _MOST_OTHERS

    def spend(self, characters: int) -> None:
        """So many are examined."""
        self._examined += characters

    def around(self, line: str) -> tuple[int, int] | None:
        """The lines to examine before and after this one; None where it came too often."""
        line = line[:_BEGINNING]
        if line in self._come_again:
            return None
        count = self._counted(line)
        rows = next((rows for most, rows in _PATIENCE if self._examined < most), ()) if count else ()
        for most, before, after in rows:
            if count <= most:
                return before, after
        if len(self._come_again) < _MOST_SHAPES:
            self._come_again.add(line)
        return None

    def _counted(self, line: str) -> int:
        """How often the line came, but for its numbers; 0 for another one than those that are counted, too often."""
        shape = line.translate(NO_DIGITS)
        if shape not in self._shapes:
            shape = _ID.sub("", line).translate(NO_DIGITS)
            if shape not in self._shapes and len(self._shapes) > _MOST_SHAPES:
                self._others += 1
                return 0 if self.is_spent else self._others
        self._shapes[shape] += 1
        return self._shapes[shape]
