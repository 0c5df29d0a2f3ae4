"""Errors that loaders, compilers and pip really raise, in their own words, explained right.

Modules are compiled here against libraries that are then not there, or are older: what the loader says of them is what
it says of a flash-attn that was built elsewhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.recipes import shelf
from tests.conftest import clean_environment, needs_torch
from tests.warm import nursery

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
RECIPES = shelf.bundled()


def explained(text: str) -> Diagnosis:
    return explain_text(text, RECIPES, FactSet()).diagnosis


def causes(text: str) -> list[str]:
    return [finding.id for finding in explained(text).findings]


def build(file: Path, source: str, *options: str) -> Path:
    """A shared object."""
    code = file.with_suffix(".cpp")
    code.write_text(source)
    assert COMPILER is not None
    line = [COMPILER, "-shared", "-fPIC", "-o", str(file), str(code), *options]
    subprocess.run(line, check=True, timeout=120, capture_output=True)
    return file


def imported(folder: Path, module: str) -> str:
    """What Python says when it imports the module from the folder."""
    run = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        capture_output=True, text=True, cwd=folder, timeout=60, env=clean_environment(),
    )  # fmt: skip
    assert run.returncode == 1
    return run.stderr


#: C++ as an extension has it, against functions of a torch that is not there: the compiler makes the names.
CALLS = {
    "flash-attn-built-for-other-torch": (
        "flash_attn_2_cuda",
        "namespace c10 { namespace cuda { void SetDevice(int); } }",
        "c10::cuda::SetDevice(0)",
    ),
    "flash-attn-cxx11-abi-mismatch": (
        "flash_attn_2_cuda",
        "#include <string>\nnamespace c10 { namespace detail { void torchCheckFail(const char*, std::string); } }",
        'c10::detail::torchCheckFail("a", std::string("b"))',
    ),
    "extension-built-for-other-torch": (
        "selective_scan_cuda",
        "namespace at { struct Tensor; namespace _ops { struct zeros { static void call(Tensor*); }; } }",
        "at::_ops::zeros::call(nullptr)",
    ),
    "extension-cxx11-abi-mismatch": (
        "causal_conv1d_cuda",
        "#include <string>\nnamespace torch { namespace jit { void parse(const std::string&, bool); } }",
        'torch::jit::parse(std::string("b"), true)',
    ),
}


@needs_compiler
@pytest.mark.parametrize("old_abi", [False, True], ids=["new std::string", "old std::string"])
@pytest.mark.parametrize("cause", CALLS)
def test_a_missing_symbol(tmp_path: Path, cause: str, old_abi: bool) -> None:
    """Mangled as the loader says it, and as `c++filt` makes it readable."""
    module, declared, call = CALLS[cause]
    source = f'{declared}\nextern "C" void* PyInit_{module}() {{ {call}; return 0; }}'
    build(tmp_path / f"{module}.so", source, f"-D_GLIBCXX_USE_CXX11_ABI={int(not old_abi)}")
    said = imported(tmp_path, module)

    assert "undefined symbol: _Z" in said
    assert causes(said)[0] == cause
    if shutil.which("c++filt"):
        plain = subprocess.run(["c++filt"], input=said, capture_output=True, text=True, check=True).stdout
        assert "::" in plain
        assert causes(plain)[0] == cause


@needs_compiler
def test_a_symbol_that_is_not_torch_s(tmp_path: Path) -> None:
    """Another library's is none of our business."""
    build(
        tmp_path / "other.so", 'extern "C" void TIFFOpen(); extern "C" void* PyInit_other() { TIFFOpen(); return 0; }'
    )

    assert causes(imported(tmp_path, "other")) == []


def against(folder: Path, module: str, library: str, version: str = "") -> None:
    """A module linked with a library of that name, that has a function (of that version), and is then away."""
    options = [f"-Wl,-soname,{library}"]
    if version:
        script = folder / "versions"
        script.write_text(f"{version} {{ needed_here; }};\n")
        options.append(f"-Wl,--version-script={script}")
    there = build(folder / "stub.so", 'extern "C" void needed_here() {}', *options)
    calls = f'extern "C" void needed_here(); extern "C" void* PyInit_{module}() {{ needed_here(); return 0; }}'
    build(folder / f"{module}.so", calls, str(there), *(["-nostdlib"] if version else []))
    there.unlink()


@needs_compiler
@pytest.mark.parametrize("library", ["libcudart.so.99", "libcublas.so.99", "libc10_cuda.so"])
def test_a_library_that_is_not_there(tmp_path: Path, library: str) -> None:
    """CUDA's of another major, or torch's own that only a CUDA build has."""
    against(tmp_path, "flash_attn_2_cuda", library)
    cause = "extension-needs-cuda-torch" if "c10" in library else "cuda-runtime-major-mismatch"

    assert causes(imported(tmp_path, "flash_attn_2_cuda"))[0] == cause


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="symbol versions of glibc")
@pytest.mark.parametrize(
    ("library", "version", "cause"),
    [("libc.so.6", "GLIBC_2.99", "glibc-too-old"), ("libstdc++.so.6", "GLIBCXX_3.4.99", "libstdcxx-too-old")],
)
def test_a_library_that_is_older(tmp_path: Path, library: str, version: str, cause: str) -> None:
    """The loader asks this node's C library for a version that it does not have."""
    against(tmp_path, "flash_attn_2_cuda", library, version)
    said = imported(tmp_path, "flash_attn_2_cuda")

    assert f"`{version}' not found (required by" in said
    assert causes(said)[0] == cause


@needs_compiler
def test_an_older_library_of_a_program_is_not_ours(tmp_path: Path) -> None:
    """The same words about a program, not a module, say nothing of the attention stack."""
    against(tmp_path, "flash_attn_2_cuda", "libc.so.6", "GLIBC_2.99")
    said = imported(tmp_path, "flash_attn_2_cuda").replace("flash_attn_2_cuda.so", "bin/server")

    assert causes(said) == []


SETUP = """
import sys
from setuptools import setup
import torch  # as flash-attn's does: which wheel to fetch, and which flags to compile with
setup(name="flash_attn", version="2.8.3")
"""


@needs_torch
@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "not isolated"])
def test_build_isolation(tmp_path: Path, isolated: bool) -> None:
    """A source distribution whose setup.py imports torch: torch is here, and pip's build environment has none.

    Offline: the setuptools that pip puts into that environment is the one that this Python brings.
    """
    import ensurepip

    wheels = list((Path(ensurepip.__file__).parent / "_bundled").glob("setuptools-*.whl"))
    if not wheels:
        pytest.skip("this Python brings no setuptools")
    archive = tmp_path / "flash_attn-2.8.3.tar.gz"
    folder = tmp_path / "flash_attn-2.8.3"
    folder.mkdir()
    (folder / "setup.py").write_text(SETUP)
    (folder / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, arcname=folder.name)
    line = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(wheels[0].parent), "--no-deps"]
    line += ["--disable-pip-version-check", "--target", str(tmp_path / "to")]
    run = subprocess.run(
        [*line, *([] if isolated else ["--no-build-isolation"]), str(archive)],
        capture_output=True, text=True, timeout=300, env=clean_environment(), cwd=tmp_path,
    )  # fmt: skip
    if "No module named pip" in run.stderr:
        pytest.skip("the Python that runs the tests has no pip")

    if isolated:
        assert run.returncode != 0
        assert causes(run.stdout + run.stderr)[0] == "build-isolation-no-torch"
    else:
        # With torch in sight the same file is read to its end; whether a wheel comes out is not what is asked.
        assert "No module named 'torch'" not in run.stderr
        assert "build-isolation-no-torch" not in causes(run.stdout + run.stderr)


@needs_compiler
def test_a_header_that_is_not_there(tmp_path: Path) -> None:
    """What Triton's launcher and DeepSpeed's operators die of where Python's headers are not installed."""
    (tmp_path / "main.c").write_text("#include <Python.h>\nint main() { return 0; }\n")
    assert COMPILER is not None
    run = subprocess.run(
        [COMPILER, "-x", "c", "-c", "main.c"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )

    assert causes(run.stderr)[0] == "python-headers-missing"


@needs_compiler
def test_a_linker_without_libcuda(tmp_path: Path) -> None:
    """Where the driver's library has no name that the linker looks for."""
    (tmp_path / "main.c").write_text("int f() { return 0; }\n")
    assert COMPILER is not None
    run = subprocess.run(
        [COMPILER, "-shared", "-fPIC", "main.c", "-L.", "-lcuda", "-o", "a.so"],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    if run.returncode == 0:
        pytest.skip("this machine has libcuda.so")

    assert causes(run.stderr)[0] == "triton-libcuda-missing"


COMPILED = """
    import torch
    def f(x, w):
        return torch.nn.functional.linear(x, w)
    torch.compile(f, backend="eager")(torch.zeros(2, 4), torch.zeros(3, 4, dtype=torch.bfloat16))
"""
HALF_ON_CPU = """
    import torch
    torch.cdist(torch.zeros(2, 2, dtype=torch.float16), torch.zeros(2, 2, dtype=torch.float16))
"""


@needs_torch
@pytest.mark.parametrize(
    ("script", "cause"),
    [(COMPILED, "linear-dtype-mismatch"), (HALF_ON_CPU, "fp16-on-cpu")],
    ids=["under torch.compile", "half on the CPU"],
)
def test_more_of_torch_s_own(tmp_path: Path, script: str, cause: str) -> None:
    """A mismatch inside a compiled function, an operator without half: as this torch words them."""
    (tmp_path / "more.py").write_text(textwrap.dedent(script))
    run = nursery("torch").run([tmp_path / "more.py"], env=clean_environment(), cwd=tmp_path, timeout=180)
    assert run.returncode == 1

    assert causes(run.stderr)[0] == cause
