"""Makes recipes/known_wheels.json: what known wheels hold, and which of their symbols each torch has.

    python bench/known_wheels.py --wheel xformers==0.0.35 --wheel bitsandbytes==0.50.2 --torch 2.9.1 --torch 2.13.0

Wheels are read in parts from the registry that uv is configured with: their compiled libraries, and those of torch
that export what others link, libtorch_cuda's gigabyte too; of that one the GPU code as well. Nothing is kept on disk.
Rows that are there already are kept; new wheels bring new symbols, for which every torch is read again (half a minute
each).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import zipfile
from datetime import date
from itertools import product
from pathlib import Path

from attn_doctor.model.stack import PlannedNode
from attn_doctor.probe import binaries
from attn_doctor.quick_dataclasses import asdict
from attn_doctor.recipes.data.torch_releases import registry_cuda
from attn_doctor.stack.proof.remote_file import RemoteFile
from attn_doctor.stack.proof.wheel_code import code_behind
from attn_doctor.stack.resolver import CannotResolve, Resolved, resolver_here
from attn_doctor.stack.settings import IndexSettings

FILE = Path(__file__).resolve().parent.parent / "recipes" / "known_wheels.json"
GPU_LIBRARY = "libtorch_cuda.so"
LIBRARIES = ("libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so", GPU_LIBRARY)


def resolved(requirement: str, folder: Path, python: str) -> Resolved:
    """The registry's wheel of a release."""
    resolver = resolver_here(folder, IndexSettings(), extra=("--no-deps",))
    assert resolver is not None
    return resolver.resolve((requirement,), (), PlannedNode(python=python, glibc="2.39"))[0]


def read_torch(address: str, names: list[str], folder: Path) -> tuple[set[str], tuple[str, ...]]:
    """Those of the names that torch's libraries export, and the GPU code of its largest one."""
    found: set[str] = set()
    code: tuple[str, ...] = ()
    with zipfile.ZipFile(RemoteFile(address)) as archive:  # type: ignore[arg-type]
        for member in archive.infolist():
            name = member.filename.rpartition("/")[2]
            if name not in LIBRARIES or "/lib/" not in member.filename:
                continue
            file = folder / "torch.so"
            with archive.open(member) as source, file.open("wb") as made:
                shutil.copyfileobj(source, made, 1 << 24)
            told = binaries.exported(file, names)
            assert not isinstance(told, binaries.Unreadable), (member.filename, told)
            found |= told
            if name == GPU_LIBRARY:
                library = binaries.examine_lone(file)
                assert not isinstance(library, binaries.Unreadable), (member.filename, library)
                assert not library.gaps, (member.filename, library.gaps)
                code = library.gpu_code
            file.unlink()
    return found, code


def main() -> None:
    """Adds the rows."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--wheel", action="append", default=[], metavar="NAME==VERSION")
    options.add_argument("--torch", action="append", default=[], metavar="VERSION")
    options.add_argument("--python", action="append", metavar="VERSION", help="repeatable; the first is torch's")
    given = options.parse_args()
    pythons = given.python or ["3.11"]
    table = json.loads(FILE.read_text()) if FILE.exists() else {"symbols": [], "wheels": {}, "torch": {}}
    numbers = {name: number for number, name in enumerate(table["symbols"])}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for requirement, python in product(given.wheel, pythons):
            try:
                one = resolved(requirement, folder, python)
            except CannotResolve as error:
                print(requirement, python, error.what)
                continue
            if one.sha256 in table["wheels"]:
                continue
            libraries = []
            for library in code_behind(one.url, folder, sha256=one.sha256).libraries:
                for symbol in library.torch_symbols:
                    numbers.setdefault(symbol, len(numbers))
                row = {**asdict(library), "torch_symbols": [numbers[symbol] for symbol in library.torch_symbols]}
                row.pop("unreadable")
                libraries.append(row)
            table["wheels"][one.sha256] = {"file": one.file, "size": one.size, "libraries": libraries}
            print(one.file, [(each["name"], each["cudart_major"], each["gpu_code"]) for each in libraries])
        table["symbols"] = list(numbers)
        wanted = {*given.torch, *(key.partition("+")[0] for key in table["torch"])}
        for version in sorted(wanted):
            key = f"{version}+cu{(registry_cuda(version) or '').replace('.', '')}"
            if table["torch"].get(key, {}).get("of") == len(numbers) and "gpu_code" in table["torch"][key]:
                continue
            wheel = resolved(f"torch=={version}", folder, pythons[0])
            has, code = read_torch(wheel.url, list(numbers), folder)
            lacks = sorted(number for name, number in numbers.items() if name not in has)
            table["torch"][key] = {
                "of": len(numbers), "lacks": lacks, "gpu_code": code, "file": wheel.file, "sha256": wheel.sha256,
            }  # fmt: skip
            print(key, f"lacks {len(lacks)} of {len(numbers)}, holds code for {', '.join(code)}", flush=True)
    table["checked"] = date.today().isoformat()
    FILE.write_text(json.dumps(table, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
