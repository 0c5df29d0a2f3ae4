"""Scans one log: prefilter, windows of lines around its hits, units, matches. Memory stays bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from attn_doctor.diagnose.log.budget import AFTER, BEFORE, Budget
from attn_doctor.diagnose.log.clean import clean, without_a_prefix
from attn_doctor.diagnose.log.cut import cut
from attn_doctor.diagnose.log.ended import completed
from attn_doctor.diagnose.log.error_lines import error_line_of
from attn_doctor.diagnose.log.facts import TELLING, Clues
from attn_doctor.diagnose.log.lines import PIECE, STEP, Block, blocks
from attn_doctor.diagnose.log.literal_index import NO_DIGITS
from attn_doctor.diagnose.log.match import Match, Patterns
from attn_doctor.diagnose.log.pasted import LONGEST, relaxed, unwrapped
from attn_doctor.diagnose.log.prefilter import Prefilter
from attn_doctor.diagnose.log.repeated import Repeated
from attn_doctor.diagnose.log.sought import Sought, Text
from attn_doctor.diagnose.log.unit import Line, Unit, UnitKind
from attn_doctor.quick_dataclasses import dataclass, field, replace
from attn_doctor.quick_patterns import when_used

#: Range of `nearby`, and the step by which it may be exceeded.
_NEARBY, _STEP = 200, 50
#: Different messages that one pattern matches, of which the first and the last are explained: a log has a few of a
#: kind, and one of nothing but failures thousands. Those that differ in their numbers alone are one, of each rank.
_FIRST, _LAST = 60, 20
#: A line with more characters is reported: a message across its pieces may be missed.
_ENDLESS = 100_000
#: A log with at most this many lines is examined completely; of a larger one so many at its end are looked at again
#: where it was too full of failures to be examined as a whole.
_SMALL = 3000
#: Texts that show a failure, whether a recipe recognizes it or not.
_FAILURES = ("Traceback (most recent call last)", "Error: ", "Fatal Python error: ", "Segmentation fault")
#: A process ended by a signal leaves no exception.
_CRASH = when_used(r"Fatal Python error: |Segmentation fault\b(?: \(core dumped\))?\s*$|\*\*\* Process received signal")
#: How a program leaves on purpose or at a person's word: it says nothing of what failed before.
_LEFT = when_used(r"(?:SystemExit|KeyboardInterrupt|GeneratorExit)\b")


@dataclass(slots=True, kw_only=True)
class Scanned:
    """The result of scanning one log."""

    name: str
    matches: list[Match] = field(default_factory=list)
    clues: Clues = field(default_factory=Clues)
    lines: int = 0
    failures: int = 0
    """Number of tracebacks and error messages, recognized or not."""
    examined_in_part: bool = False
    """It has so many lines of failures that some were passed over."""
    cut_line: int | None = None
    """Number of the longest line that was examined in pieces."""
    cut_length: int = 0
    """Its approximate length in characters."""
    last_failure: tuple[int, str] | None = None
    """Line and text of the last exception that no recipe matches, unless facts allow it to, or else of a crash."""
    error_line: tuple[int, str] | None = None
    """Line and text of the first error of another program, which is no exception, known or not."""
    text: str = field(default="", repr=False)
    """All of it, where it is short enough to have been pasted."""


class Scanner:
    """Scans logs for the patterns of some recipes."""

    def __init__(self, patterns: Patterns, *, given: str = "") -> None:
        """`given`: what is known beside the logs, in words that patterns can look for around a message."""
        self._patterns = patterns
        self._given = given
        self._prefilter = Prefilter([*patterns.literals, *_FAILURES, *TELLING])

    def scan(self, name: str, chunks: Iterable[str]) -> Scanned:
        """Scans one log; `chunks` are its text in pieces of any size."""
        kept: list[str] = []
        found = _Scan(name, self._patterns, self._prefilter, self._given).run(_kept(chunks, kept))
        found.text = "".join(kept)
        return found

    def look_again(self, logs: Sequence[Scanned]) -> None:
        """Adds what a more lenient look finds where no recipe knew anything in any of the logs: recipes, and families
        where nothing is known at all.
        """
        if any(match.recipe.family is None for log in logs for match in log.matches):
            return
        again = [(log, [*_pasted_units(log.text, self._given)]) for log in logs if log.text]
        for families in (False, True):
            if not again or (families and any(log.matches for log in logs)):
                return
            kept = self._patterns.lenient
            if families not in kept:
                kept[families] = Patterns(relaxed(self._patterns.recipes, families=families))
            lenient = kept[families]
            for log, units in again:
                lines = log.text.splitlines()
                for unit, around in units:
                    log.matches += (_as_it_stands(match, lines) for match in lenient.match(unit, around))


def _as_it_stands(match: Match, lines: Sequence[str]) -> Match:
    """The match with the line that was pasted, where what it was read as is quoted."""
    own = clean(match.line, lines[match.line - 1]).text.strip() if 0 < match.line <= len(lines) else ""
    return match if not own or match.quoted in own else replace(match, quoted=own)


def _pasted_units(text: str, given: str) -> Iterator[tuple[Unit, _Around]]:
    cleaned = without_a_prefix([clean(number, line) for number, line in enumerate(text.splitlines(), start=1)])
    lines = [*unwrapped(completed(cleaned, whole=True))]
    return _units(lines, _Close(lines, given))


def _kept(chunks: Iterable[str], kept: list[str]) -> Iterator[str]:
    """The chunks, of which `kept` holds all when they have ended, unless that is more than somebody pastes."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size <= LONGEST:
            kept.append(chunk)
        else:
            kept.clear()
        yield chunk


def _units(lines: Sequence[Line], close: _Close) -> Iterator[tuple[Unit, _Around]]:
    where = {id(line): at for at, line in enumerate(lines)}
    for unit in cut(lines):
        yield unit, _Around(close, where[id(unit.lines[0])], where[id(unit.lines[-1])])


class _Scan:
    def __init__(self, name: str, patterns: Patterns, prefilter: Prefilter, given: str) -> None:
        self._found = Scanned(name=name)
        self._patterns = patterns
        self._hits = Repeated(prefilter)
        self._given = given
        self._budget = Budget()
        self._endless = (0, 0)
        """The last line that was cut, and its characters so far."""
        self._done = 0
        """Index in the whole log of the first line that will not have been examined."""
        self._messages: dict[int, dict[str, set[str]]] = {}
        """Of each pattern, by its identity, those that it matched, without their numbers, and who said them."""
        self._kept: Counter[int] = Counter()
        """How many matches of each are explained."""
        self._last: dict[int, deque[Match]] = {}
        """Of each pattern with many the last matches."""

    def run(self, chunks: Iterable[str]) -> Scanned:
        numbers: list[int] = []
        lines: list[str] = []
        offset = 0  # index of lines[0] in the whole log
        ahead = 0  # lines at the end of `lines` that have not been searched for hits yet
        for block in blocks(chunks):
            self._note_cut(block)
            numbers += block.numbers
            lines += block.lines
            ahead += len(block.lines)
            if ahead <= _SMALL:
                continue
            until = max(len(lines) - ahead, len(lines) - AFTER)  # the others are left for the next block
            self._look(numbers, lines, offset, len(lines) - ahead, until)
            ahead = len(lines) - until
            kept = min(len(lines), max(ahead + BEFORE, _SMALL))
            offset += len(lines) - kept
            numbers, lines = numbers[-kept:], lines[-kept:]
        if offset == 0 and len(lines) <= _SMALL:
            self._window(numbers, lines, 0, len(lines), whole=True)
        else:
            self._look_at_the_end(numbers, lines, offset, len(lines) - ahead)
        self._found.lines = numbers[-1] if numbers else 0
        if self._last:
            self._found.matches += chain.from_iterable(self._last.values())
            self._found.matches.sort(key=lambda match: match.line)
        return self._found

    def _keep(self, matched: Iterable[Match]) -> None:
        """Adds those that are explained, and of the others the last."""
        for match in matched:
            pattern = id(match.pattern)
            messages = self._messages.setdefault(pattern, {})
            message = match.unit.text.translate(NO_DIGITS)
            of_ranks = messages.get(message)
            known = of_ranks is None or match.unit.origin in of_ranks  # a rank is told, however many there are
            if known and (len(messages) if of_ranks is None else self._kept[pattern]) >= _FIRST:
                self._last.setdefault(pattern, deque(maxlen=_LAST)).append(match)
            else:
                messages.setdefault(message, set()).add(match.unit.origin)
                self._kept[pattern] += 1
                self._found.matches.append(match)

    def _note_cut(self, block: Block) -> None:
        if isinstance(block.numbers, range):
            return  # nothing was cut
        pieces = Counter(
            number for number, line in zip(block.numbers, block.lines, strict=True) if len(line) == PIECE
        )  # fmt: skip
        for number, count in pieces.items():
            length = count * STEP + (self._endless[1] if self._endless[0] == number else 0)
            self._endless = (number, length)  # a line that spans several blocks grows with each of them
            if length > max(self._found.cut_length, _ENDLESS):
                self._found.cut_line, self._found.cut_length = number, length

    def _look_at_the_end(self, numbers: list[int], lines: list[str], offset: int, first: int) -> None:
        """What ended the log stands in its last lines: they are looked at whatever came before."""
        end = max(0, len(lines) - _SMALL)
        if first < end:
            self._look(numbers, lines, offset, first, end)
        if self._budget.is_spent:
            self._found.examined_in_part = True
            self._budget, first = Budget(), end
        self._look(numbers, lines, offset, max(first, end), len(lines))

    def _look(self, numbers: list[int], lines: list[str], offset: int, first: int, until: int) -> None:
        """Examines what is around the hits from `first` on, before `until`."""
        if self._budget.is_spent:
            self._found.examined_in_part = True
            return
        windows: list[tuple[int, int]] = []
        for row in self._hits.rows(lines[first:until]):
            around = self._budget.around(lines[first + row])
            if around is None:
                continue
            begin = max(0, first + row - around[0], self._done - offset)
            end = min(first + row + around[1], len(lines))
            if begin >= end:
                continue
            self._budget.spend(sum(map(len, lines[begin:end])))
            self._done = offset + end
            if windows and begin == windows[-1][1]:
                windows[-1] = (windows[-1][0], end)
            else:
                windows.append((begin, end))
        for begin, end in windows:
            self._window(numbers, lines, begin, end)

    def _window(
        self, numbers: Sequence[int], lines: Sequence[str], begin: int, end: int, *, whole: bool = False
    ) -> None:
        cleaned = completed(without_a_prefix([clean(numbers[i], lines[i]) for i in range(begin, end)]), whole=whole)
        found = self._found
        for line in cleaned:
            found.clues.see(line)
        known: set[int] = set()
        for unit, around in _units(cleaned, _Close(cleaned, self._given)):
            matched = self._patterns.match(unit, around)
            self._keep(matched)
            sure = [one for one in matched if not _may_be_refused(one)]
            error = None if found.error_line else error_line_of(unit, steps=False)
            if error is not None:
                found.error_line = (unit.lines[error].number, unit.lines[error].text.strip())
            if sure or unit.exception:
                known.update(id(line) for line in unit.lines)
            if unit.exception and unit.kind is not UnitKind.WARNING:
                found.failures += 1
                if not sure and not (found.last_failure and _LEFT.match(unit.exception)):
                    message = unit.lines[min(unit.message_at, len(unit.lines) - 1)]
                    found.last_failure = (message.number, message.text.strip())
        crash = next((line for line in cleaned if id(line) not in known and _CRASH.match(line.text.strip())), None)
        if crash is not None:
            found.failures += 1
            found.last_failure = found.last_failure or (crash.number, crash.text.strip())


def _may_be_refused(match: Match) -> bool:
    """True where facts, or what else is in the log, decide whether the match is told."""
    return match.pattern.only_with_facts or match.pattern.of_learning is not None


class _Close:
    """Searches for patterns in the lines around a place. Neighbours share an answer: places are rounded to `_STEP`."""

    def __init__(self, lines: Sequence[Line], given: str) -> None:
        self._lines = lines
        self._given = Text(given)
        self._answers: dict[tuple[str, int, int], bool] = {}
        self._texts: dict[tuple[int, int], Text] = {}
        """The last one: units are asked for in turn."""

    def holds(self, sought: Sought, first: int, last: int) -> bool:
        key = (sought.expression, first // _STEP, last // _STEP)
        if key not in self._answers:
            self._answers[key] = any(map(sought.search, (self._around(first, last), self._given)))
        return self._answers[key]

    def text(self, first: int, last: int) -> str:
        """The lines around those from `first` to `last`."""
        return self._around(first, last).text

    def _around(self, first: int, last: int) -> Text:
        begin, end = max(0, first // _STEP * _STEP - _NEARBY), (last // _STEP + 1) * _STEP + _NEARBY
        if (begin, end) not in self._texts:
            joined = Text("\n".join(line.text for line in self._lines[begin:end]))
            self._texts = {(begin, end): joined}
        return self._texts[begin, end]


@dataclass(frozen=True, slots=True)
class _Around:
    """The lines around one unit, for patterns that need them."""

    close: _Close
    first: int
    last: int

    def holds(self, sought: Sought) -> bool:
        return self.close.holds(sought, self.first, self.last)

    def text(self) -> str:
        return self.close.text(self.first, self.last)
