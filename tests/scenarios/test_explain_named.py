"""What `attn-doctor explain` takes beside logs: the words of an error, the id of a recipe, and what is pasted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor.cli.explain_named import Named, read_names
from attn_doctor.errors import BadInput
from attn_doctor.recipes import shelf
from attn_doctor.report.terminal.answer import MOST_LINES
from tests.conftest import Doctor

REFUSED = "RuntimeError: FlashAttention only support fp16 and bf16 data type"


def test_words_of_an_error(doctor: Doctor) -> None:
    """In quotes, or as the shell takes them apart."""
    quoted, bare = doctor("explain", REFUSED), doctor("explain", *REFUSED.split())

    assert (quoted.status, bare.status) == (1, 1)
    assert "fp32-model-without-autocast" in quoted.stdout
    assert bare.stdout == quoted.stdout


def test_a_path_stays_a_path(doctor: Doctor, tmp_path: Path) -> None:
    """What is there is read, whatever it is called; what is not there and is no text is a log that is missing."""
    (tmp_path / "a log of mine").write_text(REFUSED)

    assert doctor("explain", tmp_path / "a log of mine").status == 1
    for name in ("/nowhere/train.log", "my run.log", "slurm-123"):
        run = doctor("explain", name)
        assert run.status == 2
        assert "there is no such log" in run.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("nvcc-mising", "nvcc-missing"),
        ("vllm-backend-refusd", "vllm-backend-refused"),
        ("flash_attn_not_instaled", "flash-attn-not-installed"),
        ("fla-gsa-of-mine", "fla-transformers-mismatch"),
    ],
)
def test_a_mistyped_id_is_told_the_one_it_resembles(doctor: Doctor, typed: str, meant: str) -> None:
    """Of a recipe as of a family, in both commands that take one."""
    for run in (doctor("explain", typed), doctor("recipes", "show", typed)):
        assert run.status == 2
        assert "Did you mean" in run.stderr
        assert meant in run.stderr


@pytest.mark.parametrize("id_", ["nvcc-missing", "gpu-out-of-memory", "vllm-backend-refused"])
def test_a_recipe_is_explained_by_its_id(doctor: Doctor, id_: str) -> None:
    """All that it says, whether or not somebody ran into it; as JSON what `recipes show` tells."""
    (recipe,) = [one for one in shelf.shelf() if one.id == id_]
    run = doctor("explain", id_)

    assert run.status == 0
    assert run.stdout.startswith(f"{id_}  {recipe.library}; ")
    assert " ".join(recipe.why.split())[:60] in " ".join(run.stdout.split())
    assert "?" not in run.stdout.replace("?,", "").replace("1?", "")
    assert json.loads(doctor("explain", id_, "--json").stdout) == json.loads(
        doctor("recipes", "show", id_, "--json").stdout
    )


def test_a_recipe_takes_no_other_names_and_no_options_of_logs(doctor: Doctor) -> None:
    """What would be passed over is refused."""
    assert doctor("explain", "nvcc-missing", "/nowhere.log").status == 2
    assert doctor("explain", "nvcc-missing", "--gpu", "t4").status == 2


def test_a_terminal_is_asked_to_paste(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And what nobody pastes is refused."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(REFUSED))
    assert read_names((), ()) == Named(texts=(REFUSED,))
    assert "Paste" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Terminal(" \n"))
    with pytest.raises(BadInput, match="nothing was pasted"):
        read_names((), ())


def test_what_is_piped_in_is_a_log(tmp_path: Path) -> None:
    """Or comes from a file; where nothing is, no log was named."""
    (tmp_path / "x.log").write_text(REFUSED)
    command = [sys.executable, "-m", "attn_doctor", "explain"]
    told = [subprocess.run([*command, "-"], input=REFUSED, capture_output=True, text=True, check=False)]
    told += [subprocess.run(command, input=REFUSED, capture_output=True, text=True, check=False)]
    with (tmp_path / "x.log").open() as file:
        told += [subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)]
    assert {(one.returncode, one.stdout) for one in told} == {(1, told[0].stdout)}
    assert "fp32-model-without-autocast" in told[0].stdout
    for given in ({"stdin": subprocess.DEVNULL}, {"input": ""}):
        nothing = subprocess.run(command, **given, capture_output=True, text=True, check=False)
        assert (nothing.returncode, nothing.stdout) == (2, "")
        assert "no log was named" in nothing.stderr


def _texts() -> list[str]:
    cases = (case for recipe in shelf.shelf() for case in recipe.cases[-3:])
    return [case.log for case in cases if case.log is not None and case.expect == "finds"]


@pytest.mark.parametrize("nth", [120, pytest.param(40, marks=pytest.mark.heavy)])
def test_an_answer_fits_a_screen(tmp_path: Path, doctor: Doctor, nth: int) -> None:
    """Also of a log with several messages; -v has the rest."""
    file = tmp_path / "x.log"
    for text in (*_texts()[::nth], "\n\n".join(_texts()[:6])):
        file.write_text(text)
        short, whole = (doctor("explain", *option, file).stdout.splitlines() for option in ((), ("-v",)))

        assert len(short) <= MOST_LINES, "\n".join(short)
        assert len(whole) > len(short)
        assert short[2].startswith("["), short[2]
