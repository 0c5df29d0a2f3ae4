"""Regular expressions that are compiled when they are first used.

The modules that read logs hold two hundred, of which a short log needs a few: to compile all of them took a quarter of
the time of `explain`. An invalid one is found by its first use, so tests/model/test_quick_patterns.py compiles all.
"""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")


def when_used(expression: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`."""
    return cast("re.Pattern[str]", _Waiting(expression, flags))


class _Waiting:
    """Stands for a pattern; after the first use its methods are the compiled one's own, and cost nothing more."""

    def __init__(self, expression: str, flags: int) -> None:
        self.pattern = expression
        self._given = flags

    def __getattr__(self, name: str) -> Any:
        # Only where nothing of that name is there yet.
        compiled = re.compile(self.pattern, self._given)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        self.flags, self.groupindex = compiled.flags, compiled.groupindex
        return getattr(compiled, name)
