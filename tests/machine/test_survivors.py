"""What is read of a process that changes programs, on folders like those of /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.machine import survivors


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """One that shows neither variables nor words yet."""
    (tmp_path / "environ").write_bytes(b"")
    (tmp_path / "cmdline").write_bytes(b"")
    return tmp_path


def test_its_variables_are_waited_for(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two programs it has none: looked at only then, it would pass for one of somebody else."""
    (process / "exe").symlink_to("/bin/true")

    def laid_out(_seconds: float) -> None:
        (process / "environ").write_bytes(b"A=1\0ATTN_DOCTOR_RUN=mine\0")
        (process / "cmdline").write_bytes(b"pip\0install\0")

    monkeypatch.setattr(survivors.time, "sleep", laid_out)

    assert survivors._variables_and_words(process) == ([b"A=1", b"ATTN_DOCTOR_RUN=mine", b""], "pip install")


def test_a_thread_of_the_kernel_is_not_waited_for(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs no program, and there are hundreds of them."""
    monkeypatch.setattr(survivors.time, "sleep", lambda _seconds: pytest.fail("waited"))

    assert survivors._variables_and_words(process) == ([b""], "")


def test_one_without_any_is_not_waited_for_longer(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may wipe both out."""
    (process / "exe").symlink_to("/bin/true")
    monkeypatch.setattr(survivors, "_CHANGING", 0.0)

    assert survivors._variables_and_words(process) == ([b""], "")
