"""What is read off a file agrees with binutils, and what cannot be read is told with its reason."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import Extension, LoaderView, Reason, Unreadable, examine_extension, gpu_code
from attn_doctor.probe.binaries.reader import ElfFile
from attn_doctor.probe.binaries.symbols import Symbols, gnu_hash, sysv_hash
from tests.probe.binaries.building import Build, exporting, needing
from tests.probe.binaries.elf_writer import elf_header


def some_libraries() -> list[Path]:
    """Shared libraries of this interpreter: its own extensions and those of site-packages, torch's too."""
    paths = sysconfig.get_paths()
    folders = [Path(paths["platstdlib"]) / "lib-dynload", Path(paths["platlib"])]
    return sorted(path for folder in folders for path in folder.rglob("*.so*") if path.is_file())


@pytest.fixture(scope="module")
def nm() -> str:
    found = shutil.which("nm")
    if found is None:
        pytest.skip("no binutils on this machine")
    return found


def names_of(nm: str, path: Path, *flags: str) -> list[tuple[str, str]]:
    """(letter, name with version) as nm prints them."""
    printed = subprocess.run([nm, "-D", *flags, str(path)], capture_output=True, text=True, timeout=300).stdout
    return [(line.split()[-2], line.split()[-1]) for line in printed.splitlines() if len(line.split()) > 1]


def test_undefined_symbols_are_those_of_nm(nm: str) -> None:
    """On one in three of the libraries at hand: the same undefined symbols, in the same versions, and no weak ones."""
    for path in some_libraries()[::3]:
        with ElfFile(str(path)) as elf:
            found = sorted(
                wanted.name.decode() + (f"@{wanted.version.decode()}" if wanted.version else "")
                for wanted in Symbols(elf).wanted()
            )

        assert sorted(name for letter, name in names_of(nm, path, "--undefined-only") if letter == "U") == found, path


def test_exports_are_those_of_nm(nm: str, torch_lib: Path) -> None:
    """Each name that libc10.so defines is found; the same name with another ending is not."""
    path = torch_lib / "libc10.so"
    names = [name.partition("@")[0].encode() for _, name in names_of(nm, path, "--defined-only")]
    with ElfFile(str(path)) as elf:
        symbols = Symbols(elf)

        assert len(names) > 1000
        assert [name for name in names if not symbols.exports(name, gnu_hash(name))] == []
        assert [name for name in names if symbols.exports(name + b"_", gnu_hash(name + b"_"))] == []


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_each_hash_table_will_do(build: Build, tmp_path: Path, style: str) -> None:
    """`.gnu.hash`, DT_HASH or both: exports are found and undefined symbols listed."""
    many = [f"symbol_{number}" for number in range(500)]
    source = exporting(*many) + "\nint absent(void); int user(void) { return absent(); }"
    path = build(tmp_path / "lib.so", source, f"-Wl,--hash-style={style}")
    with ElfFile(str(path)) as elf:
        symbols = Symbols(elf)

        assert all(symbols.exports(name.encode(), gnu_hash(name.encode())) for name in many)
        assert not symbols.exports(b"absent", gnu_hash(b"absent"))
        assert not symbols.exports(b"symbol_500", gnu_hash(b"symbol_500"))
        assert b"absent" in [wanted.name for wanted in symbols.wanted()]


def test_a_library_that_exports_nothing_still_needs(build: Build, tmp_path: Path) -> None:
    """With nothing to hash, GNU ld writes a table that says nothing of the undefined symbols; they are listed."""
    source = "int absent(void); __attribute__((constructor)) static void at_start(void) { absent(); }"
    path = build(tmp_path / "lib.so", source, "-nostartfiles", "-nodefaultlibs")
    with ElfFile(str(path)) as elf:
        assert [wanted.name for wanted in Symbols(elf).wanted()] == [b"absent"]


def test_hashes_are_those_of_the_specifications() -> None:
    """Values published with the two hash functions."""
    assert tuple(map(gnu_hash, (b"", b"printf", b"exit"))) == (0x00001505, 0x156B2BB8, 0x7C967E3F)
    assert tuple(map(sysv_hash, (b"", b"printf", b"exit"))) == (0, 0x077905A6, 0x0006CF04)


def test_build_id_is_that_of_readelf(torch_lib: Path) -> None:
    """The fingerprint of libc10.so."""
    if shutil.which("readelf") is None:
        pytest.skip("no binutils on this machine")
    path = torch_lib / "libc10.so"
    printed = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True).stdout
    expected = re.search(r"Build ID: ([0-9a-f]+)", printed)
    with ElfFile(str(path)) as elf:
        assert (expected[1] if expected else None) == elf.build_id()
        assert path.stat().st_size == elf.size


def test_build_id_may_be_absent(build: Build, tmp_path: Path) -> None:
    """A linker told to write none wrote none."""
    with ElfFile(str(build(tmp_path / "lib.so", "", "-Wl,--build-id=none"))) as elf:
        assert elf.build_id() is None
    with ElfFile(str(build(tmp_path / "other.so", "", "-Wl,--build-id=0x0123abcd"))) as elf:
        assert elf.build_id() == "0123abcd"


UNREADABLE = {
    "empty": (b"", Reason.EMPTY, "zero bytes"),
    "short": (b"\x7fELF\x02\x01", Reason.EMPTY, ""),
    "text": (b"# not a library at all, only words, as many as it takes to fill\n", Reason.NOT_ELF, "a text file"),
    "linker script": (b"/* GNU ld script */ GROUP ( /lib/libc.so.6 )", Reason.NOT_ELF, "a linker script"),
    "mach-o": (b"\xcf\xfa\xed\xfe" + bytes(200), Reason.NOT_ELF, "a Mach-O file (macOS)"),
    "windows": (b"MZ" + bytes(200), Reason.NOT_ELF, "a Windows DLL"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:", Reason.NOT_ELF, "a Git LFS pointer"),
    "zeroes": (bytes(4096), Reason.NOT_ELF, "starts with zeroes"),
    "garbage": (bytes(range(256)), Reason.NOT_ELF, "starts with 00 01 02 03"),
    "32-bit": (elf_header(bits=1), Reason.OTHER_KIND, "32-bit"),
    "big-endian": (elf_header(order=2), Reason.OTHER_KIND, "big-endian"),
    "object file": (elf_header(kind=1), Reason.OTHER_KIND, "an object file"),
    "other machine": (elf_header(machine=20), Reason.OTHER_MACHINE, "machine 20"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_library_is_told_as_what_it_is(name: str, tmp_path: Path, no_torch: LoaderView) -> None:
    """A file that cannot be examined gives its reason, not an exception."""
    content, reason, detail = UNREADABLE[name]
    path = tmp_path / "extension.so"
    path.write_bytes(content)
    answer = examine_extension(path, no_torch)

    assert isinstance(answer, Unreadable)
    assert (path, reason) == (answer.path, answer.reason)
    assert answer.detail.startswith(detail)
    assert str(path) in str(answer)


def test_places_that_hold_no_file(tmp_path: Path, no_torch: LoaderView) -> None:
    """A missing file, a folder, a FIFO, a name that cannot be one: each its reason, and nobody waits."""
    fifo = tmp_path / "fifo.so"
    os.mkfifo(fifo)
    paths = [tmp_path / "missing.so", tmp_path, fifo, Path("/dev/null"), Path("a\0b.so"), tmp_path / ("x" * 300)]
    answers = [(examine_extension(path, no_torch), gpu_code(path)) for path in paths]

    assert all(isinstance(answer, Unreadable) for pair in answers for answer in pair)
    assert [answer.reason for answer, _ in answers if isinstance(answer, Unreadable)] == [
        Reason.MISSING,
        Reason.NOT_A_FILE,
        Reason.NOT_A_FILE,
        Reason.NOT_A_FILE,
        Reason.MISSING,
        Reason.FAILED,
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied_is_said(tmp_path: Path, no_torch: LoaderView) -> None:
    """A file that this user may not read."""
    path = tmp_path / "extension.so"
    path.write_bytes(elf_header())
    path.chmod(0)
    answer = examine_extension(path, no_torch)

    assert isinstance(answer, Unreadable)
    assert answer.reason is Reason.NO_PERMISSION


def test_permission_denied_by_the_system_is_said(
    tmp_path: Path, no_torch: LoaderView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for whoever runs the tests: the kernel's answer becomes the reason."""

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    answer = examine_extension(tmp_path / "extension.so", no_torch)

    assert isinstance(answer, Unreadable)
    assert answer.reason is Reason.NO_PERMISSION


def test_a_disk_that_fails_is_said(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input/output error in the middle of reading."""
    path = build(tmp_path / "lib.so", needing("absent"))
    with LoaderView(torch_lib=None, interpreter=None) as view:

        def fail(*_: object) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "pread", fail)
        answer = examine_extension(path, view)

    assert isinstance(answer, Unreadable)
    assert (answer.reason, answer.detail) == (Reason.FAILED, "Input/output error")


def test_no_file_stays_open(build: Build, tmp_path: Path) -> None:
    """Closing a view closes every library; an unreadable one was closed at once."""
    path = build(tmp_path / "lib.so", needing("absent"))
    broken = tmp_path / "broken.so"
    broken.write_bytes(path.read_bytes()[:300])
    before = sorted(os.listdir("/proc/self/fd"))
    with LoaderView(torch_lib=None, interpreter=Path(sys.executable)) as view:
        first, second = examine_extension(path, view), examine_extension(broken, view)
        gpu_code(path)

    assert isinstance(first, Extension)
    assert isinstance(second, Unreadable)
    assert before == sorted(os.listdir("/proc/self/fd"))
