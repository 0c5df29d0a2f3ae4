"""Wheels that were opened before, by their SHA-256; and which symbols of torch its releases have.

Data: recipes/known_wheels.json, made by bench/known_wheels.py.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.stack.proof.wheel_code import LibraryCode, WheelCode

TABLE = "known_wheels.json"


def known_code(sha256: str) -> WheelCode | None:
    """What the wheel with this SHA-256 holds; None when nobody opened it."""
    row = _table()["wheels"].get(sha256)
    if row is None:
        return None
    symbols = _table()["symbols"]
    return WheelCode(
        libraries=tuple(
            LibraryCode(
                name=one["name"],
                links_torch=one["links_torch"],
                cudart_major=one["cudart_major"],
                glibc=one["glibc"],
                gpu_code=tuple(one["gpu_code"]),
                gaps=tuple(one["gaps"]),
                torch_symbols=tuple(symbols[number] for number in one["torch_symbols"]),
            )
            for one in row["libraries"]
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTorch:
    """A wheel of torch that was opened."""

    file: str
    sha256: str
    gpu_code: tuple[str, ...]
    """Of its largest library: sm_90, compute_90."""


def opened_torch(torch: str, build: str) -> OpenedTorch | None:
    """The wheel of this very build that was opened; None when none was."""
    row = _table()["torch"].get(f"{torch}+{build}")
    return None if row is None else OpenedTorch(
        file=row["file"], sha256=row["sha256"], gpu_code=tuple(row["gpu_code"])
    )  # fmt: skip


def lacking_in_torch(symbols: tuple[str, ...], torch: str, build: str) -> tuple[str, ...] | None:
    """Those of a wheel's symbols that this torch does not export; None when it, or one of them, was never looked at."""
    builds = _table()["torch"]
    # Every CUDA's build of a release is compiled from one source.
    row = builds.get(f"{torch}+{build}") or next((builds[one] for one in builds if one.startswith(f"{torch}+")), None)
    numbers = _numbers()
    if row is None or any(numbers.get(one, row["of"]) >= row["of"] for one in symbols):
        return None
    lacks = set(row["lacks"])
    return tuple(one for one in symbols if numbers[one] in lacks)


@cache
def _numbers() -> dict[str, int]:
    return {name: number for number, name in enumerate(_table()["symbols"])}


@cache
def _table() -> dict[str, Any]:
    file = bundled_folder() / TABLE
    table: dict[str, Any] = json.loads(file.read_bytes())
    return table
