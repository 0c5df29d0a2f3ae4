"""Files that are replaced whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from attn_doctor.machine.atomic import put


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    """What root mends is still its owner's, with the same mode."""
    file = tmp_path / "train.yaml"
    file.write_bytes(b"bf16: true\n")
    os.chown(file, 1234, 2345)
    file.chmod(0o640)
    put(file, b"bf16: false\n", part=tmp_path / ".part", mode=0o640)
    seen = file.stat()

    assert file.read_bytes() == b"bf16: false\n"
    assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (1234, 2345, 0o640)


def test_a_new_file_is_its_writers(tmp_path: Path) -> None:
    """Without an old file, owner and group are the writer's."""
    file = tmp_path / "new"
    put(file, b"x", part=tmp_path / ".part", mode=0o600)

    assert file.stat().st_uid == os.getuid()
