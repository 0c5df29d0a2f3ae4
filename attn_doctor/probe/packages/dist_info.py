"""One dist-info or egg-info folder: its name, version, requirements and files, as its own files tell them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from attn_doctor.model.package_versions import canonical_name, is_version
from attn_doctor.quick_dataclasses import dataclass

_MOST_METADATA = 2_000_000


#: Headers of METADATA; an e-mail parser would take most of the time of --quick with three hundred packages.
_NAME = re.compile(r"^Name:[ \t]*\S", re.MULTILINE | re.IGNORECASE)


_VERSION = re.compile(r"^Version:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)


_REQUIRES = re.compile(r"^Requires-Dist:[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One dist-info or egg-info folder on the path."""

    name: str
    """Canonical name of the library, as in recipes, even when a fork, a vendor or a source build uses another name."""
    version: str | None
    """None when neither metadata nor folder name contain it."""
    info: Path
    folder: Path
    """The entry of sys.path in which it was found."""
    error: str
    requires: tuple[str, ...]
    editable_at: Path | None
    source: str | None
    wheel_tags: tuple[str, ...]
    files: tuple[str, ...]
    """From RECORD, relative to `folder`; empty without one."""
    called: str = ""
    """The name in its metadata, if different."""
    variant: str = ""
    """Label of the wheel variant that was installed, such as cu130: https://peps.python.org/pep-0825/ (a draft)."""


def listed_modules(info: Path) -> frozenset[str]:
    """The Python files at the top level, or one folder down, in a distribution's RECORD."""
    if info.is_file():
        return frozenset()
    try:
        raw = (info / "RECORD").read_bytes()
    except OSError:
        tops = _read(info / "top_level.txt").split()
        return frozenset(name for top in tops for name in (f"{top}/__init__.py", f"{top}.py"))
    return frozenset(
        line.split(b",", 1)[0].decode(errors="replace")
        for line in raw.splitlines()
        if b".py," in line and line.count(b"/") <= 1
    )


def editable_folder(info: Path) -> Path | None:
    """Source folder of an editable install."""
    direct = _json(info / "direct_url.json") if info.is_dir() else {}
    settings = direct.get("dir_info")
    if not isinstance(settings, dict) or not settings.get("editable"):
        return None
    return _place(str(direct.get("url") or ""))[0]


@dataclass(frozen=True, slots=True)
class DistInfo:
    """The name and metadata of a dist-info or egg-info folder."""

    name: str
    version: str | None
    requires: tuple[str, ...]
    raw: bytes
    error: str


def read_dist_info(info: Path) -> DistInfo:
    stem = info.name.rsplit(".", 1)[0]
    parts = stem.split("-")
    # torch-2.13.0+cpu.dist-info; an egg-info also has a Python tag: flash_attn-2.5.8-py3.11-linux-x86_64.egg-info
    name = canonical_name(parts[0])
    named_version = parts[1] if len(parts) > 1 else None
    raw, error = _metadata(info)
    text = raw.decode(errors="replace")
    said = _VERSION.search(text)
    version = said[1].strip() if said else None
    if raw and not error and (version is None or not _NAME.search(text)):
        error = "its metadata names no package and version"
    for candidate in (version, named_version):
        if candidate is not None and not is_version(candidate):
            error = error or f"its version {candidate[:80]!r} is none"
    version = next((one for one in (version, named_version) if one is not None and is_version(one)), None)
    requires = tuple(one.strip() for one in _REQUIRES.findall(text))
    return DistInfo(name=name, version=version, requires=requires, raw=raw, error=error)


def as_distribution(read: DistInfo, info: Path, folder: Path, *, as_name: str = "") -> Distribution:
    """The distribution; `as_name` is the known library that it contains under another name."""
    direct = _json(info / "direct_url.json")
    url = str(direct.get("url") or "")
    editable = (
        bool((direct.get("dir_info") or {}).get("editable")) if isinstance(direct.get("dir_info"), dict) else False
    )
    folder_named, source = _place(url)
    path = folder_named if editable else None
    return Distribution(
        name=as_name or read.name,
        called=read.name if as_name else "",
        version=read.version,
        info=info,
        folder=folder,
        error=read.error,
        requires=read.requires,
        editable_at=path,
        source=source or None,
        wheel_tags=tuple(re.findall(r"^Tag:\s*(\S+)", _read(info / "WHEEL"), re.MULTILINE)),
        files=_recorded(info),
        variant=_variant(info),
    )


def _variant(info: Path) -> str:
    """The one label in the installed wheel's variant.json; empty without one."""
    labels = _json(info / "variant.json").get("variants")
    return str(next(iter(labels))) if isinstance(labels, dict) and len(labels) == 1 else ""


def _metadata(info: Path) -> tuple[bytes, str]:
    """The headers of METADATA or PKG-INFO, and what is wrong with them."""
    file = info if info.is_file() else info / ("METADATA" if info.name.endswith(".dist-info") else "PKG-INFO")
    try:
        if file.stat().st_size > _MOST_METADATA:
            return b"", f"{file.name} is larger than {_MOST_METADATA // 10**6} MB"
        raw = file.read_bytes()
    except FileNotFoundError:
        return b"", f"{file.name} is missing"
    except OSError as error:
        return b"", f"{file.name} cannot be read: {error.strerror}"
    if b"\0" in raw[:4096]:
        return b"", f"{file.name} is binary garbage"
    head = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0]
    return head, "" if head.strip() else f"{file.name} is empty"


def _recorded(info: Path) -> tuple[str, ...]:
    if info.is_file():
        return ()
    try:
        raw = (info / "RECORD").read_bytes()
    except OSError:
        raw = b""
    # torch lists 15,000 files; only libraries are needed, so other lines are not decoded.
    lines = [line.decode(errors="replace") for line in raw.splitlines() if b".so" in line]
    if not raw and info.name.endswith(".egg-info"):
        # relative to the egg-info folder
        return tuple(
            str(Path(line).relative_to("..")) if line.startswith("../") else line
            for line in _read(info / "installed-files.txt").splitlines()
        )
    return tuple(line.split(",", 1)[0].strip('"') for line in lines)


def _read(file: Path) -> str:
    try:
        return file.read_bytes()[: 64 * 2**20].decode(errors="replace")
    except OSError:
        return ""


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _place(url: str) -> tuple[Path | None, str]:
    """The folder of a file URL, and the URL without user and password, which URLs of private indices contain."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None, ""
    folder = Path(unquote(parts.path)) if parts.scheme == "file" and parts.path else None
    return folder, parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
