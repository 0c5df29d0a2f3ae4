"""Lines of a long log that come again with other numbers are searched once, and looked up from then on.

A trainer prints a few kinds of lines a million times. Taking the digits out of two megabytes and splitting them costs
a tenth of searching them for every literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attn_doctor.diagnose.log.prefilter import Prefilter, any_of
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.quick_patterns import when_used

_DIGITS = b"0123456789"
_DIGIT = when_used("[0-9]")
#: Stands for any digit: no literal has it.
_NO_DIGIT = "\0"
#: One new shape in so many lines, or fewer: the log repeats itself. Elsewhere a plain search is quicker.
_NEW = 64
#: Parts of a log that did not repeat themselves, after which no more of them are tried.
_TRIALS = 3
#: Fewer lines than these are each looked at: to compile all literals takes longer.
_FEW = 2000
#: Shapes that are kept at most.
_MOST = 50_000


@dataclass(slots=True)
class Repeated:
    """Rows of one log that its prefilter hits; remembers what its lines look like without their digits."""

    prefilter: Prefilter
    _fitted: Prefilter | None = None
    """The prefilter for this log, where its lines do not repeat."""
    _left: int = _TRIALS
    _quiet: set[bytes] = field(default_factory=set)
    """Shapes of which no line is a hit, whatever its digits are."""
    _loud: set[bytes] = field(default_factory=set)
    """Shapes of which each line is a hit, whatever its digits are."""
    _numbered: dict[bytes, re.Pattern[str]] = field(default_factory=dict)
    """Shapes of which a line is a hit by its digits: literals that decide."""

    def rows(self, lines: Sequence[str]) -> Iterator[int]:
        """Lines where a match may begin, from 0: those of `Prefilter.rows`, except for a literal broken over two lines
        that were each seen before, beside others.
        """
        if len(lines) < _FEW:
            return (row for row in range(len(lines)) if self._begins(lines, row))
        text = "\n".join(lines)
        if self._left:
            shapes = text.encode("utf-8", "surrogatepass").translate(None, _DIGITS).split(b"\n")
            new = set(shapes).difference(self._quiet, self._loud, self._numbered)
            if len(new) * _NEW <= len(shapes) and len(self._quiet) < _MOST:
                return iter(self._looked_up(lines, shapes, new))
            self._left -= 1
        if self._fitted is None:
            self._fitted = self.prefilter.fitted(text)
        return self._fitted.rows(text)

    def _begins(self, lines: Sequence[str], row: int) -> bool:
        """Whether a literal stands in this line, or begins in it and ends in the next."""
        standing = self.prefilter.standing
        if standing(lines[row]):
            return True
        both = standing(" ".join(lines[row : row + 2]))
        return bool(both) and not both <= standing(lines[row + 1])

    def _looked_up(self, lines: Sequence[str], shapes: list[bytes], new: set[bytes]) -> list[int]:
        hits: set[int] = set()
        to_decide: dict[bytes, list[int]] = {}
        quiet, loud, numbered = self._quiet, self._loud, self._numbered
        for row in [row for row, shape in enumerate(shapes) if shape not in quiet]:
            shape = shapes[row]
            if shape in new:
                new.remove(shape)
                self._learn(lines[row], shape)
                # A literal may be broken over two lines.
                hits.update(one for one in (row - 1, row) if one >= 0 and self._begins(lines, one))
            if shape in loud:
                hits.add(row)
            elif shape in numbered:
                to_decide.setdefault(shape, []).append(row)
        for shape, rows in to_decide.items():
            # All at once: few of a hundred thousand lines have the digits that decide.
            if numbered[shape].search("\n".join([lines[row] for row in rows])):
                hits.update(row for row in rows if numbered[shape].search(lines[row]))
        return sorted(hits)

    def _learn(self, line: str, shape: bytes) -> None:
        """Notes what each line of this shape is."""
        if self.prefilter.standing(_DIGIT.sub(_NO_DIGIT, line)):
            self._loud.add(shape)
        elif literals := self.prefilter.numbered(shape.decode("utf-8", "surrogatepass")):
            self._numbered[shape] = any_of(literals)
        else:
            self._quiet.add(shape)
