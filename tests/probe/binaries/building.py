"""Sources and libraries that the tests compile, and what the real loader says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.probe.binaries import Extension, LoaderView, examine_extension

Build = Callable[..., Path]

ERROR_NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
ERROR_OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
SET_DEVICE = "_ZN3c104cuda9SetDeviceEab"

#: Wheels are fetched for x86_64; on another processor their files are Unreadable, which is right but proves little.
x86_64_only = pytest.mark.skipif(not sysconfig.get_platform().endswith("x86_64"), reason="x86_64 wheels")


def exporting(*names: str) -> str:
    """C source that defines functions of these names, mangled ones as they are."""
    return "\n".join(f"int {name}(void) {{ return 1; }}" for name in names)


def needing(*names: str) -> str:
    """C source of an extension that calls these."""
    declared = "\n".join(f"int {name}(void);" for name in names)
    calls = " + ".join(f"{name}()" for name in names) or "0"
    return f"{declared}\nint entry(void) {{ return {calls}; }}"


def nvidia_library(build: Build, site: Path, wheel: str, name: str, *symbols: str) -> Path:
    """A CUDA library in its wheel's folder, with one version name for all symbols as NVIDIA's have."""
    path = site / "nvidia" / wheel / "lib" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    script = path.with_suffix(".map")
    script.write_text(f"{name} {{ global: *; }};\n")
    return build(path, exporting(*symbols), f"-Wl,-soname,{name}", f"-Wl,--version-script={script}")


LOADS = """
import ctypes, json, sys
try:
    if {torch}:
        import torch
    ctypes.CDLL(sys.argv[1])
    error = ""
except OSError as problem:
    error = str(problem)
with open("/proc/self/maps") as maps:
    mapped = sorted({{line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}})
print(json.dumps([error, mapped]))
"""


def really_load(extension: Path, *, torch: bool, environment: dict[str, str] | None = None) -> tuple[str, list[str]]:
    """Loads it in a fresh process: the loader's error, or "" when it succeeded; and the files then mapped."""
    clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    done = subprocess.run(
        [sys.executable, "-c", LOADS.format(torch=torch), str(extension)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**clean, **(environment or {})},
    )
    if done.returncode:
        return f"died: {done.stderr}", []
    error, mapped = json.loads(done.stdout.splitlines()[-1])
    return error, mapped


LOADS_EACH = """
import ctypes, json, os, sys
import torch
errors = {}
for path in sys.argv[1:]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            ctypes.CDLL(path)
            error = ""
        except OSError as problem:
            error = str(problem)
        os.write(writer, error.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        errors[path] = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    if status:
        errors[path] = f"died: {status}"
print(json.dumps(errors))
"""


def really_load_each(extensions: list[Path]) -> dict[Path, str]:
    """Imports torch once and loads each in a fork of its own: the loader's error, or ""."""
    done = subprocess.run(
        [sys.executable, "-c", LOADS_EACH, *map(str, extensions)],
        capture_output=True,
        text=True,
        timeout=300,
        env={name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")},
    )
    assert done.returncode == 0, done.stderr
    return {Path(path): error for path, error in json.loads(done.stdout.splitlines()[-1]).items()}


def against(lib: Path | None, path: Path, **environment: str) -> Extension:
    """Examines one extension beside a made-up torch."""
    site = (lib.parent.parent,) if lib else (path.parent,)
    with LoaderView(
        torch_lib=lib, interpreter=Path(sys.executable), site_packages=site, environment=environment
    ) as view:
        answer = examine_extension(path, view)
    assert isinstance(answer, Extension), answer
    return answer
