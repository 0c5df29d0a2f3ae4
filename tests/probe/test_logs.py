"""Logs as they lie about: packed, in folders, in other encodings, damaged, no logs at all."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
import os
import sys
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.probe.logs import find_logs

TEXT = "step 1\nRuntimeError: es ist kaputt: ü\n" * 50


def text(path: object) -> str:
    return "".join("".join(log.chunks()) for log in find_logs([str(path)]))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"])
def test_packed(tmp_path: Path, pack: object) -> None:
    """By its first bytes, whatever the file is called."""
    file = tmp_path / "train.log"
    file.write_bytes(pack(TEXT.encode()))  # type: ignore[operator]

    assert text(file) == TEXT


def test_two_gzip_members(tmp_path: Path) -> None:
    """A log that was rotated and joined."""
    file = tmp_path / "train.log.gz"
    file.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))

    assert text(file) == "one\ntwo\n"


def test_zstd_says_what_it_needs(tmp_path: Path) -> None:
    """Unpacked where this Python can, else told in words what to do."""
    file = tmp_path / "train.log.zst"
    # A frame that holds "hi\n" as a raw block.
    file.write_bytes(bytes.fromhex("28b52ffd2003190000") + b"hi\n")
    if sys.version_info >= (3, 14) or importlib.util.find_spec("zstandard"):
        assert text(file) == "hi\n"
    else:
        with pytest.raises(BadInput, match="zstd"):
            text(file)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_powershell_s_encodings(tmp_path: Path, encoding: str) -> None:
    """`> train.log` on Windows writes UTF-16."""
    file = tmp_path / "train.log"
    file.write_bytes(TEXT.encode(encoding))

    assert text(file).lstrip("\ufeff") == TEXT


def test_broken_bytes(tmp_path: Path) -> None:
    """What is no UTF-8 is replaced, and hides nothing around it."""
    file = tmp_path / "train.log"
    file.write_bytes(b"a \xff\xfe b\nRuntimeError: x\n")

    assert "RuntimeError: x" in text(file)


def test_binary_is_told(tmp_path: Path) -> None:
    """A file of NULs is read, and called what it is."""
    file = tmp_path / "train.log"
    file.write_bytes(b"\x00" * 10_000)
    (log,) = find_logs([str(file)])
    list(log.chunks())

    assert "binary" in log.note


@pytest.mark.parametrize("cut", [30, 60])
def test_cut_short(tmp_path: Path, cut: int) -> None:
    """A packed file whose end is missing is read as far as it goes, and says so."""
    file = tmp_path / "train.log.gz"
    file.write_bytes(gzip.compress(os.urandom(40).hex().encode() * 50)[:cut])
    (log,) = find_logs([str(file)])
    list(log.chunks())

    assert "could not be read to its end" in log.note


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    """Every log below it, ranks in their order, what is no log left out."""
    for name in ("rank_10.log", "rank_2.log", "attempt_0/1/stderr.log", "model.safetensors", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    assert [str(Path(log.name).relative_to(tmp_path)) for log in find_logs([str(tmp_path)])] == [
        "attempt_0/1/stderr.log",
        "rank_2.log",
        "rank_10.log",
    ]


def test_what_is_no_log(tmp_path: Path) -> None:
    """Missing, empty of logs, not readable, a device: each in words."""
    unreadable = tmp_path / "secret.log"
    unreadable.write_text("x")
    unreadable.chmod(0)
    (tmp_path / "empty").mkdir()
    for name in (tmp_path / "missing.log", tmp_path / "empty", "/dev/zero"):
        with pytest.raises(BadInput):
            find_logs([str(name)])
    if os.geteuid() != 0:
        with pytest.raises(BadInput):
            text(unreadable)


def test_an_empty_word_is_not_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain "$LOG"` where LOG is not set."""
    (tmp_path / "other.log").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="no log was named"):
        find_logs([""])


@pytest.mark.process
def test_a_pipe(tmp_path: Path) -> None:
    """`<(zcat …)` of a shell is a pipe, and pipes are read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_text(TEXT)
        os._exit(0)

    assert text(pipe) == TEXT
    os.wait()
