"""pip and uv as this target has them: the command lines, and their answers read from files.

No shell, no index of our own: what the user configured is what they use. Previews never build anything, since a
source distribution's setup.py is a program.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.process import Completed, Running
from attn_doctor.machine.target import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Settings that would send an installation somewhere else than into the target.
_ELSEWHERE = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_DRY_RUN",
    "PIP_REPORT",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
    "UV_PREFIX",
)
_LAST_LINES = 12
_LAUNCH = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where packages may come from besides what the user configured."""

    index_url: str | None = None
    no_index: bool = False
    find_links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release that the installer would take."""

    name: str
    version: str
    source: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """One of them, for one target."""

    kind: str
    command: tuple[str, ...]
    target: Target
    sources: Sources
    folder: Path
    """Private to this run."""
    timeout: float = 1800.0

    def preview(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], *, no_deps: bool, reinstall: bool
    ) -> tuple[Release, ...]:
        """What one call of the resolver would install. Raises Refused with its last words."""
        pinned = self.folder / "constraints.txt"
        pinned.write_text("".join(f"{one}\n" for one in constraints))
        if self.kind == "pip":
            report = self.folder / "report.json"
            self._run(
                "preview",
                [
                    "install", "--dry-run", "--quiet", "--ignore-installed" if reinstall and no_deps else "--no-color",
                    "--report", str(report), "--only-binary", ":all:", "--constraint", str(pinned),
                    *(["--no-deps"] if no_deps else []), *self._sources(), "--", *requirements,
                ],
            )  # fmt: skip
            return _pip_report(_json(report))
        wanted = self.folder / "requirements.in"
        wanted.write_text("".join(f"{one}\n" for one in requirements))
        lock = self.folder / "pylock.toml"
        self._run(
            "preview",
            [
                "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml", "--output-file", str(lock),
                "--python", str(self.target.python), "--only-binary", ":all:", "--constraints", str(pinned),
                *(["--no-deps"] if no_deps else []), *self._sources(), str(wanted),
            ],
        )  # fmt: skip
        return _pylock(lock)

    def fetch(self, pins: tuple[str, ...], into: Path, *, no_cache: bool) -> tuple[str, ...]:
        """Fetches the releases, so that installing them needs no network; gives the files they bring.

        Paths are relative to site-packages, `bin/…` for scripts. Raises Refused.
        """
        into.mkdir(exist_ok=True)
        if self.kind == "pip":
            self._run(
                "fetch",
                ["download", "--quiet", "--dest", str(into), "--no-deps", "--only-binary", ":all:",
                 *(["--no-cache-dir"] if no_cache else []), *self._sources(), "--", *pins],
            )  # fmt: skip
            return _in_wheels(into)
        self._run(
            "fetch",
            ["pip", "install", "--quiet", "--python", str(self.target.python), "--target", str(into), "--no-deps",
             "--only-binary", ":all:", *(["--refresh"] if no_cache else []), *self._sources(), *pins],
        )  # fmt: skip
        return tuple(str(file.relative_to(into)) for file in sorted(into.rglob("*")) if not file.is_dir())

    def install(self, pins: tuple[str, ...], fetched: Path, *, reinstall: bool) -> None:
        """Installs what was fetched. Raises Refused with the installer's last words."""
        if self.kind == "pip":
            self._run(
                "install",
                ["install", "--quiet", "--no-index", "--find-links", str(fetched), "--no-deps",
                 "--only-binary", ":all:", *(["--force-reinstall"] if reinstall else []), "--", *pins],
            )  # fmt: skip
            return
        names = [pin.partition("==")[0] for pin in pins] if reinstall else []
        self._run(
            "install",
            ["pip", "install", "--quiet", "--python", str(self.target.python), "--no-deps", "--offline",
             "--only-binary", ":all:", *(word for name in names for word in ("--reinstall-package", name)),
             *self._sources(), *pins],
        )  # fmt: skip

    def _sources(self) -> list[str]:
        words = ["--index-url", self.sources.index_url] if self.sources.index_url else []
        words += ["--no-index"] if self.sources.no_index else []
        for folder in self.sources.find_links:
            words += ["--find-links", folder]
        return words

    def _run(self, name: str, arguments: list[str]) -> Completed:
        environment = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
        environment |= {
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "UV_NO_PROGRESS": "1",
        }
        number = len(list(self.folder.glob(f"{self.kind}-{name}*.stdout")))
        running = Running(
            [sys.executable, "-I", str(_LAUNCH), str(os.getpid()), *self.command, *arguments],
            folder=self.folder,
            name=f"{self.kind}-{name}{number}",
            environment=environment,
        )
        try:
            completed = running.wait(self.timeout)
        finally:
            running.end()
        if not completed.ok:
            words = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-_LAST_LINES:]
            raise Refused("\n".join([f"{self.kind} {completed.ended()} at {name}:", *(f"  {line}" for line in words)]))
        return completed


def find(asked: str, target: Target, sources: Sources, folder: Path) -> Installer:
    """uv where the target has it or it is on PATH, else the target's own pip.

    Raises Refused where there is neither.
    """
    if target.told.get("externally_managed"):
        raise Refused("the environment belongs to the system's package manager (EXTERNALLY-MANAGED)")
    own = target.python.parent / "uv"
    uv = str(own) if own.is_file() else shutil.which("uv")
    if asked in ("auto", "uv") and uv:
        return Installer(kind="uv", command=(uv,), target=target, sources=sources, folder=folder)
    if asked in ("auto", "pip") and target.told.get("has_pip"):
        command = (str(target.python), "-m", "pip")
        return Installer(kind="pip", command=command, target=target, sources=sources, folder=folder)
    raise Refused("the environment has no pip, and uv is not on PATH" if asked == "auto" else f"there is no {asked}")


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise Refused(f"the installer's report cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}


def _pip_report(report: Mapping[str, Any]) -> tuple[Release, ...]:
    found = []
    try:
        for item in report["install"]:
            info = item["download_info"]
            hashes = (info.get("archive_info") or {}).get("hashes") or {}
            found.append(_release(item["metadata"]["name"], item["metadata"]["version"], info["url"], hashes))
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(f"pip's report is not of the form that is known: {error!r}") from None
    return tuple(sorted(found, key=lambda one: one.name))


def _pylock(file: Path) -> tuple[Release, ...]:
    try:
        table = tomllib.loads(file.read_text())
        found = []
        for package in table.get("packages", ()):
            wheels = package.get("wheels") or [package["archive"]] if "archive" in package else package["wheels"]
            first = wheels[0]
            one = len(wheels) == 1
            url = first.get("url") or first.get("path") or first.get("name") or ""
            found.append(
                _release(
                    package["name"], package["version"], url if one else "", first.get("hashes", {}) if one else {}
                )
            )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise Refused(f"uv's lock is not of the form that is known: {error!r}") from None
    return tuple(sorted(found, key=lambda one: one.name))


def _release(name: str, version: str, url: str, hashes: Mapping[str, str]) -> Release:
    """Names and versions come from outside: nothing that is not one goes into a command line or a path."""
    canonical = canonicalize_name(str(name))
    if not canonical.replace("-", "").replace(".", "").isalnum():
        raise Refused(f"no package name: {str(name)[:80]!r}")
    try:
        Version(str(version))
    except InvalidVersion:
        raise Refused(f"no version of {canonical}: {str(version)[:80]!r}") from None
    file = unquote(urlsplit(str(url)).path).rpartition("/")[2]
    return Release(name=canonical, version=str(version), source=file, sha256=str(hashes.get("sha256", "")))


def _in_wheels(folder: Path) -> tuple[str, ...]:
    import zipfile

    found: list[str] = []
    for wheel in sorted(folder.glob("*.whl")):
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.startswith("/") or ".." in name.split("/"):
                        raise Refused(f"{wheel.name} holds a path that leads out of it: {name[:80]!r}")
                    head, _, rest = name.partition("/")
                    if head.endswith(".data"):
                        scheme, _, rest = rest.partition("/")
                        name = f"bin/{rest}" if scheme == "scripts" else rest
                    if not name.endswith("/"):
                        found.append(name)
        except (OSError, zipfile.BadZipFile) as error:
            raise Refused(f"{wheel.name} cannot be read: {error}") from None
    return tuple(found)
