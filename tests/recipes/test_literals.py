"""The wheel holds what its expressions require, and says the same as an analysis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_doctor.diagnose.log.sought import Sought, Text
from attn_doctor.recipes import literals, shelf
from attn_doctor.recipes.compiled import compile_literals, compile_pasted
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.loosened import as_pasted

pytestmark = pytest.mark.unit


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of the wheel's, with two empty files."""
    for name in (literals.LITERALS, literals.PASTED):
        (tmp_path / name).touch()
    monkeypatch.setattr(literals, "_made", lambda name: tmp_path / name)
    _forget()
    yield tmp_path
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

    (made / literals.LITERALS).write_text(compile_literals(bundled_folder()))
    (made / literals.PASTED).write_text(compile_pasted(bundled_folder()))
    _forget()

    assert set(literals.compiled(literals.LITERALS, "needed")) >= set(patterns)
    assert set(literals.compiled(literals.PASTED, "needed")) == set(loosened.values())
    assert literals.compiled(literals.PASTED, "pasted") == loosened
    assert {one: literals.required(one) for one in analysed} == analysed


def test_the_table_is_used(made: Path) -> None:
    """Planted: a text that the expression does not require."""
    (made / literals.LITERALS).write_text('{"needed": {"abcdef": [[["planted"]]]}}')
    (made / literals.PASTED).write_text('{"needed": {"abcd": [[["too"], ["less"]]]}, "pasted": {"abcdef": "loose"}}')
    assert literals.required("abcdef") == {"planted"}
    assert literals.required("abcd") == {"too"}
    assert as_pasted("abcdef") == "loose"
    assert literals.required("ghijkl") == {"ghijkl"}


@pytest.mark.parametrize("text", ["", "{", "\x00"])
def test_a_damaged_table_is_not_used(made: Path, text: str) -> None:
    """All is analysed then."""
    for name in (literals.LITERALS, literals.PASTED):
        (made / name).write_text(text)
    assert literals.required("abcdef") == {"abcdef"}


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("the kernel refuses head dim 512", True),
        ("head dim 512", False),  # of the first alternative a part
        ("no kernel, and no head dimension", False),
        ("a symbol is missing", True),
        ("a missing symbol", False),
    ],
)
def test_a_match_has_a_text_of_each_list_of_an_alternative(text: str, may: bool) -> None:
    sought = Sought(r"kernel refuses .{0,20}head dim \d+|symbol is missing")
    assert sought.may_stand(text) is may
    assert bool(sought.search(Text(text))) is may


def test_what_the_shelf_finds_in_its_own_cases_may_stand_there() -> None:
    """A text that a match needs stands in it, whatever white space the log has for a blank."""
    for recipe in (*shelf.bundled(), *shelf.families()):
        texts = [Text(case.log) for case in recipe.cases if case.log]
        spelled = (
            one for log in recipe.logs for one in (log.pattern, log.unless, log.nearby, log.unless_nearby) if one
        )
        for sought in map(Sought, spelled):
            found = [text for text in texts if sought.compiled.search(text.text)]
            assert all(sought.may_stand(text.flat) for text in found), sought.expression
