"""Examines one compiled library by itself, before it is installed anywhere: what it needs, and which GPUs it is for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .gpu_code import gpu_code
from .owners import is_torchs
from .reader import ElfFile
from .symbols import Symbols, gnu_hash
from .unreadable import CannotRead, Unreadable

_CUDART = re.compile(r"libcudart(?:\.[0-9a-f]{8})?\.so\.(\d+)")
_TORCH = re.compile(r"lib(?:torch|c10)[\w.]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneLibrary:
    """What the file itself says."""

    machine: str
    links_torch: bool
    cudart_major: int | None
    glibc: str
    """Newest GLIBC version that it needs, digits only; empty for none."""
    gpu_code: tuple[str, ...]
    """sm_90, compute_80; empty for a library without GPU code."""
    gaps: tuple[str, ...]
    """Parts of its GPU code that could not be read."""
    torch_symbols: tuple[str, ...]
    """Symbols that it needs from torch, as the file spells them."""


def examine_lone(file: Path) -> LoneLibrary | Unreadable:
    """Reads the file; it is neither loaded nor resolved against others."""
    try:
        with ElfFile(str(file)) as elf:
            symbols = Symbols(elf)
            versions = [one.version for one in symbols.wanted_versions()]
            wanted = tuple(one.name.decode(errors="replace") for one in symbols.wanted() if is_torchs(one.name))
            needed, machine = elf.needed, elf.machine_name
    except CannotRead as problem:
        return problem.about(file)
    code = gpu_code(file)
    majors = [int(told[1]) for name in needed if (told := _CUDART.fullmatch(name))]
    is_unread = isinstance(code, Unreadable)
    return LoneLibrary(
        machine=machine,
        links_torch=any(_TORCH.match(name) for name in needed),
        cudart_major=majors[0] if majors else None,
        glibc=_newest([one.removeprefix("GLIBC_") for one in versions if re.fullmatch(r"GLIBC_[\d.]+", one)]),
        gpu_code=() if isinstance(code, Unreadable) else code.all,
        gaps=(str(code),) if is_unread else () if isinstance(code, Unreadable) else code.gaps,
        torch_symbols=tuple(sorted(wanted)),
    )


def exported(file: Path, names: Iterable[str]) -> frozenset[str] | Unreadable:
    """Those of the names that the library exports."""
    try:
        with ElfFile(str(file)) as elf:
            symbols = Symbols(elf)
            return frozenset(one for one in names if symbols.exports(one.encode(), gnu_hash(one.encode())))
    except CannotRead as problem:
        return problem.about(file)


def _newest(versions: list[str]) -> str:
    return max(versions, key=lambda one: tuple(map(int, one.split("."))), default="")
