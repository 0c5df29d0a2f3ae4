"""Known troubles whose own words are nearest to those of a message that no pattern knows.

A message that was cut, told in a sentence or worded anew has no pattern of its own, and mostly the words of a trouble
that is on the shelf. What is nearest is not judged: it is shown as something to look at, never as a finding. On 240
reports that nobody had read it stood below 11 answers, with the right one among the three in 6.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.recipe import Recipe

#: Most that are shown; the lines at the end of the log that are read.
_MOST, _LINES = 3, 6
#: Characters of a line that are read.
_LONGEST = 400
#: A recipe that shares less with the message shares a few common words.
_LEAST = 0.6
#: By how much the length of a recipe's own texts counts against it: 0 favours long ones, 1 short ones.
_SHORTNESS = 0.6
_WORD = when_used(r"[a-z_][a-z0-9_]{2,}|sm_\d+|\d+\.\d+")
_FRAME = when_used(r'\s*(?:File "|at |#\d)')
_FAILS = when_used(
    r"(?i)rror|ailed|xception|annot|can't|not |n't |unable|fatal|missing|invalid|unsupported|abort|assert"
)
#: Of prose, tracebacks and paths: they stand everywhere.
_COMMON = frozenset(
    {
        *(
            "the",
            "and",
            "for",
            "not",
            "with",
            "that",
            "from",
            "this",
            "you",
            "your",
            "have",
            "are",
            "was",
            "can",
            "but",
        ),
        *(
            "but",
            "use",
            "all",
            "any",
            "has",
            "its",
            "file",
            "line",
            "site",
            "packages",
            "lib",
            "python",
            "home",
            "user",
        ),
        *("users", "return", "self", "args", "kwargs", "init", "module", "call", "most", "recent", "last", "traceback"),
        *("torch", "error"),
    }
)


def nearest(text: str, recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """The recipes nearest to what failed in a short log, the nearest first; none where all are far.

    Of each recipe its title and the texts that are cases of it are read; those that say only where, or know messages by
    their grammar, have no words of their own.
    """
    asked = _words(_failing(text))
    if not asked:
        return ()
    owned = {
        recipe.id: _words(_own(recipe))
        for recipe in recipes
        if recipe.logs and not recipe.says_where and not recipe.is_of_a_grammar
    }
    within = Counter(word for words in owned.values() for word in words)
    rare = {word: math.log(len(owned) / times) for word, times in within.items()}
    by_word: defaultdict[str, list[str]] = defaultdict(list)
    for name, words in owned.items():
        for word in words.keys() & asked.keys():
            by_word[word].append(name)
    near: Counter[str] = Counter()
    for word, names in by_word.items():
        for name in names:
            near[name] += _weight(asked[word], rare[word]) * _weight(owned[name][word], rare[word])  # type: ignore[assignment]
    unseen = math.log(len(owned))
    whole = _length((times, rare.get(word, unseen)) for word, times in asked.items())
    scores = {
        name: score / whole / _length((times, rare[word]) for word, times in owned[name].items()) ** _SHORTNESS
        for name, score in near.items()
    }
    known = {recipe.id: recipe for recipe in recipes}
    best = sorted((one for one in scores.items() if one[1] >= _LEAST), key=lambda one: (-one[1], one[0]))
    return tuple(known[name] for name, _ in best[:_MOST])


def _weight(times: int, rare: float) -> float:
    return (1 + math.log(times)) * rare


def _length(words: Iterable[tuple[int, float]]) -> float:
    return math.sqrt(sum(_weight(times, rare) ** 2 for times, rare in words)) or 1.0


def _own(recipe: Recipe) -> str:
    return "\n".join((recipe.title, *(case.log for case in recipe.cases if case.log)))


def _failing(text: str) -> str:
    lines = [line[:_LONGEST] for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return "\n".join(([line for line in lines if _FAILS.search(line)] or lines)[-_LINES:])


def _words(text: str) -> Mapping[str, int]:
    """Words and pairs of neighbours, with how often they stand there."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _COMMON]
    return Counter((*words, *map("~".join, pairwise(words))))
