"""ld.so.cache, in all three layouts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.probe.binaries.ld_cache import read_ld_cache
from attn_doctor.probe.binaries.reader import ElfFile
from tests.probe.binaries.elf_writer import new_ld_cache, old_ld_cache

X86_64, AARCH64 = 62, 183


def test_this_machines_cache_is_what_ldconfig_prints() -> None:
    """Every library of this processor, with its file; of several files all."""
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    cache = Path("/etc/ld.so.cache")
    if ldconfig is None or not cache.exists():
        pytest.skip("no ld.so.cache on this machine")
    with ElfFile(str(Path("/proc/self/exe").resolve())) as own:
        machine = own.machine
    word = {X86_64: "x86-64", AARCH64: "AArch64"}.get(machine)
    if word is None:
        pytest.skip("a processor that this test does not know")
    printed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout
    expected: dict[str, set[str]] = {}
    for name, kind, file in re.findall(r"^\t(\S+) \(([^)]*)\) => (\S+)$", printed, re.MULTILINE):
        if word in kind:
            expected.setdefault(name, set()).add(file)

    assert expected == {name: set(files) for name, files in read_ld_cache(cache, machine).items()}


ENTRIES = [
    ("liba.so.1", "/opt/wide/liba.so.1", 0x0303, 1 << 62 | 3),
    ("liba.so.1", "/usr/lib/liba.so.1", 0x0303, 0),
    ("libb.so", "/usr/lib32/libb.so", 0x0003, 0),
    ("libb.so", "/usr/lib/libb.so", 0x0303, 0),
    ("libc.so.6", "/usr/aarch64/libc.so.6", 0x0A03, 0),
]
OLD = [entry[:3] for entry in ENTRIES]


@pytest.mark.parametrize(
    ("content", "first"),
    [
        (new_ld_cache(ENTRIES), "/usr/lib/liba.so.1"),
        (old_ld_cache(OLD), "/opt/wide/liba.so.1"),
        (old_ld_cache(OLD, behind=new_ld_cache(ENTRIES)), "/usr/lib/liba.so.1"),
    ],
    ids=["new", "old", "both"],
)
def test_layouts(content: bytes, first: str, tmp_path: Path) -> None:
    """Only this processor's libraries, and builds for special processors last."""
    path = tmp_path / "ld.so.cache"
    path.write_bytes(content)
    found = read_ld_cache(path, X86_64)

    assert {"liba.so.1", "libb.so"} == set(found)
    assert first == found["liba.so.1"][0]
    assert {"/usr/lib/liba.so.1", "/opt/wide/liba.so.1"} == set(found["liba.so.1"])
    assert found["libb.so"] == ("/usr/lib/libb.so",)
    assert read_ld_cache(path, AARCH64) == {"libc.so.6": ("/usr/aarch64/libc.so.6",)}


def test_no_cache_is_an_empty_one(tmp_path: Path) -> None:
    """A container without ldconfig's file, or a folder of that name."""
    assert read_ld_cache(tmp_path / "missing", X86_64) == {}
    assert read_ld_cache(tmp_path, X86_64) == {}


@given(
    st.one_of(
        st.binary(max_size=200),
        st.integers(0, 400).map(lambda cut: new_ld_cache(ENTRIES)[:cut]),
        st.integers(0, 400).map(lambda cut: old_ld_cache(OLD, behind=new_ld_cache(ENTRIES))[:cut]),
        st.binary(max_size=80).map(lambda tail: b"glibc-ld.so.cache1.1" + tail),
        st.binary(max_size=80).map(lambda tail: b"ld.so-1.7.0\0" + tail),
    )
)
def test_a_damaged_cache_lists_what_it_can(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Cut off or random: some answer, and no exception."""
    path = tmp_path_factory.getbasetemp() / "damaged.cache"
    path.write_bytes(content)

    assert all(isinstance(name, str) for name in read_ld_cache(path, X86_64))
