"""A compiled file is known by what it is, and a library by the file that would be loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from attn_doctor.model.facts import FactSet
from attn_doctor.probe.binaries import LoaderView, Unreadable, cuda_libraries
from attn_doctor.probe.binaries.file_identity import identity
from attn_doctor.probe.binaries.reader import ElfFile
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.packages import Inventory
from tests.probe.binaries.building import Build, exporting, nvidia_library

EMPTY = Inventory(distributions=(), modules={}, count=0, everything={})


def _facts(lib: Path, **environment: str) -> FactSet:
    notes = FactNotes()
    with LoaderView(
        torch_lib=lib, interpreter=Path(sys.executable), site_packages=(lib.parent.parent,), environment=environment
    ) as view:
        cuda_libraries.note(notes, view, EMPTY)
    return FactSet(notes.facts())


def test_build_id_and_size(build: Build, tmp_path: Path) -> None:
    """Two builds differ, a copy does not, wherever it lies."""
    one = build(tmp_path / "one.so", exporting("a"), "-Wl,--build-id=sha1")
    other = build(tmp_path / "other.so", exporting("b"), "-Wl,--build-id=sha1")
    copy = tmp_path / "copy.so"
    copy.write_bytes(one.read_bytes())
    with ElfFile(str(one)) as elf:
        build_id = elf.build_id()

    assert identity(one) == f"build-id {build_id}, {one.stat().st_size} bytes"
    assert identity(copy) == identity(one)
    assert identity(other) != identity(one)


def test_without_a_build_id_the_content_counts(build: Build, tmp_path: Path) -> None:
    """Some linkers write none; a size alone would call two builds equal."""
    one = build(tmp_path / "one.so", exporting("aa"), "-Wl,--build-id=none")
    other = build(tmp_path / "other.so", exporting("bb"), "-Wl,--build-id=none")

    assert one.stat().st_size == other.stat().st_size
    assert str(identity(one)).startswith("sha256 ")
    assert identity(other) != identity(one)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """Truncated and missing files are told, not skipped."""
    (tmp_path / "cut.so").write_bytes(b"\x7fELF\x02\x01")

    assert isinstance(identity(tmp_path / "cut.so"), Unreadable)
    assert isinstance(identity(tmp_path / "missing.so"), Unreadable)


def test_the_file_counts_and_not_its_wheel(build: Build, made_up_torch: Callable[..., Path], tmp_path: Path) -> None:
    """Another NCCL written over the first one, as two wheels do it, is another library under one path."""
    lib = made_up_torch(cuda=12)
    before = _facts(lib)
    nvidia_library(build, lib.parent.parent, "nccl", "libnccl.so.2", "ncclCommInitAll", "ncclNew")
    after = _facts(lib)

    assert before.value("library.libnccl.so.2.path") == after.value("library.libnccl.so.2.path")
    assert before.value("library.libnccl.so.2.identity") != after.value("library.libnccl.so.2.identity")
    assert before.value("library.libc10.so.identity") == after.value("library.libc10.so.identity")
    assert before.value("library.libtorch_cuda.so.identity") is not None


def test_the_file_that_the_loader_takes(build: Build, made_up_torch: Callable[..., Path], tmp_path: Path) -> None:
    """An NCCL that LD_PRELOAD puts before the wheel's is the one that is named."""
    lib = made_up_torch(cuda=12)
    own = nvidia_library(build, tmp_path / "own", "nccl", "libnccl.so.2", "ncclCommInitAll", "ncclMine")

    facts = _facts(lib, LD_PRELOAD=str(own))

    assert facts.value("library.libnccl.so.2.path") == str(own)
    assert facts.value("library.libnccl.so.2.identity") == identity(own)


def test_a_damaged_library_is_not_absent(made_up_torch: Callable[..., Path]) -> None:
    """It is there and cannot be read: the third answer."""
    lib = made_up_torch(cuda=12)
    whole = (lib / "libtorch_cuda.so").read_bytes()
    (lib / "libtorch_cuda.so").write_bytes(whole[: len(whole) // 3])

    state = _facts(lib).fact("library.libtorch_cuda.so.identity").state

    assert "libtorch_cuda.so" in getattr(state, "reason", "")
    assert type(state).__name__ == "Unknown"


def test_no_torch(no_torch: LoaderView) -> None:
    """Nothing that torch would load is there, and that was looked at."""
    notes = FactNotes()
    cuda_libraries.note(notes, no_torch, EMPTY)

    assert FactSet(notes.facts()).fact("library.libnccl.so.2.identity").state.reason == "not there"  # type: ignore[union-attr]
