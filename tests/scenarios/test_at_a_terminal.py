"""What a person at a terminal sees beside the report: progress while it lasts, and nothing of it afterwards."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

from tests.conftest import CHECKOUT, Environment, clean_environment, command


def _watched(*arguments: object) -> bytes:
    """Standard error of the command line, at a terminal that is wide enough for any path."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=theirs, cwd=CHECKOUT,
        env=clean_environment(TERM="xterm", COLUMNS="500"),
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    process.wait(60)
    return said


def test_progress_is_drawn(environment: object) -> None:
    """By control codes of our own, which reach the terminal; the last one clears the line."""
    env: Environment = environment()  # type: ignore[operator]
    said = _watched("check", "--quick", "--python", env.python)

    assert any(step in said for step in (b"starting", b"reading"))  # which one is drawn, the machine's speed decides
    assert b"\\x1b" not in said
    assert said.rstrip().endswith(b"\x1b[2K")


def test_names_draw_nothing(tmp_path: Path) -> None:
    """Those of a log's are no control codes and no markup."""
    log = tmp_path / "a\x1b]0;mine\x07[bold]\n.log"
    log.write_text("step 1\n" * 2_000_000)
    said = _watched("explain", log)

    assert b"\x1b]0;" not in said
    assert b"\\x1b]0;mine\\x07[bold]" in said
