"""A compiler, the torch at hand, made-up torches, and wheels from the registry."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import LoaderView
from tests.probe.binaries.building import ERROR_NEW, SET_DEVICE, Build, exporting, nvidia_library


@pytest.fixture(scope="session")
def compiler() -> str:
    """g++, or the test is skipped."""
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no g++ on this machine")
    return found


@pytest.fixture
def build(compiler: str) -> Build:
    """`build(path, source, *flags)` compiles a shared library; the suffix of the source is .c unless it says C++."""

    def make(path: Path, source: str, *flags: str | Path, cxx: bool = False) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Warnings off: C declares mangled names as int f(void), which it takes for a clash with its builtins.
        command = [compiler, "-x", "c++" if cxx else "c", "-", "-x", "none", "-shared", "-fPIC", "-w"]
        subprocess.run([*command, "-o", str(path), *map(str, flags)], input=source, text=True, check=True, timeout=300)
        return path

    return make


@pytest.fixture(scope="session")
def torch_lib() -> Path:
    """The lib folder of the torch in this interpreter, which is not imported."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("no torch in this interpreter")
    return Path(found.origin).parent / "lib"


@pytest.fixture
def here(torch_lib: Path) -> Iterator[LoaderView]:
    """This interpreter with its torch."""
    with LoaderView(
        torch_lib=torch_lib, interpreter=Path(sys.executable), site_packages=(torch_lib.parent.parent,)
    ) as view:
        yield view


@pytest.fixture
def no_torch() -> Iterator[LoaderView]:
    """This interpreter without any torch."""
    with LoaderView(torch_lib=None, interpreter=Path(sys.executable)) as view:
        yield view


@pytest.fixture
def made_up_torch(build: Build, tmp_path: Path) -> Callable[..., Path]:
    """`made_up_torch(cuda=12)` compiles libraries that are called and linked as torch's; gives its lib folder.

    Its CUDA runtime and NCCL lie in nvidia-* wheel folders beside it, as with a torch from the registry.
    """

    def make(*, cuda: int | None = None, error: str = ERROR_NEW, more: Sequence[str] = ()) -> Path:
        site = tmp_path / "site-packages"
        lib = site / "torch" / "lib"
        origin = "-Wl,--enable-new-dtags,-rpath,$ORIGIN"

        def library(name: str, symbols: Sequence[str], *links: Path) -> Path:
            return build(lib / name, exporting(*symbols), f"-Wl,-soname,{name}", origin, "-Wl,--no-as-needed", *links)

        c10 = library("libc10.so", [error])
        cpu = library("libtorch_cpu.so", ["_ZN2at4_ops3addE", *more], c10)
        outer = [cpu]
        loose: list[Path] = []
        if cuda is not None:
            loose = [
                nvidia_library(build, site, "cuda_runtime", f"libcudart.so.{cuda}", "cudaMalloc", "cudaFree"),
                nvidia_library(build, site, "nccl", "libnccl.so.2", "ncclCommInitAll"),
            ]
            c10_cuda = library("libc10_cuda.so", [SET_DEVICE], c10, loose[0])
            outer.append(library("libtorch_cuda.so", ["_ZN2at4cuda4warpE"], c10_cuda, *loose))
        torch = library("libtorch.so", [], *outer)
        library("libtorch_global_deps.so", [], *loose)
        library("libtorch_python.so", ["_Z16THPVariable_Wrap"], torch, cpu, c10)
        return lib

    return make


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """`wheel("torchvision==0.20.1", "3.11")` downloads one wheel and gives the folder it is unpacked in."""
    unpacked: dict[str, Path] = {}

    def fetch(requirement: str, python: str = "3.11") -> Path:
        if requirement not in unpacked:
            folder = tmp_path_factory.mktemp("wheel")
            platforms = [
                part
                for tag in ("manylinux1", "manylinux2014", "manylinux_2_24", "manylinux_2_28")
                for part in ("--platform", f"{tag}_x86_64")
            ]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                 "--python-version", python, *platforms, "--dest", str(folder), requirement],
                check=True, timeout=600,
            )  # fmt: skip
            (archive,) = folder.glob("*.whl")
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder / "site-packages")
            archive.unlink()
            unpacked[requirement] = folder / "site-packages"
        return unpacked[requirement]

    return fetch
