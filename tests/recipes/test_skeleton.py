"""`recipes new`: a skeleton that says what is still to be filled in, and what is stale in a shelf."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from attn_doctor.diagnose.cases import run_cases
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.errors import BadInput, BrokenRecipe
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from attn_doctor.recipes.schema.skeleton import write
from attn_doctor.recipes.stale import stale
from tests.conftest import Doctor

#: What somebody writes into the skeleton, by the words that ask for it.
ANSWERS = {
    "one line that says": "Compiled kernels lie on a slow file system",
    "what is wrong here": "Triton's cache is on the parallel file system.",
    "why it happens": "Each rank reads thousands of small files.",
    "https://": "https://triton-lang.org/",
    "a regular expression": r"Stale file handle: \S{0,200}/\.triton/",
    "what fixes it": "Put the cache on a local disk",
    "what to do, on": "export TRITON_CACHE_DIR=/local/triton",
    "the message, as": "OSError: [Errno 116] Stale file handle: /home/a/.triton/cache/k.json",
    "a message that is close": "OSError: [Errno 116] Stale file handle: /home/a/data.arrow",
}


def fill_in(text: str) -> str:
    for asked, answer in ANSWERS.items():
        text, count = re.subn(r"FILL IN: [^\n'\"]*" + re.escape(asked) + r"[^\n'\"]*|FILL IN: " + re.escape(asked) +
                              r"[^\n'\"]*", lambda _, answer=answer: answer, text)  # fmt: skip
        assert count == 1, asked
    return text


def test_what_is_left_to_do_is_told(tmp_path: Path) -> None:
    """Each place, with the words of the skeleton, and nothing else."""
    write("slow-cache", tmp_path, "site")
    with pytest.raises(BrokenRecipe) as raised:
        shelf.named(tmp_path)
    faults = raised.value.what.splitlines()[1:]

    assert len(faults) == len(ANSWERS)
    assert all("still to be filled in: " in fault for fault in faults)


def test_filled_in_it_works(tmp_path: Path) -> None:
    """With the answers in it, its own cases pass and `explain` finds with it."""
    file = write("slow-cache", tmp_path, "site")
    file.write_text(fill_in(file.read_text()))
    (recipe,) = shelf.named(tmp_path)

    assert [result.fault for result in run_cases(recipe)] == ["", ""]
    told = explain_text(ANSWERS["the message, as"], [recipe], FactSet()).diagnosis
    assert [finding.id for finding in told.findings] == ["slow-cache"]


def test_half_filled_in(tmp_path: Path) -> None:
    """What is left is named; a case that does not find is told by `recipes test`."""
    file = write("slow-cache", tmp_path, "site")
    text = fill_in(file.read_text())
    file.write_text(text.replace("Each rank reads", "FILL IN: why"))

    with pytest.raises(BrokenRecipe, match="1 fault:\n  why: still to be filled in"):
        shelf.named(tmp_path)
    file.write_text(text.replace("/.triton/cache/k.json", "/cache/k.json"))
    assert any("expected finds, got clears" in result.fault for result in run_cases(shelf.named(tmp_path)[0]))


@pytest.mark.parametrize("id_", ["", "A", "a b", "../a", "a--b", "-a", "a/b", "ü", "a" * 81])
def test_what_is_no_name(tmp_path: Path, id_: str) -> None:
    """Neither as an id nor as a library; nothing is written."""
    with pytest.raises(BadInput, match="not a name"):
        write(id_, tmp_path, "site")
    with pytest.raises(BadInput, match="not a name"):
        write("a", tmp_path, id_)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A recipe that is there stays as it is."""
    file = write("a", tmp_path, "site")
    file.write_text("mine")

    with pytest.raises(BadInput, match="already"):
        write("a", tmp_path, "site")
    assert file.read_text() == "mine"


def test_from_the_command_line(doctor: Doctor, tmp_path: Path) -> None:
    """It says what it wrote and what comes next; bad names are usage errors in words."""
    run = doctor("recipes", "new", "slow-cache", "--folder", tmp_path)

    assert run.status == 0
    assert str(tmp_path / "site" / "slow-cache" / "recipe.toml") in run.stdout
    assert doctor("recipes", "test", "slow-cache", "--recipes", tmp_path).status == 2
    again = doctor("recipes", "new", "slow-cache", "--folder", tmp_path)
    assert again.status == 2
    assert "already" in again.stderr
    assert "Traceback" not in again.stderr


def test_stale() -> None:
    """A year after somebody looked last, and from the day after a remedy's own on."""
    recipe = replace(shelf.bundled()[0], checked="2026-01-01")
    remedy = replace(recipe.remedies[0], expires="2026-06-30")
    dated = replace(recipe, remedies=(remedy,))

    assert list(stale(recipe, date(2027, 1, 1))) == []
    assert len(list(stale(recipe, date(2027, 1, 2)))) == 1
    assert list(stale(dated, date(2026, 6, 30))) == []
    assert list(stale(dated, date(2026, 7, 1))) == [f"remedy {remedy.id} expired on 2026-06-30"]


def test_stale_is_shown_and_fails_nothing(doctor: Doctor, tmp_path: Path) -> None:
    """`recipes test` names it, and how many there are."""
    file = write("slow-cache", tmp_path, "site")
    text = re.sub(r"checked  = \S+", "checked  = 2020-01-01", fill_in(file.read_text()))
    file.write_text(text.replace("# expires", "expires").replace("expires = ", "expires = 2020-02-02 # ", 1))
    run = doctor("recipes", "test", "slow-cache", "--recipes", tmp_path)

    assert run.status == 0, run.stderr
    assert "slow-cache: stale: last held against its sources on 2020-01-01" in run.stdout
    assert "remedy what-to-do expired on 2020-02-02" in run.stdout
    assert run.stdout.rstrip().endswith("2 stale")
