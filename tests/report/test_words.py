"""Reports are written in the field's terms: words that readers had to guess at do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import attn_doctor

HOUSE = Path(attn_doctor.__file__).parent
#: What people read is written there.
_PLACES = ("report", "cli", "planning", "workflows", "model/kernel_words.py", "model/kernels.py")
#: Retired, and what stands in its place.
_RETIRED = {
    r"\bcure[sd]?\b": "fix",
    r"(?<!-)\bmind\b": "note",
    r"^so that$|^- so that": "causes",
    r"\bas sure as\b|^sure$": "confidence",
    r"\btold\b": "reported, said",
    r"\bnobody listened\b": "Xid listener did not start",
    r"\[left\]": "[skipped]",
    r"Judged in part": "Partial check",
    r"\bmended\b": "fixed",
    r"\bclean bill\b": "",
}
#: Names in formats for programs, which stay.
_NAMES = {"cures", "mended_by"}


def _words(file: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that are no docstrings."""
    tree = ast.parse(file.read_text())
    notes = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def _found(file: Path) -> list[str]:
    return [
        f"{file.relative_to(HOUSE)}:{line}: {words!r}; better: {better}"
        for line, words in _words(file)
        if words not in _NAMES
        for retired, better in _RETIRED.items()
        if re.search(retired, words)
    ]


@pytest.mark.parametrize("place", _PLACES)
def test_retired_words_stay_retired(place: str) -> None:
    """In no string that a report, a plan or a help text is made of."""
    folder = HOUSE / place
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))

    assert files
    assert [one for file in files for one in _found(file)] == []
