"""`attn_doctor.check()` and its sisters: what the commands do, without a command line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attn_doctor
from attn_doctor.cli.check import check as check_command
from attn_doctor.cli.explain import explain as explain_command
from attn_doctor.cli.trace import trace as trace_command
from tests.conftest import Doctor, Environment

Make = Callable[..., Environment]
LOG = "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"


def _steady(report: dict[str, Any]) -> dict[str, Any]:
    """Without what differs between two runs a moment apart."""
    left = {name: value for name, value in report.items() if name not in ("created", "identity", "volatile", "facts")}
    return left | {"facts": sorted(report["facts"])}


def test_check_gives_what_the_command_writes(doctor: Doctor, environment: Make) -> None:
    """The same findings, facts and status; rendered, the same report."""
    env = environment()
    env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")
    env.package("flash-attn", "2.8.3")

    mine = attn_doctor.check(python=env.python, quick=True, gpu="h100", assume="torch.version=2.8.0")
    told = doctor(
        "check", "--quick", "--json", "--python", env.python, "--gpu", "h100", "--assume", "torch.version=2.8.0"
    )

    assert _steady(mine.to_json()) == _steady(told.report)
    assert mine.exit_status == told.status
    assert [finding.id for finding in mine.findings] == [finding["id"] for finding in told.report["findings"]]
    assert str(env.folder) in " ".join(str(mine).split())  # a long path has a line of its own
    assert mine._repr_html_().startswith("<pre>")
    assert mine.markdown().startswith("**")
    assert "check" in repr(mine)


def test_without_an_interpreter_the_caller_is_examined() -> None:
    """As `python -m attn_doctor` does."""
    assert Path(attn_doctor.check(quick=True).to_json()["target"]["python"]).samefile(sys.executable)


def test_a_file_is_meant_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths pass the same door as those of the command line."""
    (tmp_path / "train.log").write_text(LOG)
    monkeypatch.chdir(tmp_path)

    assert attn_doctor.explain("train.log").exit_status == 1
    with pytest.raises(attn_doctor.BadInput):
        attn_doctor.explain("another.log")


def test_an_error_is_explained_without_a_file() -> None:
    """The words of an exception are enough, and the report shows them as those of no file."""
    explained = attn_doctor.explain(text=LOG)

    assert [finding.id for finding in explained.findings]
    assert "<" not in explained._repr_html_().removeprefix("<pre>").removesuffix("</pre>")


@pytest.mark.parametrize(
    "wrong",
    [{"fail_on": "fatal"}, {"only": ["no-such-recipe"]}, {"assume": "no.such.fact=1"}, {"gpu": "h1000"}],
    ids=["severity", "recipe", "fact", "GPU"],
)
def test_a_wrong_argument_is_named(wrong: dict[str, Any]) -> None:
    """As an exception in three parts, and before anything is imported for it."""
    with pytest.raises(attn_doctor.BadInput) as raised:
        attn_doctor.check(quick=True, **wrong)

    assert raised.value.what
    assert raised.value.about
    assert raised.value.hint


def test_an_interpreter_that_is_none_is_told(tmp_path: Path) -> None:
    """No report is made up for it."""
    with pytest.raises(attn_doctor.AttnDoctorError):
        attn_doctor.check(python=tmp_path / "bin/python", quick=True)


@pytest.mark.parametrize(
    ("function", "command", "renamed", "of_the_command_alone"),
    [
        (
            attn_doctor.check,
            check_command,
            {"config": "configs", "assumption": "assume", "accept_file": "accept"},
            {
                "context", "command", "kernels", "backend", "dtype", "kernels_budget", "seed", "replay", "explain_sdpa",
                "format_", "json_", "output", "expect", "wait", "prometheus", "exit_zero", "exit_style",
                "show_names", "verbose", "verdicts", "lang",
            },
        ),
        (
            attn_doctor.trace,
            trace_command,
            {"argument": "arguments", "compile_": "compile"},
            {"format_", "json_", "output", "verbose", "kernels", "record", "trust_remote_code", "lang"},
        ),
        (
            attn_doctor.explain,
            explain_command,
            {"named": "logs", "facts_file": "facts", "assumption": "assume"},
            {"format_", "json_", "output", "verbose", "lang"},
        ),
    ],
    ids=["check", "trace", "explain"],
)  # fmt: skip
def test_every_option_is_an_argument(
    function: Callable[..., Any], command: Callable[..., Any], renamed: dict[str, str], of_the_command_alone: set[str]
) -> None:
    """An option that a command gets later is an argument as well, or is named here as the command's alone."""
    options = inspect.signature(command).parameters
    arguments = inspect.signature(function).parameters
    wanted = {renamed.get(name, name) for name in options if name not in of_the_command_alone}

    assert wanted == {name for name in arguments if name != "text"}
    for name, option in options.items():
        mine = arguments.get(renamed.get(name, name))
        if mine is None or mine.kind is mine.VAR_POSITIONAL or name in of_the_command_alone:
            continue
        assert (mine.default or None) == (getattr(option.default, "value", option.default) or None), name


def test_importing_the_package_loads_nothing_else() -> None:
    """A training program pays for what it calls."""
    code = (
        "import sys; before = set(sys.modules); import attn_doctor; "
        "print(*sorted({name for name in set(sys.modules) - before if name.startswith('attn_doctor')}))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert said == ["attn_doctor", "attn_doctor.version"]


def test_calling_loads_no_command_line() -> None:
    """Neither typer nor torch comes into the process of the caller."""
    code = (
        "import sys, attn_doctor; attn_doctor.check(quick=True); attn_doctor.explain(text='x'); "
        "print(sorted({'typer', 'pydantic', 'torch', 'rich'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.strip() == "[]"


def test_every_public_name_is_there() -> None:
    """And what is not public says so as any module does."""
    assert all(getattr(attn_doctor, name) is not None for name in attn_doctor.__all__)
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        attn_doctor.chekc  # type: ignore[attr-defined]  # noqa: B018


def test_a_lock_file_in_the_place_of_an_environment(tmp_path: Path) -> None:
    """It is judged for the GPU that is named; no environment is looked at."""
    file = tmp_path / "requirements.txt"
    file.write_text("torch==2.9.1\nflash-attn==2.8.3\n")

    found = attn_doctor.check(lock=file, gpu="t4")

    assert [one.id for one in found.findings] == ["gpu-before-ampere"]
    assert str(file) in str(found)
    with pytest.raises(attn_doctor.BadInput, match="no environment is looked at"):
        attn_doctor.check(lock=file, python="/usr/bin/python3")
