"""recipes/words.json: it fits the shelf that it was made from, and a text is ranked by it alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.words import Words, bundled, words_in
from attn_doctor.recipes.recipe import Recipe

MAKE = "python bench/train_words.py makes the file anew"


def with_words() -> list[Recipe]:
    every = (*shelf.bundled(), *shelf.families())
    return [one for one in every if one.logs and one.has_words_of_its_own]


class TestTheFile:
    """It is made by hand, after recipes were added."""

    def test_every_recipe_in_it_is_on_the_shelf(self) -> None:
        left = set(bundled().recipes) - {one.id for one in with_words()}

        assert not left, MAKE

    def test_it_knows_most_of_the_shelf(self) -> None:
        """A recipe that came since is only never named by its words; not many may have come."""
        wanted = {one.id for one in with_words()}

        assert len(wanted & set(bundled().recipes)) >= 0.95 * len(wanted), MAKE

    def test_cases_have_the_words_of_their_recipes(self) -> None:
        """Of every tenth case; a file that was made from another shelf has half of them among its first three."""
        known = set(bundled().recipes)
        cases = [(case.log, one.id) for one in with_words() if one.id in known for case in one.cases if case.log][::10]
        right = [name in [one.id for one in bundled().ranked(text)[:3]] for text, name in cases]

        assert len(cases) > 400
        assert sum(right) >= 0.9 * len(cases), MAKE


class TestRanked:
    """What the model makes of a text."""

    MODEL = Words(
        {
            "scale": 10,
            "recipes": ["a", "b"],
            "bias": [-0.5, -0.4],
            "words": {"nvcc": [2.0, 0, 20], "torch": [1.0, 1, 10, 0, -5], "nvcc torch": [3.0]},
        }
    )

    def test_by_hand(self) -> None:
        """nvcc (2), torch (1) and the pair (3): the length is sqrt(4 + 1 + 9), and each has its share."""
        length = 14**0.5
        a, b = self.MODEL.ranked("error: nvcc torch")
        assert a.score == pytest.approx(-0.5 + (2 * 2 - 0.5) / length)
        assert b.score == pytest.approx(-0.4 + 1 / length)

    def test_a_text_of_strange_words(self) -> None:
        assert self.MODEL.ranked("error: what is that") == ()
        assert self.MODEL.ranked("error: nvcc and torch") == ()  # two words are near to everything
        assert self.MODEL.ranked("") == ()

    def test_lines_that_say_a_failure_are_read_before_others(self) -> None:
        text = 'loading cudnn\n  File "nvcc.py", line 3\nRuntimeError: torch failed'

        assert list(words_in(text)) == ["runtimeerror", "torch", "failed", "runtimeerror torch", "torch failed"]
        assert list(words_in("loading cudnn")) == ["loading", "cudnn", "loading cudnn"]

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """All recipes or none, the surest first."""
        ranked = bundled().ranked(text)

        assert len(ranked) in (0, len(bundled().recipes))
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
