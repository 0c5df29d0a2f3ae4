"""A person's file is read whole or refused in words, whatever stands in its place."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.machine import files
from tests.conftest import CHECKOUT, Doctor, Environment, clean_environment, command


def test_a_file_and_a_pipe_read_alike(tmp_path: Path) -> None:
    """`--accept <(…)` is as good as a file, slow writers included."""
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"x" * 100_000))
    writer.start()

    assert files.read_input(tmp_path / "file", most=100_000) == b"x" * 100_000
    assert files.read_input(tmp_path / "pipe", most=100_000) == b"x" * 100_000
    writer.join()


@pytest.mark.parametrize("name", ["/dev/zero", "file"])
def test_more_than_anybody_wrote_is_refused(name: str, tmp_path: Path) -> None:
    """What never ends does not fill the memory."""
    (tmp_path / "file").write_bytes(b"x" * 1001)

    with pytest.raises(OSError) as refused:
        files.read_input(tmp_path / name, most=1000)
    assert "too large" in str(refused.value.strerror)


def test_a_pipe_that_nobody_writes_into_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In time, and in words."""
    monkeypatch.setattr(files, "_SILENT", 0.2)
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError) as refused:
        files.read_input(tmp_path / "pipe", most=1000)
    assert "nothing came" in str(refused.value.strerror)


@pytest.mark.parametrize(
    "options",
    [
        ("check", "--quick", "--accept", "/dev/zero"),
        ("check", "--quick", "--config", "/dev/zero"),
        ("check", "--quick", "--expect", "@/dev/zero", "--output", "{folder}/"),
        ("fleet", "merge", "{folder}", "--golden", "/dev/zero"),
        ("fix", "--plan", "/dev/zero"),
        ("explain", "--facts", "/dev/zero", "/dev/null"),
    ],
    ids=lambda options: " ".join(word for word in options if word.startswith("--")),
)
def test_no_option_reads_without_end(
    doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """One clear error and status 2."""
    words = [word.format(folder=tmp_path) for word in options]
    where = ("--python", environment().python) if words[0] in ("check", "fix") else ()

    run = doctor(*words, *where, limit=60)

    assert run.status == 2, run.stderr
    assert "too large" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_process_substitution_is_a_file(environment: Callable[..., Environment]) -> None:
    """As shells make them: /dev/fd/63."""
    line = " ".join(command("check", "--quick", "--python", environment().python))
    accepts = '<(printf \'[[accept]]\\nid = "torch-cpu-build"\\nreason = "x"\\n\')'
    done = subprocess.run(
        ["bash", "-c", f"{line} --accept {accepts}"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=clean_environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_home_that_nobody_has(tmp_path: Path) -> None:
    """`~nosuchuser` stays a name, which is then not there; it is no bug of ours."""
    assert files.expanded(Path("~nosuchuser/x")) == Path("~nosuchuser/x")
    assert files.expanded(Path("~/x")) == Path.home() / "x"
