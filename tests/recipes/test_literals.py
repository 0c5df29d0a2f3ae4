"""The wheel holds what its expressions require, and says the same as an analysis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_doctor.recipes import literals, shelf
from attn_doctor.recipes.compiled import compile_literals
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.loosened import as_pasted

pytestmark = pytest.mark.unit


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty file in place of the wheel's."""
    file = tmp_path / "literals.json"
    monkeypatch.setattr(literals, "_made", lambda: file)
    _forget()
    yield file
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    literals._tables.cache_clear()
    literals.required.cache_clear()


def test_the_wheel_says_what_an_analysis_says(made: Path) -> None:
    """Every pattern of the shelf is in it, as it stands and as people paste it."""
    patterns = [log.pattern for recipe in (*shelf.bundled(), *shelf.families()) for log in recipe.logs]
    analysed = {one: literals.required(one) for pattern in patterns for one in (pattern, as_pasted(pattern))}
    loosened = {pattern: as_pasted(pattern) for pattern in patterns}

    made.write_text(compile_literals(bundled_folder()))
    _forget()

    assert set(literals.compiled("required")) == set(analysed)
    assert literals.compiled("pasted") == loosened
    assert {one: literals.required(one) for one in analysed} == analysed


def test_the_table_is_used(made: Path) -> None:
    """Planted: a text that the expression does not require."""
    made.write_text('{"required": {"abcdef": ["planted"]}, "pasted": {"abcdef": "loose"}}')
    assert literals.required("abcdef") == {"planted"}
    assert as_pasted("abcdef") == "loose"
    assert literals.required("ghijkl") == {"ghijkl"}


@pytest.mark.parametrize("text", ["", "{", "\x00"])
def test_a_damaged_table_is_not_used(made: Path, text: str) -> None:
    """All is analysed then."""
    made.write_text(text)
    assert literals.required("abcdef") == {"abcdef"}
