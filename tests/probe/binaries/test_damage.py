"""Corrupt files of any kind: an answer, in bounded time and memory, never an exception."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_doctor.probe.binaries import (
    Extension,
    GpuCode,
    LoaderView,
    Unreadable,
    examine_extension,
    gpu_code,
    offered_glibcxx,
    torch_abi,
)
from tests.probe.binaries.elf_writer import elf_with_sections, fatbin, fatbin_entry, offload_bundle

SOURCE = """
#include <cstdio>
#include <stdexcept>
#include <string>
namespace at { void gone(const std::string&); }
extern "C" int weak() __attribute__((weak));
thread_local int counter;
extern "C" int entry(int n) {
  if (n) at::gone("x"); else if (weak) weak();
  try { throw std::runtime_error("no"); } catch (const std::exception& e) { std::puts(e.what()); }
  return ++counter;
}
"""

#: The deadline is no measurement: a tenth of a second is usual, and an endless loop is what it would catch.
hard = settings(
    max_examples=150, deadline=timedelta(seconds=10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

Edits = list[tuple[int, bytes]]

#: Numbers that hurt: none, all bits, the sign, powers of two around the file's size.
NASTY = st.sampled_from([value.to_bytes(8, "little") for value in (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 4096, 64)])


def edits(size: int) -> st.SearchStrategy[Edits]:
    """Bytes to write somewhere, mostly in the first kilobytes where the tables are."""
    place = st.one_of(st.integers(0, 2047), st.integers(0, size - 1))
    return st.lists(st.tuples(place, st.one_of(NASTY, st.binary(min_size=1, max_size=8))), max_size=6)


def damaged(whole: bytes, cut: float, changes: Edits) -> bytes:
    """A copy with bytes changed and the end cut off."""
    content = bytearray(whole)
    for place, value in changes:
        place = min(place, len(content) - 1)
        content[place : place + len(value)] = value[: len(content) - place]
    return bytes(content[: round(len(content) * cut)])


CUTS = st.one_of(st.just(1.0), st.floats(0, 1))


@pytest.fixture(scope="module")
def small(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    """The bytes of a real extension, by hash style."""
    made: dict[str, bytes] = {}

    def make(style: str) -> bytes:
        if style not in made:
            path = tmp_path_factory.mktemp("small") / "small.so"
            command = [
                compiler,
                "-x",
                "c++",
                "-",
                "-shared",
                "-fPIC",
                "-s",
                f"-Wl,--hash-style={style}",
                "-o",
                str(path),
            ]
            subprocess.run(command, input=SOURCE, text=True, check=True)
            made[style] = path.read_bytes()
        return made[style]

    return make


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_a_damaged_extension(style: str, small: Callable[..., bytes], tmp_path: Path, here: LoaderView) -> None:
    """Cut off anywhere, overwritten anywhere: examined or unreadable, without much memory."""
    whole = small(style)
    path = tmp_path / "extension.so"

    @hard
    @given(cut=CUTS, changes=edits(len(whole)))
    def holds(cut: float, changes: Edits) -> None:
        path.write_bytes(damaged(whole, cut, changes))
        with LoaderView(torch_lib=here.torch_lib, interpreter=None) as view:
            tracemalloc.start()
            try:
                answer, code = examine_extension(path, view), gpu_code(path)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        assert isinstance(answer, (Extension, Unreadable))
        assert isinstance(code, (GpuCode, Unreadable))
        assert peak < 64 << 20

    holds()


def test_a_damaged_torch(small: Callable[..., bytes], made_up_torch: Callable[..., Path], tmp_path: Path) -> None:
    """The same of a library that is looked into: the extension beside it is examined all the same."""
    lib = made_up_torch()
    victims = {name: (lib / name).read_bytes() for name in ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")}
    path = tmp_path / "extension.so"
    path.write_bytes(small("gnu"))

    @hard
    @given(name=st.sampled_from(sorted(victims)), cut=CUTS, changes=edits(len(victims["libc10.so"])))
    def holds(name: str, cut: float, changes: Edits) -> None:
        for other, whole in victims.items():
            (lib / other).write_bytes(damaged(whole, cut, changes) if other == name else whole)
        with LoaderView(torch_lib=lib, interpreter=None) as view:
            assert isinstance(examine_extension(path, view), Extension)
            offered_glibcxx(view)
        torch_abi(lib)

    holds()


FATBINS = elf_with_sections(
    {
        ".nv_fatbin": fatbin([fatbin_entry(2, 80), fatbin_entry(1, 90)]) + bytes(24) + fatbin([fatbin_entry(2, 120)]),
        ".hip_fatbin": offload_bundle(["host-x86_64-unknown-linux", "hipv4-amdgcn-amd-amdhsa--gfx942"]),
    }
)


def test_damaged_gpu_code(tmp_path: Path) -> None:
    """A list or unreadable; what is listed are names of architectures."""
    path = tmp_path / "lib.so"

    @hard
    @given(cut=CUTS, changes=edits(len(FATBINS)), more=st.lists(st.tuples(st.integers(4096, 4400), NASTY), max_size=3))
    def holds(cut: float, changes: Edits, more: Edits) -> None:
        path.write_bytes(damaged(FATBINS, cut, changes + more))
        answer = gpu_code(path)

        assert isinstance(answer, (GpuCode, Unreadable))
        if isinstance(answer, GpuCode):
            assert all(name.startswith(("sm_", "compute_", "lto_", "gfx")) for name in answer.all)
            assert len(answer.gaps) <= 20

    holds()


@given(st.binary(max_size=300))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Anything at all, with and without the first bytes of an ELF file."""
    path = tmp_path_factory.getbasetemp() / "random.so"
    with LoaderView(torch_lib=None, interpreter=None) as view:
        for start in (b"", b"\x7fELF\x02\x01\x01"):
            path.write_bytes(start + content)

            assert isinstance(examine_extension(path, view), (Extension, Unreadable))
            assert isinstance(gpu_code(path), (GpuCode, Unreadable))
            # A view opens a path once.
            path = path.with_name("random2.so")


def test_a_file_of_nothing_but_headers(tmp_path: Path) -> None:
    """Megabytes of empty fat binaries, which would be walked for ever one by one: stopped, and said so."""
    section = fatbin([]) * ((24 << 20) // 16)
    path = tmp_path / "lib.so"
    path.write_bytes(elf_with_sections({".nv_fatbin": section}))
    answer = gpu_code(path)

    assert isinstance(answer, GpuCode)
    assert [gap.partition(":")[0] for gap in answer.gaps] == [".nv_fatbin"]


def test_a_library_that_shrinks_while_it_is_read(small: Callable[..., bytes], tmp_path: Path) -> None:
    """Truncated between opening and looking up, as by an upgrade on a network file system: no SIGBUS."""
    code = (
        "import sys; from pathlib import Path; from attn_doctor.probe.binaries.reader import ElfFile\n"
        "from attn_doctor.probe.binaries.symbols import Symbols\n"
        "from attn_doctor.probe.binaries.unreadable import CannotRead\n"
        "path = Path(sys.argv[1]); elf = ElfFile(str(path)); symbols = Symbols(elf); path.write_bytes(b'')\n"
        "try:\n    symbols.wanted()\nexcept CannotRead as problem:\n    print(problem.reason.name)\n"
    )
    path = tmp_path / "lib.so"
    path.write_bytes(small("gnu"))
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout.strip()) == (0, "DAMAGED")


def test_many_libraries_do_not_exhaust_descriptors(small: Callable[..., bytes], tmp_path: Path) -> None:
    """More extensions than a process may have open files: all are examined."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    paths = []
    for number in range(120):
        path = tmp_path / f"extension{number}.so"
        path.write_bytes(small("gnu"))
        paths.append(path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    try:
        with LoaderView(torch_lib=None, interpreter=Path(sys.executable)) as view:
            answers = [examine_extension(path, view) for path in paths]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))

    assert [answer for answer in answers if not isinstance(answer, Extension)] == []
