"""One scan for the literal texts of all patterns, which finds the few candidate places of a large log.

Python's `re` takes about 1 µs per character for an alternation of hundreds of literals, since most characters begin
some of them. Therefore each literal is searched from a character inside it that is rare in logs, or in the log at hand;
a few such characters cover all literals, and the scan skips everything else as a character class (measured:
bench/explain_cost.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from attn_doctor.diagnose.log.literal_index import LiteralIndex
from attn_doctor.quick_patterns import when_used

#: Occurrences in 1000 characters of training logs (progress lines, tracebacks, paths), rounded. Other characters are
#: rarer than all of these.
_FREQUENCY = dict(
    zip(
        " e0t/_oiasrn1ldpmc2.u3f4g5-6:,h\"b=78y9TvkwE()'Ix[]RA|SCNjzMFLDPOzqGBWU*<>VK",
        (150, 60, 45, 45, 40, 38, 38, 36, 36, 34, 34, 33, 30, 28, 26, 25, 22, 22, 20, 20, 18, 18, 16, 16, 15, 14, 14,
         13, 13, 13, 12, 12, 12, 12, 12, 11, 11, 11, 10, 8, 8, 7, 7, 6, 6, 6, 6, 6, 5, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3,
         3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 1, 1),
        strict=False,
    )
)  # fmt: skip
#: Minimum length of a literal from its rare character on.
_TAIL = 4
#: Length from which on it says something.
_LONG = 7
#: Characters of a log that tell how its characters are spread.
_SAMPLE = 1 << 14
_MOST = 14

_DIGITS = when_used("[0-9]")

Trie = dict[str, "Trie"]


class Prefilter:
    """Searches for any of these texts; a blank in one matches any white space."""

    def __init__(self, literals: Iterable[str], sample: str = "") -> None:
        """`sample`: some of the text that will be searched; with it the search is faster."""
        self._literals = tuple(dict.fromkeys(literals))
        self._frequency = _frequency(sample)
        self._rests = {sample[at : at + size] for size in range(1, _LONG) for at in range(len(sample) - size + 1)}
        """The short texts that stand in the sample."""

    def fitted(self, text: str) -> Prefilter:
        """The same, faster on a long text of which this is a part."""
        middle = max(0, (len(text) - _SAMPLE) // 2)
        return Prefilter(self._literals, text[middle : middle + _SAMPLE])

    def rows(self, text: str) -> Iterator[int]:
        """Lines where a match may begin, from 0; only approximate for a text that is searched from its middle."""
        if not self._literals:
            return
        search, row, at = self._pattern.search, 0, 0
        while found := search(text, at):
            row += text.count("\n", at, found.start())
            yield row
            at = text.find("\n", found.start()) + 1  # a second hit in the same line adds nothing
            if not at:
                return
            row += 1

    def standing(self, text: str) -> set[int]:
        """Numbers of the texts that stand in this short one."""
        return set(self._index.standing(" ".join(text.split())))

    @cached_property
    def _index(self) -> LiteralIndex:
        return LiteralIndex({literal: (number,) for number, literal in enumerate(self._literals)})

    def numbered(self, shape: str) -> list[str]:
        """The literals with digits that stand in a text without its digits, but for theirs."""
        return [literal for without, literal in self._numbered if without in " ".join(shape.split())]

    @cached_property
    def _numbered(self) -> list[tuple[str, str]]:
        with_digits = [literal for literal in self._literals if _DIGITS.search(literal)]
        return [(" ".join(_DIGITS.sub("", literal).split()), literal) for literal in with_digits]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        places = {literal: self._places(literal) for literal in _without_another(self._literals)}
        starts = _starts([[literal[at] for at in some] for literal, some in places.items()], self._frequency)
        costs = {character: _cost(character, self._frequency) for character in starts}
        trie: Trie = {}
        for literal, some in places.items():
            long = len(literal) - _LONG  # the last place that leaves more than a short rest, which may stand anywhere
            at = min((costs[literal[i]] * (1 if i <= long else 6), i) for i in some if literal[i] in starts)[1]
            node = trie
            for character in _searched(literal, at):
                node = node.setdefault(character, {})
            node[""] = {}
        return re.compile(_expression(trie))

    def _places(self, literal: str) -> list[int]:
        """Where the search may begin; not with a short rest that stands everywhere, as the `loss` of `NAN loss`."""
        places = [at for at in range(max(1, len(literal) - _TAIL + 1)) if not literal[at].isspace()]
        long = len(literal) - _LONG
        return [at for at in places if at <= long or _searched(literal, at) not in self._rests] or places[:1]


def _without_another(literals: Sequence[str]) -> list[str]:
    """Those in which no other of them stands: where it is hit, the other is."""
    index = LiteralIndex({literal: (number,) for number, literal in enumerate(literals)})
    return [literal for number, literal in enumerate(literals) if set(index.standing(literal)) == {number}]


def _searched(literal: str, at: int) -> str:
    return literal[at : at + _MOST].rstrip()


def _frequency(sample: str) -> Mapping[str, int]:
    """Occurrences in 100,000 characters of the sample; a hundredth of those in logs in general is added."""
    frequency = Counter(_FREQUENCY)
    for character, times in Counter(sample).items():
        frequency[character] += 100_000 * times // len(sample)
    return frequency


def _cost(characters: Iterable[str], frequency: Mapping[str, int]) -> int:
    return sum(max(1, frequency.get(character, 1)) for character in characters)


def _starts(choices: Iterable[Iterable[str]], frequency: Mapping[str, int] = _FREQUENCY) -> set[str]:
    """A cheap set of characters with at least one of each choice: a greedy cover, and then any exchange of one of its
    characters for cheaper ones. Each is looked at wherever it stands in a log, so their occurrences are the cost.
    """
    waiting: list[frozenset[str]] = []
    for one in sorted(
        set(map(frozenset, choices)), key=lambda one: (len(one), sorted(one))
    ):  # what covers a part of it covers it
        if not any(kept <= one for kept in waiting):
            waiting.append(one)
    chosen = _covering(waiting, set(), frequency)
    while cheaper := next(_exchanged(waiting, chosen, frequency), None):
        chosen = cheaper
    return chosen


def _exchanged(waiting: Sequence[frozenset[str]], chosen: set[str], frequency: Mapping[str, int]) -> Iterator[set[str]]:
    """Covers that cost less, each without one of the chosen characters; the dearest is left out first."""
    total = _cost(chosen, frequency)
    for character in sorted(chosen, key=lambda one: (-_cost(one, frequency), one)):
        others = [characters - {character} for characters in waiting]
        if all(others):
            cover = _covering(others, chosen - {character}, frequency)
            if _cost(cover, frequency) < total:
                yield cover


def _covering(sets: Sequence[frozenset[str]], having: set[str], frequency: Mapping[str, int] = _FREQUENCY) -> set[str]:
    """These characters with those that are missing for each set to contain one, less what is then needless."""
    chosen = set(having)
    waiting = [characters for characters in sets if not characters & chosen]
    while waiting:
        counted = Counter(character for characters in waiting for character in characters)
        best = min(counted, key=lambda character: (_cost(character, frequency) / counted[character], character))
        chosen.add(best)
        waiting = [characters for characters in waiting if best not in characters]
    for character in sorted(chosen, key=lambda one: (-_cost(one, frequency), one)):
        if all(len(characters & chosen) > (character in characters) for characters in sets):
            chosen.remove(character)
    return chosen


def any_of(literals: Iterable[str]) -> re.Pattern[str]:
    """Finds each of a few texts; a blank in one matches any white space."""
    return re.compile("|".join("".join(map(_matching, literal)) for literal in literals))


def _matching(character: str) -> str:
    return r"\s+" if character == " " else re.escape(character)


def _expression(trie: Trie) -> str:
    if "" in trie:
        return ""  # a shorter literal ends here: any continuation is a hit
    parts = [_matching(character) + _expression(below) for character, below in trie.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
