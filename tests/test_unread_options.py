"""What the command line's parser refuses is told in three parts, in our words and not in a library's."""

from __future__ import annotations

import sys

import pytest

from attn_doctor.cli import main, with_typer
from attn_doctor.errors import BadInput


@pytest.mark.parametrize(
    ("line", "what", "about"),
    [
        ("check --timeout abc", "that is no value of --timeout", "--timeout abc: "),
        ("check --timeout=-3", "that is no value of --timeout", "--timeout=-3: "),
        ("check --fail-on sometimes", "that is no value of --fail-on", "--fail-on sometimes: 'sometimes' is not one"),
        ("check --kernels deep", "that is no value of --kernels", "--kernels deep: 'deep' is not one of"),
        ("check --lang xx", "that is no value of --lang", "--lang xx: 'xx' is not one of"),
        ("fix --installer conda", "that is no value of --installer", "--installer conda: 'conda' is not one of"),
        ("fix --wait soon", "that is no value of --wait", "--wait soon: "),
        ("undo --keep -1", "that is no value of --keep", "--keep -1: "),
        ("undo one two", "the command line cannot be read", "two"),
        ("explain --nope", "the command line cannot be read", "--nope"),
        ("check --config", "the command line cannot be read", "--config"),
        ("recipes show", "the command line cannot be read", "ID"),
        ("nonsense", "the command line cannot be read", "nonsense"),
    ],
)
def test_three_parts(
    line: str, what: str, about: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What happened, what it is about, what to do; nothing on standard output, and 2."""
    monkeypatch.setattr(sys, "argv", ["attn-doctor", *line.split()])
    assert main.main() == 2

    told = capsys.readouterr()
    said = told.err.splitlines()
    assert told.out == ""
    assert said[0] == f"attn-doctor: {what}"
    assert about in said[1]
    assert said[-1].endswith("--help` lists what it takes.")
    assert "alue error" not in told.err
    assert "Traceback" not in told.err


def test_options_that_are_passed_on() -> None:
    """Those of `check` behind `--` are refused with the same words."""
    with pytest.raises(BadInput) as refused:
        with_typer.readable(["--timeout", "abc"])
    assert "check cannot read its options: --timeout abc: " in refused.value.what
    assert "--help" in refused.value.hint
