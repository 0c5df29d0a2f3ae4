"""Makes recipes/names_by_release.json: which release of a package brought a Python name, and which no longer has it.

    python bench/harvest_names.py read DIR [PACKAGE ...]   fetches releases that DIR does not know, reads names
    python bench/harvest_names.py write DIR [PACKAGE ...]  writes the file from what DIR holds

`read` asks pip, as it is configured here, for a release a minor (see PACKAGES), reads its Python files, and deletes the
archive; DIR keeps the names of each file once, by its SHA-256 (600 MB in all). A name is listed that not all
looked-at releases of its module have; of a name that came, went and came again nothing is said.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.names_around import Around  # noqa: E402
from bench.names_table import rows_of  # noqa: E402
from bench.python_names import Names, read_file  # noqa: E402
from bench.released_names import DTYPES, ReleasedNames, merge_stub, module_of  # noqa: E402
from bench.released_sources import fetch, last_of_each  # noqa: E402

FILE = ROOT / "recipes" / "names_by_release.json"
FORMAT = 1
LARGEST = 400_000_000


@dataclass(frozen=True, slots=True)
class Package:
    """What is looked at: from which release on, and in which kinds of archive."""

    root: str
    distribution: str
    oldest: str
    forms: tuple[str, ...] = ("wheel", "sdist")
    parts: int = 2
    """How much of a release's number is told apart: 1 is a major, 2 a minor, 3 a patch."""
    around: bool = False
    """Whether it is one of those around attention, of which everything public is listed: see bench/names_around.py."""
    from_then_on: tuple[str, str] | None = None
    """Another distribution that holds the files from a release on."""

    def group(self, version: Version) -> str:
        """The release as `since` and `until` call it."""
        return ".".join(str(one) for one in version.release[: self.parts])


#: Wheels of these lie under the Python of their time.
COMPILED = ("wheel", "wheel-3.10", "wheel-3.7")

PACKAGES = (
    Package("torch", "torch", "1.6", ("mac", "mac-3.8")),  # first: what others inherit from its classes is asked for
    Package("transformers", "transformers", "4.0"),
    Package("flash_attn", "flash-attn", "0.2.1", ("sdist",), parts=3),
    Package("diffusers", "diffusers", "0.3"),
    Package("peft", "peft", "0.3"),
    Package("accelerate", "accelerate", "0.18"),
    Package("trl", "trl", "0.4"),
    Package("xformers", "xformers", "0.0.16", ("sdist",), parts=3),
    Package("huggingface_hub", "huggingface-hub", "0.16"),
    Package("triton", "triton", "2.0", ("wheel-3.11",)),
    Package("vllm", "vllm", "0.3", ("sdist",)),
    Package("sglang", "sglang", "0.3", parts=3),
    Package("flashinfer", "flashinfer-python", "0.2", parts=3),
    Package("fla", "flash-linear-attention", "0.1", parts=3, from_then_on=("fla-core", "0.3.2")),
    Package("liger_kernel", "liger-kernel", "0.3"),
    Package("bitsandbytes", "bitsandbytes", "0.39"),
    Package("torchao", "torchao", "0.1"),
    Package("kernels", "kernels", "0.2"),
    Package("unsloth", "unsloth", "2024"),
    Package("unsloth_zoo", "unsloth-zoo", "2024"),
    Package("optimum", "optimum", "1.13"),
    Package("mamba_ssm", "mamba-ssm", "1.0", ("sdist",)),
    Package("causal_conv1d", "causal-conv1d", "1.0", ("sdist",)),
    Package("deepspeed", "deepspeed", "0.9", ("sdist",)),
    Package("transformer_engine", "transformer-engine", "1.9"),
    Package("sageattention", "sageattention", "0.1"),
    Package("natten", "natten", "0.14", ("sdist",), parts=3),
    Package("timm", "timm", "0.3", parts=3),
    Package("einops", "einops", "0.4"),
    Package("xfuser", "xfuser", "0.1"),
    Package("x_transformers", "x-transformers", "1.20"),
    Package("pytorch_lightning", "pytorch-lightning", "1.0"),
    Package("numpy", "numpy", "1.16", COMPILED, around=True),
    Package("PIL", "pillow", "5.4", COMPILED, around=True),
    Package("torchvision", "torchvision", "0.5", COMPILED, around=True),
    Package("torchaudio", "torchaudio", "0.7", COMPILED, around=True),
    Package("torchtext", "torchtext", "0.6", COMPILED, around=True),
    Package("datasets", "datasets", "1.1", parts=1, around=True),
    Package("sklearn", "scikit-learn", "0.20", COMPILED, around=True),
    Package("scipy", "scipy", "1.1", COMPILED, around=True),
    Package("skimage", "scikit-image", "0.14", COMPILED, around=True),
    Package("pandas", "pandas", "0.24", COMPILED, around=True),
    Package("librosa", "librosa", "0.6", around=True),
    Package("networkx", "networkx", "2.2", around=True),
    Package("torchmetrics", "torchmetrics", "0.2", around=True),
    Package("moviepy", "moviepy", "1.0", around=True),
    Package("google", "protobuf", "3.12", COMPILED, around=True),
    Package("jax", "jax", "0.4.14", parts=3, around=True),
    Package("gradio", "gradio", "2.9", parts=1, around=True),
)  # fmt: skip

Release = dict[str, str]
"""Module -> SHA-256 of its file, behind a ~ where it is a stub and the module is compiled."""
STUB = "~"
#: The header of torch that every dtype has its row in; the stub of torch._C learnt of some a release late.
#: Names that a release lacks which is not the last of its number, the only one that is read: a row would say that all
#: from its first on have them. xformers 0.0.28 has no fmha.BlockDiagonalMask, and its post3 has it again.
NOT_IN_ALL = {"xformers": {"xformers.ops.fmha": {"BlockDiagonalMask"}}}
SCALAR_TYPES = "core/ScalarType.h"
_SCALAR_TYPE = re.compile(r"\b_\(\s*[\w:<>]+\s*,\s*(\w+)\s*\)")


def releases_of(package: Package) -> dict[str, tuple[str, str]]:
    """Release, as the table calls it -> distribution and version to fetch; oldest first."""
    found: dict[str, tuple[str, str]] = {}
    for version in last_of_each(package.distribution, package.group):
        if Version(version) >= Version(package.oldest):
            found[version] = (package.distribution, version)
    if package.from_then_on is not None:
        other, since = package.from_then_on
        found = {one: place for one, place in found.items() if Version(one) < Version(since)}
        for version in last_of_each(other, package.group):
            if Version(version) >= Version(since):
                found[version] = (other, version)
    return dict(sorted(found.items(), key=lambda one: Version(one[0])))


def read_release(root: str, files: Iterator[tuple[str, bytes]], known: dict[str, Any]) -> Release:
    """The modules below an import root; what their files hold goes into `known`."""
    release: Release = {}
    stubs: Release = {}
    for name, content in files:
        if name.endswith(SCALAR_TYPES) and root == "torch":
            dtypes = sorted({one.lower() for one in _SCALAR_TYPE.findall(content.decode())})
            digest = hashlib.sha256(repr(dtypes).encode()).hexdigest()[:20]
            known[digest] = {"defs": dtypes}
            release[DTYPES] = digest if dtypes else release.get(DTYPES, digest)
            continue
        module = module_of(name, root)
        if module is None:
            continue
        digest = hashlib.sha256(content + (b"#package" if name.endswith("__init__.py") else b"")).hexdigest()[:20]
        if digest not in known:
            known[digest] = read_file(content)
            if known[digest] is not None and "__init__." in name:
                known[digest]["package"] = True
        (stubs if name.endswith(".pyi") else release)[module] = digest
    for module, digest in stubs.items():
        if module not in release:
            release[module] = f"{STUB}{digest}"
        elif known[digest] and known[release[module]]:
            both = f"{release[module]}+{digest}"
            known[both] = merge_stub(known[release[module]], known[digest])
            release[module] = both
    return release


def read(folder: Path, package: Package) -> None:
    """Fetches the releases that the folder does not know yet."""
    there = folder / package.root
    there.mkdir(parents=True, exist_ok=True)
    files = there / "files.jsonl"
    known: dict[str, Names | None] = dict(_lines(files))
    forms = list(package.forms)
    for release, (distribution, version) in releases_of(package).items():
        target = there / f"{release}.json"
        if target.exists():
            continue
        before = set(known)
        modules: Release = {}
        for form in tuple(forms):
            with tempfile.TemporaryDirectory(prefix="harvest-", dir=folder) as scratch:
                found = fetch(distribution, version, Path(scratch), form, (".py", ".pyi", SCALAR_TYPES), LARGEST)
                modules = read_release(package.root, found, known)
            if modules:
                forms = [form, *(one for one in forms if one != form)]  # of the next release mostly the same
                break
        with files.open("a") as out:
            out.writelines(json.dumps([one, known[one]]) + "\n" for one in known if one not in before)
        if modules:
            target.write_text(json.dumps(modules))
        print(
            f"{package.root} {release}: {len(modules)} modules, {len(set(known) - before)} files of them new",
            flush=True,
        )


def _lines(file: Path) -> Iterator[tuple[str, Names | None]]:
    if file.exists():
        with file.open() as lines:
            for line in lines:
                digest, names = json.loads(line)
                yield digest, names


def write(folder: Path, target: Path, only: list[str]) -> None:
    """Writes the table; the rows stay of packages that are not named, or that the folder holds nothing of."""
    packages: dict[str, Any] = json.loads(target.read_bytes())["packages"] if target.exists() else {}
    ever: dict[tuple[str, str], set[str]] = {}
    for package in PACKAGES:
        there = folder / package.root
        known = dict(_lines(there / "files.jsonl"))
        every = sorted((file.stem for file in there.glob("[0-9]*.json")), key=Version)
        for names in known.values():
            for name, made in (names or {}).get("classes", {}).items():
                ever.setdefault((package.root, name), set()).update(made["names"])
        if not every or (only and package.root not in only):
            continue
        looked_at = [
            ReleasedNames(
                package.root,
                {
                    module: _as_kept(known, digest)
                    for module, digest in json.loads((there / f"{one}.json").read_text()).items()
                },
            )
            for one in every
        ]
        spelled = [package.group(Version(one)) for one in every]
        # Of a major release the last is read: what that has, the first may not have had yet.
        brought = every if package.parts == 1 else spelled
        rows = rows_of(looked_at, spelled, ever, Around(looked_at) if package.around else None, brought)
        leave_out(rows, NOT_IN_ALL.get(package.root, {}))
        packages[package.root] = {"distribution": package.distribution, "releases": every, "names": rows}
        if package.around:
            packages[package.root]["around"] = True
        if package.from_then_on is not None:  # the other half is not read from then on
            packages[package.root]["split_at"] = package.from_then_on[1]
        size = len(json.dumps(rows, separators=(",", ":")))
        print(f"{package.root}: {len(every)} releases, {sum(map(count, rows))} names, {size} bytes", flush=True)
    target.write_text(as_text(packages))


def _as_kept(known: dict[str, Names | None], digest: str) -> Names:
    names = known[digest.lstrip(STUB)] or {"unreadable": True}
    return {**names, "stub": True} if digest.startswith(STUB) else names


def leave_out(rows: list[dict[str, Any]], names: dict[str, set[str]]) -> None:
    """Takes names (module -> names) out of the rows."""
    for row in rows:
        for module in set(row["in"]) & set(names):
            row["in"][module] = " ".join(name for name in row["in"][module].split() if name not in names[module])
        row["in"] = {module: kept for module, kept in row["in"].items() if kept}


def count(row: dict[str, Any]) -> int:
    """How many names a row holds."""
    return sum(len(names.split()) for names in row["in"].values())


def as_text(packages: dict[str, Any]) -> str:
    """The file, a line a group."""
    blocks = []
    for root, one in sorted(packages.items()):
        head = json.dumps({name: value for name, value in one.items() if name != "names"}, separators=(",", ":"))
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in one["names"])
        blocks.append(f'{json.dumps(root)}:{head[:-1]},"names":[\n{rows}]}}')
    checked = date.today().isoformat()
    return f'{{"format":{FORMAT},"checked":"{checked}","packages":{{\n' + ",\n".join(blocks) + "}}\n"


def main() -> None:
    """Reads or writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("read", "write"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="PACKAGE", help="import roots; all where none is named")
    parser.add_argument("--to", type=Path, default=FILE)
    asked = parser.parse_args()
    if asked.what == "write":
        write(asked.folder, asked.to, asked.names)
        return
    for package in PACKAGES:
        if not asked.names or package.root in asked.names:
            read(asked.folder, package)


if __name__ == "__main__":
    main()
