"""Wheels from the registry beside the torch at hand: built for another one, or for this very one.

Real proof twice: what the files say without any import, and what the real loader says when it is made to load them.
They are CUDA builds, so for the second the CUDA libraries that this machine lacks are stood in for by empty ones that
export exactly the functions asked for; torch itself is the real one.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import Extension, LoaderView, StringAbi, examine_extension, gpu_code
from tests.probe.binaries.building import Build, exporting, really_load, really_load_each, x86_64_only

pytestmark = [pytest.mark.registry, x86_64_only]

Wheel = Callable[[str], Path]


@pytest.fixture(scope="module", autouse=True)
def torch_without_cuda(torch_lib: Path) -> None:
    """What each case expects is about torch 2.13 without CUDA, which is what the tests run with."""
    version = importlib.metadata.version("torch")
    if not version.startswith("2.13.") or (torch_lib / "libc10_cuda.so").exists():
        pytest.skip(f"expectations are for torch 2.13 without CUDA, not {version}")


def examined(path: Path, torch_lib: Path, site: Path, **environment: str) -> Extension:
    with LoaderView(
        torch_lib=torch_lib,
        interpreter=Path(sys.executable),
        site_packages=(torch_lib.parent.parent, site),
        environment=environment,
    ) as view:
        answer = examine_extension(path, view)
    assert isinstance(answer, Extension), answer
    return answer


#: requirement, file, libcudart, std::string, a symbol that torch 2.13 lacks ("" for a wheel that fits)
CASES = [
    (
        "torchaudio==2.2.2",
        "torchaudio/lib/libtorchaudio.so",
        12,
        StringAbi.OLD,
        "_ZN3c105ErrorC2ENS_14SourceLocationESs",
    ),
    ("torchaudio==2.5.1", "torchaudio/lib/libtorchaudio.so", 12, StringAbi.OLD, "_ZNK5torch8autograd4Node4nameEv"),
    ("torchvision==0.20.1", "torchvision/_C.so", 12, StringAbi.OLD, "_ZN5torch3jit17parseSchemaOrNameERKSsb"),
    ("xformers==0.0.28.post3", "xformers/_C.so", 12, StringAbi.OLD, "_ZN2at18TensorIteratorBaseC2Ev"),
    ("xformers==0.0.35", "xformers/_C.so", 12, None, ""),
    ("torchaudio==2.11.0", "torchaudio/lib/libtorchaudio.abi3.so", 13, None, ""),
    ("torchvision==0.28.0", "torchvision/_C.so", 13, StringAbi.NEW, ""),
]
IDS = [case[0] for case in CASES]


@pytest.mark.parametrize(("requirement", "file", "cudart", "abi", "lacking"), CASES, ids=IDS)
def test_beside_a_torch_without_cuda(
    requirement: str, file: str, cudart: int, abi: StringAbi | None, lacking: str, wheel: Wheel, torch_lib: Path
) -> None:
    """All need CUDA's libraries, which is told apart from being built for another torch; only the old ones are that."""
    site = wheel(requirement)
    answer = examined(site / file, torch_lib, site)

    assert (answer.needs_cuda_torch, answer.cudart_major, answer.cxx11_abi) == (True, cudart, abi)
    assert {"libc10_cuda.so", "libtorch_cuda.so"} <= {each.name for each in answer.missing_libraries}
    assert bool(answer.missing_torch_symbols) is bool(lacking)
    assert lacking in (answer.missing_torch_symbols or ("",))
    # Nothing that lives in a CUDA library is blamed on torch, nor left open.
    assert [name for name in answer.missing_torch_symbols if "cuda" in name.lower()] == []
    assert (answer.missing_other_symbols, answer.missing_python_symbols, answer.unjudged_symbols) == ((), (), ())
    assert answer.would_load is False


@pytest.mark.parametrize(("requirement", "file", "cudart", "abi", "lacking"), CASES, ids=IDS)
def test_ldd_sees_the_same_symbols_missing(
    requirement: str, file: str, cudart: int, abi: StringAbi | None, lacking: str, wheel: Wheel, torch_lib: Path
) -> None:
    """`ldd -r` with torch's folder on the path: its undefined symbols are ours, and else only CUDA's."""
    ldd = shutil.which("ldd")
    if ldd is None:
        pytest.skip("no ldd on this machine")
    site = wheel(requirement)
    answer = examined(site / file, torch_lib, site)
    done = subprocess.run(
        [ldd, "-r", site / file], capture_output=True, text=True, timeout=120, env={"LD_LIBRARY_PATH": str(torch_lib)}
    )
    lines = re.findall(r"undefined symbol: ([^\s,]+).*\((.*)\)", done.stdout + done.stderr)
    undefined = {symbol for symbol, where in lines if Path(where).name == Path(file).name}
    ours = {*answer.missing_torch_symbols}

    assert len(undefined) > 3
    assert ours <= undefined
    assert {name for name in undefined - ours if "cuda" not in name.lower()} == set()
    assert set(re.findall(r"(\S+) => not found", done.stdout)) == {each.name for each in answer.missing_libraries}


@pytest.mark.parametrize(("requirement", "file", "cudart", "abi", "lacking"), CASES, ids=IDS)
def test_the_real_loader_agrees(
    requirement: str,
    file: str,
    cudart: int,
    abi: StringAbi | None,
    lacking: str,
    wheel: Wheel,
    torch_lib: Path,
    build: Build,
    tmp_path: Path,
) -> None:
    """With CUDA's libraries stood in for, the old ones fail on a symbol that was named and the new ones load."""
    site = wheel(requirement)
    alone = examined(site / file, torch_lib, site)
    from attn_doctor.probe.binaries.reader import ElfFile
    from attn_doctor.probe.binaries.symbols import Symbols

    with ElfFile(str(site / file)) as elf:
        wanted = [each.name.decode() for each in Symbols(elf).wanted() if "cuda" in each.name.decode().lower()]
    runtime = [name for name in wanted if re.match(r"_*cuda[A-Z]", name)]
    for name, symbols, version in (
        (f"libcudart.so.{cudart}", runtime, f"libcudart.so.{cudart}"),
        ("libc10_cuda.so", [name for name in wanted if name not in runtime], "C10"),
        ("libtorch_cuda.so", [], "TORCH"),
    ):
        script = tmp_path / "versions.map"
        script.write_text(f"{version} {{ global: *; }};\n")
        flags = [f"-Wl,--version-script={script}"] if name.startswith("libcudart") else []
        build(tmp_path / name, exporting(*symbols), f"-Wl,-soname,{name}", *flags)
    environment = {"LD_LIBRARY_PATH": str(tmp_path)}
    answer = examined(site / file, torch_lib, site, **environment)
    error, _ = really_load(site / file, torch=True, environment=environment)

    assert answer.missing_torch_symbols == alone.missing_torch_symbols
    assert (answer.missing_libraries, answer.missing_other_symbols) == ((), ())
    assert answer.would_load is not bool(lacking)
    assert (error == "") is not bool(lacking), error
    if lacking:
        undefined = re.search(r"undefined symbol: (\S+)", error)
        assert undefined is not None
        assert undefined[1] in answer.missing_torch_symbols


@pytest.mark.parametrize(
    ("version", "built_for_this"),
    [("1.8.0", True), ("1.9.0", False), ("1.4.2", False)],
    ids=["fits", "newer", "older"],
)
def test_wheels_without_cuda_as_they_are(version: str, built_for_this: bool, wheel: Wheel, torch_lib: Path) -> None:
    """fbgemm-gpu-cpu needs no stand-in: the real loader refuses just those of its 19 libraries that we say."""
    site = wheel(f"fbgemm-gpu-cpu=={version}")
    paths = sorted((site / "fbgemm_gpu").glob("*.so"))
    real = really_load_each(paths)
    with LoaderView(
        torch_lib=torch_lib, interpreter=Path(sys.executable), site_packages=(torch_lib.parent.parent, site)
    ) as view:
        answers = {path: examine_extension(path, view) for path in paths}

    assert len(paths) == 19
    assert {path for path in paths if real[path]} == {
        path for path, answer in answers.items() if isinstance(answer, Extension) and answer.would_load is False
    }
    assert all(isinstance(answer, Extension) and answer.would_load is not None for answer in answers.values())
    assert any(real.values()) is not built_for_this
    for path, error in real.items():
        undefined = re.search(r"(\S+): undefined symbol: (\S+)", error)
        if undefined:
            # The loader names the file that it gave up on: this one, or one that came with it.
            culprit = answers[Path(undefined[1])]
            assert isinstance(culprit, Extension)
            assert undefined[2] in culprit.missing_torch_symbols, path


def test_a_binding_beside_its_broken_library(wheel: Wheel, torch_lib: Path) -> None:
    """torchaudio's thin _torchaudio.so has no lack of its own; the library that it binds has."""
    site = wheel("torchaudio==2.5.1")
    folder = site / "torchaudio" / "lib"
    answer = examined(folder / "_torchaudio.so", torch_lib, site)

    assert answer.missing_torch_symbols == ()
    assert answer.broken_dependencies == (folder / "libtorchaudio.so",)


#: As cuobjdump 12.8 (of the triton 3.6.0 wheel) lists them.
GPU_CODE = [
    ("xformers==0.0.28.post3", "xformers/_C.so", "sm_60 sm_70 sm_75 sm_80 sm_90a", "compute_60 compute_80"),
    ("xformers==0.0.35", "xformers/_C.so", "sm_75 sm_80 sm_90a", "compute_80"),
    ("torchvision==0.20.1", "torchvision/_C.so", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "compute_50"),
    ("torchvision==0.28.0", "torchvision/_C.so", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", "compute_120"),
    ("torchaudio==2.5.1", "torchaudio/lib/libtorchaudio.so", "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "compute_50"),
    ("torchaudio==2.5.1", "torchaudio/lib/_torchaudio.so", "", ""),
]


@pytest.mark.parametrize(("requirement", "file", "sass", "ptx"), GPU_CODE)
def test_gpu_code_of_wheels(requirement: str, file: str, sass: str, ptx: str, wheel: Wheel) -> None:
    """Fat binaries of CUDA 12.1 to 13.0, with every kind of entry header."""
    found = gpu_code(wheel(requirement) / file)

    assert (" ".join(found.sass), " ".join(found.ptx), found.gaps) == (sass, ptx, ())  # type: ignore[union-attr]
