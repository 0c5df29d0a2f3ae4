"""Packages that carry a build for each torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.probe.binaries.builds import for_other_torches

ONE_EACH = [Path(f"p/lib_torch{torch}-{kind}.so") for torch in ("24", "28", "29", "210") for kind in ("cpu", "cuda")]
FOLDERS = [
    Path(f"k/build/torch{torch}-cxx11-{kind}-x86_64-linux/_op.abi3.so")
    for torch in ("28", "29", "210")
    for kind in ("cu128", "cpu")
]


@pytest.mark.parametrize(
    ("torch", "gpu", "left"),
    [
        ("2.8.0+cu128", True, {"p/lib_torch28-cuda.so"}),
        ("2.10.1+cpu", False, {"p/lib_torch210-cpu.so"}),
        ("2.13.0", True, set()),
        (None, True, {str(file) for file in ONE_EACH}),
        ("nonsense", True, {str(file) for file in ONE_EACH}),
    ],
)
def test_one_build_for_each_torch(torch: str | None, gpu: bool, left: set[str]) -> None:
    """Only the one that this torch would load is held against it; none where there is none."""
    assert {str(file) for file in ONE_EACH if file not in for_other_torches(ONE_EACH, torch, gpu=gpu)} == left


def test_folders() -> None:
    """The torch may be told by the folder's name."""
    others = for_other_torches(FOLDERS, "2.9.0", gpu=True)

    assert set(FOLDERS) - others == {Path("k/build/torch29-cxx11-cu128-x86_64-linux/_op.abi3.so")}


def test_a_single_build_is_what_there_is() -> None:
    """A name that tells another torch hides nothing: with no build beside it, it is the one that is loaded."""
    files = [Path("p/op_torch24.so"), Path("p/other_torch29.so"), Path("p/_C.so")]

    assert for_other_torches(files, "2.13.0", gpu=True) == frozenset()
