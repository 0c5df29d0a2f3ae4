"""What is installed in the target, from its metadata folders; everything, not only what the probes care about."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One distribution."""

    name: str
    version: str
    info: Path

    @property
    def installer(self) -> str:
        """Who installed it: pip, uv, conda; empty when that is not written."""
        try:
            return (self.info / "INSTALLER").read_text(errors="replace").strip()
        except OSError:
            return ""

    def files(self) -> tuple[Path, ...]:
        """Every file that it brought, compiled ones too, and its metadata folder's own.

        Paths of its RECORD that lead out of the environment are the caller's to judge.
        """
        site = self.info.parent
        found = [path for path in self.info.rglob("*") if not path.is_dir() or path.is_symlink()]
        for recorded in _recorded(self.info / "RECORD"):
            path = Path(os.path.normpath(site / recorded))
            found.append(path)
            if path.suffix == ".py":
                # Compiled by an import, not by the installer: in no RECORD, and removed with the source.
                found += sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        return tuple(dict.fromkeys(found))


def _recorded(record: Path) -> Iterable[str]:
    try:
        with record.open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
            return [row[0] for row in csv.reader(stream) if row and row[0]]
    except OSError:
        return []


def installed(sites: Iterable[str]) -> dict[str, Installed]:
    """By canonical name, of the target's own folders."""
    found: dict[str, Installed] = {}
    for site in dict.fromkeys(sites):
        for info in sorted(Path(site).glob("*.dist-info")):
            try:
                headers = HeaderParser().parsestr((info / "METADATA").read_text(errors="replace").split("\n\n", 1)[0])
            except OSError:
                continue
            name, version = headers.get("Name"), headers.get("Version")
            if name and version:
                found.setdefault(
                    canonicalize_name(name), Installed(name=canonicalize_name(name), version=version, info=info)
                )
    return found
