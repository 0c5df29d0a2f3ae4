"""The releases that an installer would install, read from pip's report, uv's lock file and wheel files.

This input is not trusted: only valid names and versions reach a command line or a path.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from attn_doctor.fix.refusal import Refused
from attn_doctor.formats import toml
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass

_MOST_METADATA = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release that the installer would install."""

    name: str
    version: str
    source: str
    sha256: str


def json_of(file: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises Refused."""
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise Refused(f"the installer's report cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}


def from_pip_report(report: Mapping[str, Any]) -> tuple[Release, ...]:
    """Reads the report of `pip install --report`. Raises Refused."""
    found = []
    try:
        for item in report["install"]:
            info = item["download_info"]
            hashes = (info.get("archive_info") or {}).get("hashes") or {}
            found.append(release(item["metadata"]["name"], item["metadata"]["version"], info["url"], hashes))
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(f"pip's report is not of the form that is known: {error!r}") from None
    return tuple(sorted(found, key=lambda one: one.name))


def from_pylock(file: Path) -> tuple[Release, ...]:
    """Reads the output of `uv pip compile --format pylock.toml`. Raises Refused."""
    try:
        table = toml.parse(file.read_text())
        found = []
        for package in table.get("packages", ()):
            wheels = package.get("wheels") or [package["archive"]] if "archive" in package else package["wheels"]
            first = wheels[0]
            one = len(wheels) == 1
            url = first.get("url") or first.get("path") or first.get("name") or ""
            found.append(
                release(package["name"], package["version"], url if one else "", first.get("hashes", {}) if one else {})
            )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise Refused(f"uv's lock is not of the form that is known: {error!r}") from None
    return tuple(sorted(found, key=lambda one: one.name))


def release(name: str, version: str, url: str, hashes: Mapping[str, str]) -> Release:
    """A release with checked fields. Raises Refused."""
    canonical = canonical_name(str(name))
    if not canonical.replace("-", "").replace(".", "").isalnum():
        raise Refused(f"no package name: {str(name)[:80]!r}")
    try:
        Version(str(version))
    except InvalidVersion:
        raise Refused(f"no version of {canonical}: {str(version)[:80]!r}") from None
    file = unquote(urlsplit(str(url)).path).rpartition("/")[2]
    return Release(name=canonical, version=str(version), source=file, sha256=str(hashes.get("sha256", "")))


def metadata_of(wheel: Path) -> tuple[str, str, tuple[str, ...]]:
    """(name, version, Requires-Dist) from a wheel's METADATA. Raises Refused."""
    from email.parser import HeaderParser

    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [
                name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            ]
            if len(names) != 1:
                raise Refused(f"{wheel.name} is no wheel: it holds {len(names)} METADATA files")
            with archive.open(names[0]) as stream:
                text = stream.read(_MOST_METADATA).decode(errors="replace")
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise Refused(f"{wheel.name} cannot be read: {error}") from None
    headers = HeaderParser().parsestr(text.split("\n\n", 1)[0])
    checked = release(headers.get("Name", ""), headers.get("Version", ""), wheel.name, {})
    return checked.name, checked.version, tuple(headers.get_all("Requires-Dist", []))


def unmet(needed: Iterable[str], there: Mapping[str, str], markers: Mapping[str, str]) -> tuple[str, ...]:
    """The Requires-Dist entries that no installed version meets, extras ignored. Raises Refused for an invalid
    entry.
    """
    missing = []
    for text in needed:
        try:
            one = Requirement(text)
            if one.marker is not None and not one.marker.evaluate({**markers, "extra": ""}):
                continue
        except (InvalidRequirement, KeyError, ValueError):
            raise Refused(f"a dependency cannot be read: {text[:80]!r}") from None
        version = there.get(canonical_name(one.name))
        if version is None or not one.specifier.contains(version, prereleases=True):
            missing.append(f"{one.name}{one.specifier}")
    return tuple(missing)
