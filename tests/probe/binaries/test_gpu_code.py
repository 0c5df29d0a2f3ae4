"""The GPU code in a library: what nvcc was asked for, what hand-written headers say, and nothing after damage."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import GpuCode, Reason, Unreadable, gpu_code
from tests.probe.binaries.building import Build
from tests.probe.binaries.elf_writer import elf_with_sections, fatbin, fatbin_entry, offload_bundle

A, F = 1 << 20, 1 << 21
PLAIN = 0x11
LZ4, ZSTD = 0x2000, 0x8000


def listed(path: Path) -> GpuCode:
    answer = gpu_code(path)
    assert isinstance(answer, GpuCode), answer
    return answer


def written(tmp_path: Path, **sections: bytes) -> Path:
    path = tmp_path / "lib.so"
    names = {"nv_fatbin": ".nv_fatbin", "relocatable": "__nv_relfatbin", "hip": ".hip_fatbin"}
    path.write_bytes(elf_with_sections({names[name]: data for name, data in sections.items()}))
    return path


KERNEL = """
__global__ void scale(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
extern "C" void launch(float* x, int n) { scale<<<1, 32>>>(x, n); }
"""


@pytest.mark.parametrize(
    "flags",
    [(), ("--no-compress",), ("-Xfatbin", "-compress-all"), ("-rdc=true",), ("-Xfatbin", "-compress-all", "LZ4")],
    ids=["default", "plain", "all compressed", "relocatable", "LZ4"],
)
def test_what_nvcc_was_asked_for_is_found(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Machine code, PTX and link-time code of plain, architecture-specific and family-specific targets."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on this machine")
    known = subprocess.run([nvcc, "--list-gpu-code", "--help"], capture_output=True, text=True, timeout=60).stdout
    wanted = ("sm_80", "sm_86", "sm_90", "sm_90a", "compute_90", "compute_90a", "lto_80")
    new = ("sm_100f", "sm_103a", "sm_120", "sm_121", "compute_100f", "compute_120")
    # Family-specific targets came with CUDA 12.9.
    targets = [*wanted, *(new if "sm_100f" in known or "sm_120f" in known else ())]
    if "LZ4" in flags:
        if "--compress-mode" not in known:
            pytest.skip("this nvcc knows one compression only")
        flags = (*flags[:-1], "--compress-mode=speed")
    source = tmp_path / "kernel.cu"
    source.write_text(KERNEL)
    generate = [f"-gencode=arch=compute_{target.partition('_')[2]},code={target}" for target in targets]
    library = tmp_path / "kernel.so"
    subprocess.run(
        [nvcc, "-shared", "-Xcompiler", "-fPIC", "--cudart=none", *flags, *generate, "-o", library, source],
        check=True, capture_output=True, timeout=500,
    )  # fmt: skip
    found = listed(library)

    assert found.gaps == ()
    assert set(targets) == set(found.all)
    assert [found.sass, found.ptx, found.lto] == [
        tuple(
            sorted((t for t in targets if t.startswith(word)), key=lambda t: (int(t.partition("_")[2].rstrip("af")), t))
        )
        for word in ("sm_", "compute_", "lto_")
    ]


def test_headers_written_by_hand(tmp_path: Path) -> None:
    """Suffixes are bits of the flags, whatever the compression; fat binaries follow one another, zeroes between."""
    first = fatbin(
        [
            fatbin_entry(2, 80, PLAIN),
            fatbin_entry(2, 90, PLAIN | A | LZ4, payload=bytes(24)),
            fatbin_entry(2, 100, PLAIN | F | ZSTD, header=112),
            fatbin_entry(1, 90, PLAIN | A | ZSTD, header=80),
            fatbin_entry(8, 80, PLAIN | ZSTD, header=120),
        ]
    )
    second = fatbin([fatbin_entry(2, 120, PLAIN), fatbin_entry(1, 120, PLAIN), fatbin_entry(2, 80, PLAIN)])
    padded = first + bytes(40) + fatbin([]) + second + bytes(4000)
    found = listed(written(tmp_path, nv_fatbin=padded, relocatable=fatbin([fatbin_entry(2, 75)])))

    assert found.sass == ("sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120")
    assert (found.ptx, found.lto) == (("compute_90a", "compute_120"), ("lto_80",))
    assert (found.amd, found.gaps) == ((), ())


def test_no_gpu_code_is_not_a_gap(tmp_path: Path, build: Build) -> None:
    """A library without such sections, and one with an empty section."""
    for path in (build(tmp_path / "plain.so", ""), written(tmp_path, nv_fatbin=b"", hip=b"")):
        assert (listed(path).all, listed(path).gaps) == ((), ())


def test_a_stripped_section_table_is_a_gap(build: Build, tmp_path: Path) -> None:
    """Without section headers nobody can say that there is no GPU code."""
    path = build(tmp_path / "lib.so", "")
    content = bytearray(path.read_bytes())
    content[0x28:0x30] = bytes(8)
    content[0x3A:0x40] = bytes(6)
    path.write_bytes(content)

    assert listed(path).gaps == ("the section table was stripped",)


GOOD = fatbin([fatbin_entry(2, 80), fatbin_entry(2, 90, PLAIN | A)])


@pytest.mark.parametrize(
    ("section", "sass"),
    [
        (GOOD + b"what is this, 16", ("sm_80", "sm_90a")),
        (GOOD + fatbin([fatbin_entry(2, 86)], version=2), ("sm_80", "sm_90a")),
        (GOOD + fatbin([fatbin_entry(64, 80), fatbin_entry(2, 86)]), ("sm_80", "sm_86", "sm_90a")),
        (GOOD + fatbin([fatbin_entry(2, 0)]), ("sm_80", "sm_90a")),
        (GOOD + GOOD[:-20], ("sm_80", "sm_90a")),
        (GOOD + GOOD[:-70], ("sm_80", "sm_90a")),
        (GOOD + GOOD[:-80], ("sm_80", "sm_90a")),
        (GOOD + GOOD[:-150], ("sm_80", "sm_90a")),
        (GOOD + GOOD[:10], ("sm_80", "sm_90a")),
        (GOOD + fatbin([fatbin_entry(2, 86), fatbin_entry(2, 100)[:70]]), ("sm_80", "sm_86", "sm_90a")),
        (b"\x50\xed\x55\xba" + bytes(60), ()),
    ],
    ids=[
        "junk",
        "version",
        "kind",
        "architecture",
        "cut in code",
        "cut in a header",
        "cut between",
        "cut at first",
        "cut in the first header",
        "entry too long",
        "header of zeroes",
    ],
)
def test_what_cannot_be_followed_is_a_gap(section: bytes, sass: tuple[str, ...], tmp_path: Path) -> None:
    """What came before it still counts, and the list says that it may not be whole."""
    found = listed(written(tmp_path, nv_fatbin=section))

    assert found.sass == sass
    assert found.gaps
    assert all(gap.startswith(".nv_fatbin: ") for gap in found.gaps)


def test_a_section_beyond_the_end_of_the_file(tmp_path: Path) -> None:
    """A truncated library whose section table was kept: a gap, or unreadable; never a clean list."""
    path = written(tmp_path, nv_fatbin=GOOD * 100)
    whole = path.read_bytes()
    size = whole.index(GOOD) + len(GOOD)
    header = bytearray(whole[:64])
    table = int.from_bytes(header[0x28:0x30], "little")
    # Section headers moved ahead of the cut.
    header[0x28:0x30] = size.to_bytes(8, "little")
    path.write_bytes(bytes(header) + whole[64:size] + whole[table : table + 128])
    found = gpu_code(path)

    assert isinstance(found, Unreadable) or found.gaps

    path.write_bytes(whole[:size])
    found = gpu_code(path)

    assert isinstance(found, Unreadable)
    assert found.reason is Reason.DAMAGED


def test_amd_bundles(tmp_path: Path) -> None:
    """Targets without their features, each once; the host's part and empty entries are no GPU code."""
    host = "host-x86_64-unknown-linux-gnu-"
    section = offload_bundle([host, "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"]) + offload_bundle(
        [
            host,
            "hipv4-amdgcn-amd-amdhsa--gfx942",
            "hip-amdgcn-amd-amdhsa--gfx90a",
            "hipv4-amdgcn-amd-amdhsa--gfx11-generic",
        ],
        code=bytes(9000),
    )
    found = listed(written(tmp_path, hip=section))

    assert set(found.amd) == {"gfx90a", "gfx942", "gfx11-generic"}
    assert (found.sass, found.gaps) == ((), ())


def test_compressed_amd_bundles_are_a_gap(tmp_path: Path) -> None:
    """`CCOB`: there is AMD code, and its targets cannot be listed."""
    found = listed(written(tmp_path, hip=b"CCOB\x02\x00\x01\x00" + bytes(60)))

    assert (found.all, found.gaps) == ((), (".hip_fatbin: compressed, its targets cannot be listed",))


def test_payloads_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a gigabyte of machine code only the headers are read."""
    import os

    entries = 300
    entry = fatbin_entry(2, 90, payload=b"")[:64]
    payload = 4 << 20
    head = bytearray(entry)
    head[8:16] = payload.to_bytes(8, "little")
    one = b"\x50\xed\x55\xba\x01\x00\x10\x00" + (64 + payload).to_bytes(8, "little") + bytes(head)
    template = elf_with_sections({".nv_fatbin": b"x" * 32})
    start = template.index(b"x" * 32)
    size = entries * (16 + 64 + payload)
    path = tmp_path / "sparse.so"
    with path.open("wb") as file:
        for index in range(entries):
            file.seek(start + index * (16 + 64 + payload))
            file.write(one)
        # The tables go behind the gigabyte; the section header's size and all offsets behind the section move.
        tail = bytearray(template[start + 32 :])
        shift = size - 32
        table = int.from_bytes(template[0x28:0x30], "little")
        for number in (1, 2):
            at = table - (start + 32) + number * 64
            if number == 1:
                tail[at + 32 : at + 40] = size.to_bytes(8, "little")
            else:
                offset = int.from_bytes(tail[at + 24 : at + 32], "little")
                tail[at + 24 : at + 32] = (offset + shift).to_bytes(8, "little")
        file.seek(start + size)
        file.write(tail)
        file.seek(0)
        file.write(template[:0x28] + (table + shift).to_bytes(8, "little") + template[0x30:64])
    read = 0
    original = os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        read += count
        return original(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", counted)
    found = listed(path)

    assert path.stat().st_size > 1 << 30
    assert (found.sass, found.gaps) == (("sm_90",), ())
    assert read < 200_000
