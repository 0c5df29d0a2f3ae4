"""Temporary folders and commands on PATH, found as the standard library finds them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from attn_doctor.machine import temporary
from attn_doctor.machine.which import which


def test_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In TMPDIR, another one each time, and nobody else can enter it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    one, other = temporary.make_folder("mine-"), temporary.make_folder("mine-")

    assert one != other
    assert one.parent == tmp_path
    assert one.stat().st_mode & 0o777 == 0o700
    assert list(one.iterdir()) == []


def test_the_first_place_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TMPDIR may be gone, and TEMP no folder."""
    (tmp_path / "file").write_text("")
    (tmp_path / "last").mkdir()
    for name, folder in (("TMPDIR", "gone"), ("TEMP", "file"), ("TMP", "last")):
        monkeypatch.setenv(name, str(tmp_path / folder))

    assert temporary.make_folder("mine-").parent == tmp_path / "last"


def test_a_full_disk_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder can be made there, but nothing written to it."""
    for name in ("full", "free"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(temporary, "_places", lambda: iter([str(tmp_path / "full"), str(tmp_path / "free")]))
    write = temporary._write_to

    def no_room(file: Path) -> None:
        if "full" in file.parts:
            raise OSError(28, "No space left on device")
        write(file)

    monkeypatch.setattr(temporary, "_write_to", no_room)

    assert temporary.make_folder("mine-").parent == tmp_path / "free"
    assert list((tmp_path / "full").iterdir()) == []
    monkeypatch.setattr(temporary, "_places", lambda: iter([str(tmp_path / "full")]))
    with pytest.raises(OSError, match="No space left"):
        temporary.make_folder("mine-")


def test_removed_with_all_in_it(tmp_path: Path) -> None:
    """Links are not followed; what is gone already is no trouble."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    folder = tmp_path / "folder"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "file").write_text("")
    (folder / "link").symlink_to(kept)
    (folder / "broken").symlink_to(folder / "nowhere")

    temporary.remove(folder)
    temporary.remove(folder)

    assert not folder.exists()
    assert (kept / "file").exists()


@pytest.mark.parametrize("command", ["one", "two", "folder", "plain", "sub/one", "./one", "none", ""])
@pytest.mark.parametrize("path", ["a:b", "b:a", ":a", "", "gone:a"])
def test_commands_are_found_as_shutil_finds_them(
    command: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first executable file."""
    monkeypatch.chdir(tmp_path)
    for file in ("a/one", "b/one", "b/two", "a/sub/one", "one"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
        (tmp_path / file).chmod(0o755)
    (tmp_path / "a" / "folder").mkdir()
    (tmp_path / "a" / "plain").write_text("")
    (tmp_path / "a" / "plain").chmod(0o644)

    assert which(command, path) == shutil.which(command, path=path)
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / one) for one in path.split(":") if one))
    assert which(command) == shutil.which(command)
