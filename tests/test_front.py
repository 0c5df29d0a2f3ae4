"""The front reads plain command lines without typer: whatever it reads, typer reads the same."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from hypothesis import example, given
from hypothesis import strategies as st

from attn_doctor.cli import front, started, with_typer
from attn_doctor.cli.check import check
from attn_doctor.cli.commands import COMMANDS
from attn_doctor.cli.declare import Argument
from attn_doctor.cli.fix import fix
from attn_doctor.cli.status import status
from attn_doctor.cli.undo import undo
from attn_doctor.probe.kernels.known_kernels import Mode
from tests.conftest import Doctor

FUNCTIONS: dict[str, Callable[..., Any]] = {"check": check, "fix": fix, "status": status, "undo": undo}


def _read_by_typer(name: str, words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The parameters that typer would call the command with, and which were given; None where it refuses."""
    function = FUNCTIONS[name]
    called: dict[str, Any] = {}

    def command(**values: Any) -> None:
        called.update(values)

    command.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    command.__doc__ = function.__doc__
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=with_typer.command_class(function))(with_typer.declared(command))
    try:
        app(list(words), standalone_mode=False)
    except Exception:
        return None
    return (called, started.given) if called else None


def _parsed(name: str, words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]] | None:
    try:
        return front.parsed(FUNCTIONS[name], words)
    except front._Unread:
        return None


def _alike(mine: dict[str, Any], told: dict[str, Any]) -> bool:
    """The same values of the same types; an empty list is a list that was not given."""
    assert mine.keys() == told.keys()
    return all(
        (mine[one] or None, type(mine[one] or None)) == (told[one] or None, type(told[one] or None)) for one in mine
    )


def test_the_front_reads_every_option() -> None:
    """What the front declares and what typer builds from the same declarations: names, flags and defaults."""
    for name, function in FUNCTIONS.items():
        app = typer.Typer(add_completion=False)
        app.command(name)(with_typer.declared(function))
        command = typer.main.get_command(app)
        theirs = {
            str(one.name): {*one.opts, *one.secondary_opts}
            for one in command.params
            if one.param_type_name == "option" and one.name != "help"
        }
        mine = {
            parameter: {flag for flag, _ in front._flags(parameter, kind, option)}
            for parameter, kind, option, _ in front._declared(function)
            if option is not None
        }
        assert mine == theirs
        read, told = _parsed(name, []), _read_by_typer(name, [])
        assert read is not None
        assert told is not None
        assert _alike(read[0], told[0])


def _words(name: str) -> st.SearchStrategy[list[str]]:
    """Command lines of a command: its flags, plain and strange values, mistakes."""
    flags = [
        flag
        for parameter, kind, option, _ in front._declared(FUNCTIONS[name])
        if option is not None
        for flag, _ in front._flags(parameter, kind, option)
    ]
    enums = [
        one.value
        for _, kind, _, _ in front._declared(FUNCTIONS[name])
        if isinstance(front._certain(kind), type) and issubclass(front._certain(kind), Enum)
        for one in front._certain(kind)
    ]
    values = st.one_of(
        st.sampled_from(
            [*enums, "/tmp", "/no/such", "3", "3.5", "0", "1e3", "-1", "", "nan", "a b", "~", "--", "-", "é"]
        ),
        st.integers(-5, 10**16).map(str),
        st.floats(-10, 1e6).map(str),
        st.text(st.characters(exclude_characters="\0"), max_size=6),  # no process is handed a NUL
    )
    flag = st.sampled_from([*flags, "--nothing", "--samp", "-x", "-vv", "--help"])
    word = st.one_of(
        flag.map(lambda one: [one]),
        st.tuples(flag, values).map(list),
        st.tuples(flag, values).map(lambda two: ["=".join(two)]),
        values.map(lambda one: [one]),
    )
    return st.lists(word, max_size=4).map(lambda lists: [one for some in lists for one in some])


@given(_words("check"))
@example(["--quick", "--python", "/tmp", "--only", "a", "--only", "b,c", "--no-samples", "--format=json", "-v"])
@example(["--samples", "--no-samples"])
@example(["--no-samples", "--samples"])
@example(["--timeout", "0.5"])
@example(["--timeout", "30", "--timeout", "40"])
@example(["--seed", "2147483648"])
@example(["--quick=true"])
@example(["--python=--quick"])
@example(["--quick", "--", "train.py"])
def test_what_the_front_reads_of_check_typer_reads_alike(words: list[str]) -> None:
    """The same values, and the same options known as given; where the front does not read, typer does or refuses."""
    mine = _parsed("check", words)
    if mine is not None:
        told = _read_by_typer("check", words)
        assert told is not None
        assert _alike(mine[0], told[0])
        assert mine[1] == told[1]


@pytest.mark.parametrize(
    ("words", "kernels", "replay", "command"),
    [
        (["--kernels"], Mode.QUICK, None, []),
        (["--kernels", "--replay", "calls.json"], Mode.QUICK, "calls.json", []),
        (["--kernels", "full", "--replay", "calls.json"], Mode.FULL, "calls.json", []),
        (["--replay", "calls.json", "--kernels"], Mode.QUICK, "calls.json", []),
        (["--replay", "calls.json"], None, "calls.json", []),
        (["--kernels=full", "--json"], Mode.FULL, None, []),
        (["--kernels", "--backend", "sdpa"], Mode.QUICK, None, []),
        (["--kernels", "--", "train.py", "--kernels"], Mode.QUICK, None, ["train.py", "--kernels"]),
    ],
)
def test_kernels_with_and_without_a_depth(
    words: list[str], kernels: Mode | None, replay: str | None, command: list[str]
) -> None:
    """`quick` where none is said, read by typer and, unless a command follows, by the front alike."""
    told = _read_by_typer("check", words)
    mine = _parsed("check", words)

    assert told is not None
    assert (told[0]["kernels"], told[0]["replay"]) == (kernels, replay and Path(replay))
    assert list(told[0]["command"] or []) == command
    assert (mine is None) == bool(command)
    assert mine is None or (_alike(mine[0], told[0]) and mine[1] == told[1])


def test_a_depth_that_is_none_is_refused() -> None:
    """What follows without a dash is the depth: no word is taken for something else."""
    assert _read_by_typer("check", ["--kernels", "deep"]) is None


@given(_words("status"))
@example(["--from", "/tmp", "--max-age", "6h", "--json", "--exit-style", "nagios"])
@example(["--exit-style", "NAGIOS"])
def test_what_the_front_reads_of_status_typer_reads_alike(words: list[str]) -> None:
    """As for check."""
    mine = _parsed("status", words)
    if mine is not None:
        told = _read_by_typer("status", words)
        assert told is not None
        assert _alike(mine[0], told[0])
        assert mine[1] == told[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("check", ["--quick"]),
        ("check", ["--quick", "--json", "--python", "/usr", "--gpu=h100", "--strict", "--fail-on", "warning"]),
        ("check", ["--quick", "--output", "/tmp/reports/", "--timeout", "30", "--exit-style", "npd", "--exit-zero"]),
        ("status", []),
        ("status", ["--from", "/var/lib/attn-doctor", "--max-age", "6h", "--json", "--exit-style", "nagios"]),
    ],
)
def test_what_hooks_type_is_read_by_the_front(name: str, words: list[str]) -> None:
    """Else the laws above would hold of a front that reads nothing."""
    assert _parsed(name, words) is not None


def test_a_file_that_cannot_be_read_is_typers_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which says so in its words; `status --from` takes it, for what cannot be read is not known."""
    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)  # root may read everything

    assert _parsed("check", ["--accept", str(tmp_path)]) is None
    assert _parsed("check", ["--accept", str(tmp_path / "not-there")]) is not None
    assert _parsed("status", ["--from", str(tmp_path)]) is not None


@pytest.mark.parametrize("width", ["60", "80", "200"])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_typers_in_words(doctor: Doctor, width: str, flag: str) -> None:
    """And no line is longer than the screen."""
    code = (
        "import sys; from attn_doctor.cli import with_typer; name = sys.argv.pop(); "
        "with_typer.build(sys.argv[1:])(prog_name=name)"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", code, flag, "python -m attn_doctor"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": width},
    ).stdout
    mine = doctor(flag, env={"COLUMNS": width}).stdout

    assert mine.split() == theirs.split()
    assert max(map(len, mine.splitlines())) <= int(width)


def test_the_version_is_typers(doctor: Doctor) -> None:
    """Said alone or before a command."""
    assert doctor("--version").stdout == doctor("--version", "check").stdout


def test_every_command_has_a_summary_of_one_line() -> None:
    """The help of all commands fits a screen of 80."""
    assert {name: len(one.summary) for name, one in COMMANDS.items() if not 10 < len(one.summary) <= 66} == {}


def test_the_front_needs_no_argument_but_a_command_and_a_run() -> None:
    """A positional argument is typer's: of the commands that the front reads, `check -- COMMAND` and `undo RUN` have
    one.
    """
    positional = [
        name
        for function in FUNCTIONS.values()
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if any(isinstance(note, Argument) for note in parameter.annotation.__metadata__)
    ]

    assert positional == ["command", "which"]
    assert tuple(FUNCTIONS) == front.READ_HERE
