"""Makes recipes/known_wheels.json: what known wheels hold, and which of their symbols each torch has.

    python bench/known_wheels.py --wheel xformers==0.0.35 --wheel bitsandbytes==0.50.2 --torch 2.9.1 --torch 2.13.0

Wheels are read in parts from the registry that uv is configured with: their compiled libraries, and those of torch
that export what others link, but for libtorch_cuda, which has a gigabyte: what may be in it is left open. Rows that are
there already are kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import zipfile
from datetime import date
from pathlib import Path

from attn_doctor.model.stack import PlannedNode
from attn_doctor.probe import binaries
from attn_doctor.probe.binaries.owners import may_be_gpu_part
from attn_doctor.quick_dataclasses import asdict
from attn_doctor.recipes.data.torch_releases import registry_cuda
from attn_doctor.stack.proof.remote_file import RemoteFile
from attn_doctor.stack.proof.wheel_code import code_behind
from attn_doctor.stack.resolver import Resolved, resolver_here
from attn_doctor.stack.settings import IndexSettings

FILE = Path(__file__).resolve().parent.parent / "recipes" / "known_wheels.json"
LIBRARIES = ("libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")


def resolved(requirement: str, folder: Path, python: str) -> Resolved:
    """The registry's wheel of a release."""
    resolver = resolver_here(folder, IndexSettings(), extra=("--no-deps",))
    assert resolver is not None
    return resolver.resolve((requirement,), (), PlannedNode(python=python, glibc="2.39"))[0]


def exported_by(address: str, names: list[str], folder: Path) -> set[str]:
    """Those of the names that torch's libraries export."""
    found: set[str] = set()
    with zipfile.ZipFile(RemoteFile(address)) as archive:  # type: ignore[arg-type]
        for member in archive.infolist():
            if member.filename.rpartition("/")[2] not in LIBRARIES or "/lib/" not in member.filename:
                continue
            file = folder / "torch.so"
            with archive.open(member) as source, file.open("wb") as made:
                shutil.copyfileobj(source, made, 1 << 24)
            told = binaries.exported(file, names)
            assert not isinstance(told, binaries.Unreadable), (member.filename, told)
            found |= told
            file.unlink()
    return found


def main() -> None:
    """Adds the rows."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--wheel", action="append", default=[], metavar="NAME==VERSION")
    options.add_argument("--torch", action="append", default=[], metavar="VERSION")
    options.add_argument("--python", default="3.11")
    given = options.parse_args()
    table = json.loads(FILE.read_text()) if FILE.exists() else {"symbols": [], "wheels": {}, "torch": {}}
    numbers = {name: number for number, name in enumerate(table["symbols"])}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for requirement in given.wheel:
            one = resolved(requirement, folder, given.python)
            if one.sha256 in table["wheels"]:
                continue
            libraries = []
            for library in code_behind(one.url, folder).libraries:
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
            if key in table["torch"] and table["torch"][key]["of"] == len(numbers):
                continue
            has = exported_by(resolved(f"torch=={version}", folder, given.python).url, list(numbers), folder)
            without = {name: number for name, number in numbers.items() if name not in has}
            left = [number for name, number in without.items() if may_be_gpu_part(name.encode())]
            lacks = sorted(set(without.values()) - set(left))
            table["torch"][key] = {"of": len(numbers), "lacks": lacks, "open": left}
            print(key, f"lacks {len(lacks)} of {len(numbers)}, {len(left)} may be in libtorch_cuda", flush=True)
    table["checked"] = date.today().isoformat()
    FILE.write_text(json.dumps(table, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
