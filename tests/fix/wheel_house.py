"""Real wheels, small: a module compiled against the torch that runs the tests, packed as published wheels are."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

_SOURCE = """
#include <Python.h>
#include <c10/util/Exception.h>
%(before)s
static PyObject* fwd(PyObject*, PyObject* n) {
  %(call)s
  TORCH_CHECK(PyLong_AsLong(n) > 0, std::string("n has to be positive"));
  return PyLong_FromLong(1);
}
static PyMethodDef methods[] = {{"fwd", fwd, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "flash_attn_2_cuda", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_flash_attn_2_cuda() { return PyModule_Create(&definition); }
"""
#: A function of torch as an earlier release had it: this one exports none of that name.
_GONE = {"before": "namespace c10 { void forgotten_by_this_release(signed char, bool); }",
         "call": "c10::forgotten_by_this_release(1, true);"}  # fmt: skip

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


def can_compile() -> bool:
    """Whether there is a compiler and a torch to compile against."""
    return shutil.which("g++") is not None and importlib.util.find_spec("torch") is not None


def compiled(folder: Path, *, for_this_torch: bool = True) -> Path:
    """flash_attn_2_cuda.cpython-….so, linked against torch's c10."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    source = folder / "flash_attn_2_cuda.cpp"
    source.write_text(_SOURCE % ({"before": "", "call": ""} if for_this_torch else _GONE))
    made = folder / f"flash_attn_2_cuda{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(
        ["g++", "-std=c++20", "-shared", "-fPIC", "-O0", f"-I{sysconfig.get_paths()['include']}",
         f"-I{torch / 'include'}", str(source), f"-L{torch / 'lib'}", "-lc10", "-o", str(made)],
        check=True, timeout=300,
    )  # fmt: skip
    return made


def wheel(
    folder: Path,
    name: str,
    metadata: tuple[str, str],
    files: dict[str, bytes],
    tag: str = f"{TAG}-{TAG}-linux_x86_64",
) -> Path:
    """A wheel of this file name; `metadata` are the name and the version that it really holds."""
    package, version = metadata
    info = f"{package.replace('-', '_')}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    lines = []
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    file = folder / name
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
        archive.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,", ""]))
    return file


def flash_attn(folder: Path, *, for_this_torch: bool = True, version: str = "2.8.3") -> Path:
    """As its authors publish it: a name that says more than the metadata does."""
    module = compiled(folder, for_this_torch=for_this_torch)
    name = f"flash_attn-{version}+cu12torch2.13cxx11abiTRUE-{TAG}-{TAG}-linux_x86_64.whl"
    files = {
        "flash_attn/__init__.py": f"__version__ = '{version}'\nimport flash_attn_2_cuda\n".encode(),
        module.name: module.read_bytes(),
    }
    return wheel(folder, name, ("flash-attn", version), files)


def sdist(folder: Path, name: str = "flash_attn", version: str = "2.8.3") -> Path:
    """A source distribution that compiles that module with torch's own extension builder."""
    setup = f"""
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(name={name.replace("_", "-")!r}, version={version!r}, packages=["flash_attn"],
      ext_modules=[CppExtension("flash_attn_2_cuda", ["flash_attn_2_cuda.cpp"], libraries=["c10"])],
      cmdclass={{"build_ext": BuildExtension.with_options(use_ninja=False)}})
"""
    root = folder / f"{name}-{version}"
    (root / "flash_attn").mkdir(parents=True)
    (root / "setup.py").write_text(setup)
    (root / "flash_attn/__init__.py").write_text(f"__version__ = '{version}'\nimport torch, flash_attn_2_cuda\n")
    (root / "flash_attn_2_cuda.cpp").write_text(_SOURCE % {"before": "", "call": ""})
    (root / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    file = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(root, root.name)
    shutil.rmtree(root)
    return file


def library(folder: Path, name: str, *needs: Path) -> Path:
    """A shared library that exports nothing of torch's and needs these."""
    source = folder / f"{name}.c"
    source.write_text(f"int {name.partition('.')[0]}_is_here;\n")
    line = ["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-soname,{name}", str(source), *map(str, needs)]
    subprocess.run([*line, "-o", str(folder / name)], check=True)
    return folder / name


def unpack(file: Path, site: Path) -> None:
    """As an installer puts it there."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(site)
