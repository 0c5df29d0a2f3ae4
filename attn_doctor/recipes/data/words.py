"""Which recipe's words are those of a text: a linear model of the words that the cases of each recipe have.

Data: recipes/words.json, made by bench/train_words.py from the cases and titles of the shelf alone. A recipe that came
since then is not in it, and is then never named by its words.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.kept import bundled_folder

TABLE = "words.json"
#: A text with fewer words that some case has is near to everything.
_FEWEST = 3
#: Lines at the end of a text that are read, of those that say that something failed; characters of each.
_LINES, _LONGEST = 12, 400
_WORD = when_used(r"[a-z_][a-z0-9_]{2,}|sm_\d+|\d+\.\d+")
_FRAME = when_used(r'\s*(?:File "|at |#\d)')
_FAILS = when_used(
    r"(?i)rror|ailed|xception|annot|can't|not |n't |unable|fatal|missing|invalid|unsupported|abort|assert"
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A recipe, and how near its words are: above -1 by as much as they speak for it; 1 is as sure as a case of it."""

    id: str
    score: float


class Words:
    """The model."""

    def __init__(self, read: dict[str, Any]) -> None:
        self._recipes: list[str] = read["recipes"]
        self._bias: list[float] = read["bias"]
        self._words: dict[str, list[float]] = read["words"]
        self._scale: float = read["scale"]

    @property
    def recipes(self) -> Sequence[str]:
        """Those that it knows."""
        return self._recipes

    def ranked(self, text: str) -> tuple[Ranked, ...]:
        """Every recipe that it knows, the nearest first; none for a text with hardly a word that it knows."""
        weights: defaultdict[int, float] = defaultdict(float)
        length, known = 0.0, 0
        for word, times in Counter(words_in(text)).items():
            row = self._words.get(word)
            if row is None:
                continue  # as the model was made: what no case says has no place in it
            known += 1
            weight = (1 + math.log(times)) * row[0]
            length += weight * weight
            for at in range(1, len(row), 2):
                weights[int(row[at])] += weight * row[at + 1]
        if known < _FEWEST:
            return ()
        unit = math.sqrt(length) * self._scale
        scores = [bias + weights[at] / unit if at in weights else bias for at, bias in enumerate(self._bias)]
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], self._recipes[at]))
        return tuple(Ranked(self._recipes[at], scores[at]) for at in order)


def words_in(text: str) -> Iterator[str]:
    """The words of the lines that say what failed, and pairs of neighbours."""
    words = _WORD.findall(_failing(text).lower())
    yield from words
    yield from map(" ".join, pairwise(words))


def _failing(text: str) -> str:
    lines = [line[:_LONGEST] for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return "\n".join(([line for line in lines if _FAILS.search(line)] or lines)[-_LINES:])


_read: list[Words] = []


def bundled() -> Words:
    """The model of the bundled recipes, read once."""
    if not _read:
        _read.append(Words(json.loads((bundled_folder() / TABLE).read_bytes())))
    return _read[0]
