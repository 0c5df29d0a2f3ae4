"""`fleet run` that is interrupted: what had come is told, the engine is ended, the exit status is the signal's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.formats import chunks
from tests.conftest import CHECKOUT, clean_environment, command
from tests.fleet.reports import report
from tests.scenarios.processes import gone, written

pytestmark = pytest.mark.process


def engine(folder: Path, *, stubborn: bool = False) -> None:
    """A clush that passes two reports and the beginning of a third on, and hangs, with a child that holds its output.

    `stubborn`: SIGTERM does not end it.
    """
    lines = [f"{node}: {frame}" for node in ("n1", "n2") for frame in chunks.frames(node, json.dumps(report(node)))]
    torn = f"n3: {next(iter(chunks.frames('n3', json.dumps(report('n3')))))}"
    program = folder / "clush"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, signal, subprocess, sys, time\n"
        + ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else "")
        + f"print({chr(10).join([*lines, torn])!r}, flush=True)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"part = pathlib.Path({str(folder / 'part')!r})\n"
        "part.write_text(f'{os.getpid()} {child.pid}')\n"
        f"part.replace({str(folder / 'begun')!r})\n"
        "time.sleep(600)\n"
    )
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("number", "status", "stubborn"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGINT, 130, True)],
)
def test_what_had_come_is_told(tmp_path: Path, number: signal.Signals, status: int, stubborn: bool) -> None:
    """Two fit, one torn, one missing because of us; no list is made of it, and nothing of the engine is left."""
    engine(tmp_path, stubborn=stubborn)
    arguments = ("--json", "--write-lists", tmp_path / "lists", "--", "--quick")
    process = subprocess.Popen(
        command("fleet", "run", "--engine", "clush", "-w", "n[1-4]", *arguments),
        cwd=CHECKOUT,
        env=clean_environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        children = [int(one) for one in written(tmp_path / "begun").split()]
        process.send_signal(number)
        said, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    answer: dict[str, Any] = json.loads(said)

    assert process.returncode == status, errors
    assert (answer["nodes"]["fit"], answer["nodes"]["missing"]) == (["n1", "n2"], ["n4"])
    assert answer["nodes"]["unreadable"] == ["n3"]
    assert answer["missing_because"]["n4"] == "interrupted"
    assert "interrupted; this is what had come" in errors
    assert "Traceback" not in errors
    assert not list((tmp_path / "lists").glob("*"))
    assert all(gone(child) for child in children)


def test_the_deep_examination_does_not_begin(tmp_path: Path) -> None:
    """Interrupted in the first round, the second one is not started; who was to be examined in depth is not fit."""
    engine(tmp_path)
    process = subprocess.Popen(
        command("fleet", "run", "--engine", "clush", "-w", "n[1-4]"),
        cwd=CHECKOUT,
        env=clean_environment(PATH=f"{tmp_path}:{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        written(tmp_path / "begun")
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 130
    assert errors.count("+ clush") == 1
    assert "n4  interrupted" in said
