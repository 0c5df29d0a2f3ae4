"""An expression that is looked for in texts, most of which lack the words that each of its matches has."""

from __future__ import annotations

import re
from functools import cached_property

from attn_doctor.recipes.literals import needed


class Text:
    """A text in which many expressions are looked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def flat(self) -> str:
        """With single blanks for white space, as in the words that expressions need."""
        return " ".join(self.text.split())


class Sought:
    """An expression of a recipe, compiled when a text may hold it.

    To compile one takes as long as a short log's whole search, and to search a window of long lines for it
    milliseconds; whether its words stand there is a matter of microseconds.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression

    @cached_property
    def _needed(self) -> list[list[list[str]]]:
        return needed(self.expression)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """It itself."""
        return re.compile(self.expression, re.MULTILINE)

    def search(self, where: Text) -> re.Match[str] | None:
        """Where it is first found."""
        return self.compiled.search(where.text) if self.may_stand(where.flat) else None

    def may_stand(self, flat: str) -> bool:
        """False where the words are missing that a match has."""
        if not self._needed:
            return True
        for alternative in self._needed:
            for texts in alternative:
                for text in texts:
                    if text in flat:
                        break
                else:
                    break
            else:
                return True
        return False
