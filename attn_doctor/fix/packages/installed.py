"""All distributions installed in the target, from their metadata folders."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
#: An e-mail parser takes longer to import than all of an environment's metadata to read.
_FIELD = re.compile(r"^(Name|Version|Requires-Dist):[ \t]*(.*(?:\n[ \t]+\S.*)*)$", re.MULTILINE | re.IGNORECASE)
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One distribution."""

    name: str
    version: str
    info: Path
    needs: tuple[str, ...] = ()
    """Its Requires-Dist entries, as written."""

    @property
    def pin(self) -> str | None:
        """`name==version` for a constraints file; None for an invalid version.

        Metadata is not trusted: a line break in it could inject an option of pip's.
        """
        try:
            return f"{self.name}=={Version(self.version)}"
        except InvalidVersion:
            return None

    @property
    def installer(self) -> str:
        """The installer that installed it: pip, uv, conda; empty when not recorded."""
        try:
            return (self.info / "INSTALLER").read_text(errors="replace").strip()
        except OSError:
            return ""

    @property
    def needed_names(self) -> frozenset[str]:
        """Canonical names of the distributions that it requires, those of extras and other platforms included."""
        return frozenset(canonical_name(found[0]) for text in self.needs if (found := _NAMED.match(text)))

    def recorded(self) -> tuple[str, ...]:
        """The paths of its RECORD, as written; empty where it has none."""
        try:
            with (self.info / "RECORD").open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
                return tuple(row[0] for row in csv.reader(stream) if row and row[0])
        except OSError:
            return ()

    def modules(self) -> tuple[str, ...]:
        """The top-level modules and packages that it brings, by its RECORD."""
        found = []
        for recorded in self.recorded():
            head, _, rest = recorded.partition("/")
            name = head if rest == "__init__.py" else head.removesuffix(".py") if not rest else ""
            if name.isidentifier() and (rest or head.endswith(".py")):
                found.append(name)
        return tuple(dict.fromkeys(found))

    def files(self) -> tuple[Path, ...]:
        """Every file that it installed, compiled ones and its metadata included.

        Its RECORD may contain paths outside the environment; the caller has to check them.
        """
        site = self.info.parent
        found = [path for path in self.info.rglob("*") if not path.is_dir() or path.is_symlink()]
        for recorded in self.recorded():
            path = Path(os.path.normpath(site / recorded))
            found.append(path)
            if path.suffix == ".py":
                # Compiled by an import, not by the installer: not in RECORD, but removed with the source.
                found += sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        return tuple(dict.fromkeys(found))


def every_installed(sites: Iterable[str]) -> tuple[Installed, ...]:
    """All distributions in the target's own folders, in the order in which it finds them; a name may come twice."""
    found = []
    for site in dict.fromkeys(sites):
        for info in sorted(Path(site).glob("[!~]*.dist-info")):  # ~: left of an uninstall that was broken off
            try:
                text = (info / "METADATA").read_text(errors="replace")
            except OSError:
                continue
            name, version, needs = _read(text.split("\n\n", 1)[0])
            if name and version and _NAME.match(name):
                found.append(Installed(name=canonical_name(name), version=version, info=info, needs=needs))
    return tuple(found)


@lru_cache(maxsize=2048)
def _read(headers: str) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Name, version and requirements; a run asks for the same ones ten times."""
    found: dict[str, list[str]] = {}
    for match in _FIELD.finditer(headers):
        found.setdefault(match[1].lower(), []).append(match[2].strip())
    name, version = (next(iter(found.get(one, ())), None) for one in ("name", "version"))
    return name, version, tuple(found.get("requires-dist", ()))


def installed(sites: Iterable[str]) -> dict[str, Installed]:
    """Canonical name -> distribution; of two with one name the one that is found first."""
    return {one.name: one for one in reversed(every_installed(sites))}


def dependants(every: Iterable[Installed], changed: frozenset[str]) -> tuple[Installed, ...]:
    """Those that require a changed distribution, and those that require one of these, and so on; nearest first."""
    rest = [one for one in every if one.name not in changed]
    found: list[Installed] = []
    names = changed
    while names:
        more = [one for one in rest if names & one.needed_names]
        found += more
        rest = [one for one in rest if one not in more]
        names = frozenset(one.name for one in more)
    return tuple(found)


def conda_names(prefix: Path) -> frozenset[str]:
    """Canonical names of the distributions that conda installed in this environment; empty when it is not conda's.

    conda-meta has one JSON file for each package, which lists all its files.
    """
    found = set()
    for record in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            files = json.loads(record.read_bytes()).get("files")
        except (OSError, ValueError, AttributeError):
            continue
        for file in files if isinstance(files, list) else ():
            info = re.search(r"site-packages/([^/]+)\.(?:dist|egg)-info/", str(file))
            if info:
                found.add(canonical_name(info[1].rpartition("-")[0] or info[1]))
    return frozenset(found)
