"""uv.lock, poetry.lock, pylock.toml and pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.formats import toml
from attn_doctor.stack.locks.pins import (
    LockRead,
    Pin,
    applies,
    cuda_of_index,
    environment_of,
    merged,
    pin_of,
    python_of,
    version_in,
)


def read_lock(text: str, file: str, python: str, machine: str) -> LockRead:
    """uv.lock, poetry.lock or pylock.toml: every package with its version. Raises BadInput."""
    table = _table(text, file)
    packages = table.get("package") or table.get("packages") or []
    told = str(table.get("requires-python") or table.get("metadata", {}).get("python-versions") or "")
    python = python or python_of(told)
    environment = environment_of(python or "3.12", machine)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\[\[packages?\]\]", line)]
    pins, cuda = [], None
    for one, line in zip(packages, lines, strict=False):
        source = one.get("source", {}) if isinstance(one.get("source"), dict) else {}
        if not one.get("version") or "virtual" in source or source.get("editable") == ".":
            continue
        markers = one.get("resolution-markers") or ([one["marker"]] if one.get("marker") else [])
        if isinstance(markers, list) and markers and not any(applies(_plain(each), environment) for each in markers):
            continue
        version = version_in(str(source.get("url", ""))) or str(one["version"])
        if "url" in source and not _fits(str(source["url"]), machine):
            continue
        pins.append(Pin(name=_name(one), file=file, line=line + 1, version=version))
        if _name(one) == "torch":
            cuda = cuda_of_index(str(source.get("registry") or source.get("url") or ""))
    kept, notes = merged(pins)
    return LockRead(pins=kept, complete=True, cuda=cuda, python=python, notes=notes)


def read_project(text: str, file: str, python: str, machine: str) -> LockRead:
    """pyproject.toml: what it asks for, which an installer completes. Raises BadInput."""
    table = _table(text, file)
    project, poetry = table.get("project", {}), table.get("tool", {}).get("poetry", {})
    python = python or python_of(str(project.get("requires-python", "")))
    environment = environment_of(python or "3.12", machine)
    pins = [
        pin
        for requirement in project.get("dependencies", ())
        if (pin := pin_of(str(requirement), file, _line(text, str(requirement)), environment))
    ]
    for name, asked in poetry.get("dependencies", {}).items():
        version = asked.get("version", "") if isinstance(asked, dict) else str(asked)
        exact = f"=={version}" if version[:1].isdigit() else version if version[:1] in "<>=!" else ""
        pin = pin_of(f"{name}{exact}", file, _line(text, f"{name} ="), environment) if name != "python" else None
        pins += [pin] if pin else []
    kept, notes = merged(pins)
    return LockRead(pins=kept, complete=False, cuda=_cuda_of_sources(table), python=python, notes=notes)


def _cuda_of_sources(table: Mapping[str, Any]) -> str | None:
    """CUDA of the index that [tool.uv.sources] names for torch."""
    uv = table.get("tool", {}).get("uv", {})
    named = {str(one.get("name")): str(one.get("url", "")) for one in uv.get("index", ())}
    sources = uv.get("sources", {}).get("torch", ())
    for one in sources if isinstance(sources, list) else [sources]:
        if isinstance(one, dict) and "index" in one:
            return cuda_of_index(named.get(str(one["index"]), ""))
    return None


def _table(text: str, file: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = toml.parse(text)
    except ValueError as error:
        raise BadInput(f"the file is not TOML: {error}", about=f"--lock {file}", hint="Was it cut off?") from None
    return table


def _name(one: Mapping[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", str(one.get("name", ""))).lower()


def _plain(marker: str) -> str:
    """Without uv's own conditions on groups and extras, which no marker of the standard can hold."""
    return " and ".join(_parts(marker)) or "python_version > '0'"


def _parts(marker: str) -> Iterator[str]:
    if " or " in marker:
        if "extra" not in marker:
            yield marker
        return
    for part in marker.split(" and "):
        if "extra" not in part:
            yield part.strip("() ")


def _fits(url: str, machine: str) -> bool:
    """False for a wheel of another processor."""
    others = {"x86_64": "aarch64", "aarch64": "x86_64"}
    return f"_{others.get(machine, '?')}.whl" not in url


def _line(text: str, what: str) -> int:
    return next((number for number, line in enumerate(text.splitlines(), 1) if what in line), 1)
