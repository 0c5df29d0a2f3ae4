"""The data that trials are held against: sound as shipped, and refused where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from attn_doctor.recipes.data import measured
from attn_doctor.recipes.kept import bundled_folder

SHARES = (bundled_folder() / "kernel_shares.toml").read_text()
XIDS = (bundled_folder() / "xids.toml").read_text()


def test_the_common_numbers() -> None:
    """Each has a meaning, whom it blames, what to do, and a source."""
    table = measured.xids()

    assert {13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119} <= set(table)
    assert {number for number, one in table.items() if one["blames"] == "program"} == {13, 31, 43, 68, 109}
    assert all(one["source"].startswith("https://") for one in table.values())


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("number   = 13", "number   = 31"),  # twice
        ('blames   = "program"', 'blames   = "somebody"'),
        ("keep_out = false", 'keep_out = "no"'),
        ('meaning  = "GPU memory page fault"', ""),
        ("[[xid]]", "[[xid]]\nextra = 1"),
    ],
)
def test_a_faulty_table_of_numbers_is_refused(tmp_path: Path, was: str, becomes: str) -> None:
    """A number twice, an unknown word, a key that is missing or nobody knows."""
    file = tmp_path / "xids.toml"
    file.write_text(XIDS.replace(was, becomes, 1))

    assert was in XIDS
    with pytest.raises(ValidationError):
        measured.xids(file)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('direction          = "train"', 'direction          = "forward"'),  # twice
        ("lowest             = 0.3296", "lowest             = 0.9"),
        ("runs               = 11", "runs               = 1"),
        ('torch              = ">=2.11"', 'torch              = "new ones"'),
        ('compute_capability = "9.0"', 'compute_capability = "Hopper"'),
        ("measured           = 2026-11-21", 'measured           = "lately"'),
        ('gpu                = "NVIDIA H200"', ""),
    ],
)
def test_a_faulty_table_of_shares_is_refused(tmp_path: Path, was: str, becomes: str) -> None:
    """A kernel twice, a range upside down, too few runs, what is no version, no capability, no date."""
    file = tmp_path / "shares.toml"
    file.write_text(SHARES.replace(was, becomes, 1))

    assert was in SHARES
    with pytest.raises(ValidationError):
        measured.shares("2.11.0", file)
