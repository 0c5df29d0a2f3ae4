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

    def _looked_up(self, lines: Sequence[str], shapes: list[bytes], new: set[bytes]) -> list[int]:
        hits: set[int] = set()
        quiet, loud, numbered = self._quiet, self._loud, self._numbered
        for row in [row for row, shape in enumerate(shapes) if shape not in quiet]:
            shape = shapes[row]
            if shape in new:
                new.remove(shape)
                hits.update(self._learned(lines, row, shape))
            if shape in loud or ((decides := numbered.get(shape)) and decides.search(lines[row])):
                hits.add(row)
        return sorted(hits)

    def _learned(self, lines: Sequence[str], row: int, shape: bytes) -> Iterator[int]:
        """Notes what the shape of this line is; the lines that are hits beside it, for a literal may be broken over
        two of them.
        """
        first = max(0, row - 1)
        some = [*lines[first : row + 2]]
        some[row - first] = _DIGIT.sub(_NO_DIGIT, lines[row])
        for at in self.prefilter.rows("\n".join(some)):
            if first + at == row:
                self._loud.add(shape)
            else:
                yield first + at
        if shape in self._loud:
            return
        if literals := self.prefilter.numbered(shape.decode("utf-8", "surrogatepass")):
            self._numbered[shape] = any_of(literals)
        else:
            self._quiet.add(shape)
