"""Measures the ELF reader of probe/binaries/ against pyelftools, on the torch of this interpreter, in one run.

    python bench/elf_reader.py [EXTENSION.so ...]

Without arguments the extension is torch's own libtorch_python.so. Prints milliseconds and ratios. Both sides
look up the same undefined symbols in libtorch_cpu.so and must agree on which of them it exports.
pyelftools is not a dependency: `pip install pyelftools` first.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
REPEATS = 5
MOST_SYMBOLS = 300


def milliseconds(work: Callable[[], object]) -> float:
    """Median of several runs, files already in the page cache."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def import_cost(statement: str) -> float:
    """Milliseconds of an import in a fresh interpreter, over what an empty one takes."""

    def run(code: str) -> Callable[[], object]:
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    return milliseconds(run(statement)) - milliseconds(run("import dataclasses, pathlib, re, struct"))


def ours(library: Path, names: list[str]) -> set[str]:
    """The names that the library exports, by attn_doctor's look-up."""
    from attn_doctor.probe.binaries.reader import ElfFile
    from attn_doctor.probe.binaries.symbols import Symbols, gnu_hash

    with ElfFile(str(library)) as elf:
        symbols = Symbols(elf)
        return {name for name in names if symbols.exports(name.encode(), gnu_hash(name.encode()))}


def theirs(library: Path, names: list[str]) -> set[str]:
    """The same, by pyelftools' look-up in .gnu.hash."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".gnu.hash")
        return {name for name in names if table.get_symbol(name) is not None}


def our_versions(library: Path) -> set[str]:
    """The symbol versions that the library needs."""
    from attn_doctor.probe.binaries.reader import ElfFile
    from attn_doctor.probe.binaries.symbols import Symbols

    with ElfFile(str(library)) as elf:
        return {wanted.version for wanted in Symbols(elf).wanted_versions()}


def their_versions(library: Path) -> set[str]:
    """The same, by pyelftools."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        return {one.name for _, needs in section.iter_versions() for one in needs}


def our_wanted(library: Path) -> list[str]:
    """Names of the undefined, not weak symbols."""
    from attn_doctor.probe.binaries.reader import ElfFile
    from attn_doctor.probe.binaries.symbols import Symbols

    with ElfFile(str(library)) as elf:
        return [wanted.name.decode() for wanted in Symbols(elf).wanted()]


def their_wanted(library: Path) -> list[str]:
    """The same, by pyelftools, which has to list the whole table."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        return [
            symbol.name
            for symbol in table.iter_symbols()
            if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.entry.st_info.bind == "STB_GLOBAL" and symbol.name
        ]


def our_whole_examination(extension: Path, torch_lib: Path) -> object:
    """What `check --quick` does for one extension, with a fresh view of the interpreter."""
    from attn_doctor.probe.binaries import LoaderView, examine_extension, gpu_code

    with LoaderView(
        torch_lib=torch_lib, interpreter=Path(sys.executable), site_packages=(torch_lib.parent.parent,)
    ) as view:
        return examine_extension(extension, view), gpu_code(extension)


def main(arguments: list[str]) -> int:
    """Prints the table. Returns 0, or 1 when the two sides disagree, or 2 when something is not installed."""
    sys.path.insert(0, str(HERE))
    torch, elftools = (importlib.util.find_spec(name) for name in ("torch", "elftools"))
    if torch is None or torch.origin is None or elftools is None:
        print("needs torch and pyelftools in this interpreter", file=sys.stderr)
        return 2
    torch_lib = Path(torch.origin).parent / "lib"
    big = torch_lib / "libtorch_cpu.so"
    print(f"{big.name}: {big.stat().st_size / 1e6:.0f} MB")
    rows = [
        (
            "import",
            import_cost("import attn_doctor.probe.binaries"),
            import_cost("from elftools.elf.elffile import ELFFile"),
        )
    ]
    agree = True
    for extension in [Path(each) for each in arguments] or [torch_lib / "libtorch_python.so"]:
        wanted = our_wanted(extension)
        names = wanted[:MOST_SYMBOLS]
        agree = agree and sorted(wanted) == sorted(their_wanted(extension))
        agree = agree and ours(big, names) == theirs(big, names)
        agree = agree and our_versions(extension) == their_versions(extension)
        for what, one, other in (
            (f"{extension.name}: {len(wanted)} undefined symbols", our_wanted, their_wanted),
            (f"{extension.name}: needed versions", our_versions, their_versions),
        ):
            rows.append((what, milliseconds(lambda: one(extension)), milliseconds(lambda: other(extension))))  # noqa: B023
        rows.append(
            (
                f"{len(names)} look-ups in {big.name}",
                milliseconds(lambda: ours(big, names)),  # noqa: B023
                milliseconds(lambda: theirs(big, names)),  # noqa: B023
            )
        )
        whole = milliseconds(lambda: our_whole_examination(extension, torch_lib))  # noqa: B023
        rows.append((f"{extension.name}: the whole examination, libraries opened anew", whole, float("nan")))
    print(f"{'':70}{'ours ms':>10}{'pyelftools ms':>15}{'ratio':>8}")
    for what, one, other in rows:
        print(f"{what:70}{one:10.1f}{other:15.1f}{other / one:8.1f}")
    print("both sides agree" if agree else "THE TWO SIDES DISAGREE")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
