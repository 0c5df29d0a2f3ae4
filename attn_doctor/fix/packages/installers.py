"""pip and uv for one target: their command lines, and their answers read from files.

Uses no shell, and the package index that the user configured. A preview never builds anything, since a source
distribution's setup.py is a program. A plan names the releases to build, which are built before anything is changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from attn_doctor.fix.packages.ahead import Ahead, is_exact
from attn_doctor.fix.packages.installed import installed
from attn_doctor.fix.packages.releases import (
    Release,
    from_pip_report,
    from_pylock,
    json_of,
    metadata_of,
    release,
    unmet,
)
from attn_doctor.fix.packages.scheme import sites
from attn_doctor.fix.refusal import Refused, Unavailable
from attn_doctor.machine.atomic import sha256_of
from attn_doctor.machine.process import Completed, Running
from attn_doctor.machine.target import Target
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import Install
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.torch_releases import index_of

#: Settings that would install into another place than the target, or install more.
_ELSEWHERE = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_PYTHON",
    "PIP_DRY_RUN",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_EDITABLE",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
    "UV_PREFIX",
)
#: Settings of each installer that name where packages come from.
_CONFIGURED = {
    "uv": ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE"),
    "pip": ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"),
}
#: pip, below a prefix. Without --ignore-installed it would take the installed release out of the environment, whatever
#: the prefix.
_BESIDE = ("install", "--quiet", "--no-user", "--ignore-installed", "--no-compile", "--no-warn-script-location",
           "--no-deps", "--only-binary", ":all:")  # fmt: skip
_LAST_LINES = 12
#: The first pip with `install --dry-run --report`.
REPORTS = Version("22.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of packages in addition to the user's configuration."""

    index_url: str | None = None
    no_index: bool = False
    find_links: tuple[str, ...] = ()
    torch_backend: str = ""
    """The build of torch's own index from which torch is installed: uv finds that index by itself, pip needs its
    address.
    """

    def named_for(self, kind: str) -> bool:
        """True when a user chose the source of packages, by option or by the installer's own environment."""
        return bool(
            self.index_url or self.no_index or self.find_links or any(os.environ.get(one) for one in _CONFIGURED[kind])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """pip or uv, for one target."""

    kind: str
    command: tuple[str, ...]
    target: Target
    sources: Sources
    folder: Path
    """Private to this run."""
    timeout: float = 1800.0
    reports: bool = True
    """True for pip 22.2 and later, which can report what they would install."""
    whose: str = ""
    """Owner of the installer, in words, when it is not the target's own."""
    ahead: Ahead | None = None
    """Where a preview may install what it names, when all of that would be installed."""

    def preview(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], *, no_deps: bool, reinstall: bool
    ) -> tuple[Release, ...]:
        """The releases that one call of the resolver would install. Raises Refused with its last message."""
        pinned = self.folder / "constraints.txt"
        pinned.write_text("".join(f"{one}\n" for one in constraints))
        if self.kind == "pip":
            if not self.reports:
                return self._preview_by_fetching(requirements, pinned, no_deps=no_deps)
            if self.ahead is not None and no_deps and all(map(is_exact, requirements)):
                return self._previewed_ahead(self.ahead, requirements, pinned)
            if not reinstall or no_deps:
                return self._reported(requirements, pinned, no_deps=no_deps, anew=reinstall)
            return self._preview_anew(requirements, pinned)
        wanted = self.folder / "requirements.in"
        wanted.write_text("".join(f"{one}\n" for one in requirements))
        lock = self.folder / "pylock.toml"
        lock.unlink(missing_ok=True)  # uv would prefer the versions of an earlier answer
        self._run(
            "preview",
            [
                "pip", "compile", "--quiet", "--no-header", "--format", "pylock.toml", "--output-file", str(lock),
                "--python", str(self.target.python), "--only-binary", ":all:", "--constraints", str(pinned),
                *(["--no-deps"] if no_deps else []), *self._sources(), str(wanted),
            ],
        )  # fmt: skip
        return from_pylock(lock)

    def _previewed_ahead(self, ahead: Ahead, requirements: tuple[str, ...], pinned: Path) -> tuple[Release, ...]:
        """One call both reports the named releases and installs them, beside."""
        ahead.tree = ahead.folder / f"ahead{len(list(ahead.folder.glob('ahead*')))}"
        report = self.folder / "report.json"
        self._run(
            "preview",
            [*_BESIDE, "--prefix", str(ahead.tree), "--report", str(report), "--constraint", str(pinned),
             *self._sources(), "--", *requirements],
        )  # fmt: skip
        ahead.releases = from_pip_report(json_of(report))
        return ahead.releases

    def _reported(
        self, requirements: tuple[str, ...], pinned: Path, *, no_deps: bool, anew: bool = False
    ) -> tuple[Release, ...]:
        report = self.folder / "report.json"
        self._run(
            "preview",
            [
                "install", "--dry-run", "--quiet", "--ignore-installed" if anew else "--no-color",
                "--report", str(report), "--only-binary", ":all:", "--constraint", str(pinned),
                *(["--no-deps"] if no_deps else []), *self._sources(), "--", *requirements,
            ],
        )  # fmt: skip
        return from_pip_report(json_of(report))

    def _preview_anew(self, requirements: tuple[str, ...], pinned: Path) -> tuple[Release, ...]:
        """Preview with dependencies, where the named releases are installed again and nothing else is.

        pip's own --force-reinstall would download every dependency again, torch first.
        """
        found = {one.name: one for one in self._reported(requirements, pinned, no_deps=False)}
        there = tuple(one for one in requirements if canonical_name(Requirement(one).name) not in found)
        if not there:
            return tuple(found.values())
        forced = self._reported(there, pinned, no_deps=True, anew=True)
        exact = tuple(f"{one.name}=={one.version}" for one in forced)
        rest = tuple(one for one in requirements if one not in there)
        # Another build of the same release (+cpu, +cu128) may have other requirements than the installed one.
        found |= {one.name: one for one in (*forced, *self._reported((*rest, *exact), pinned, no_deps=False))}
        return tuple(sorted(found.values(), key=lambda one: one.name))

    def _preview_by_fetching(
        self, requirements: tuple[str, ...], pinned: Path, *, no_deps: bool
    ) -> tuple[Release, ...]:
        """Preview for a pip without --report: only the named releases, provided that their requirements are installed.

        Resolving more would mean downloading a whole torch to learn its version.
        """
        into = self.folder / f"previewed{len(list(self.folder.glob('previewed*')))}"
        into.mkdir()
        self._run(
            "preview",
            ["download", "--quiet", "--dest", str(into), "--no-deps", "--only-binary", ":all:",
             "--constraint", str(pinned), *self._sources(), "--", *requirements],
        )  # fmt: skip
        found = []
        brought: dict[str, str] = {}
        needed: list[str] = []
        for wheel in sorted(into.glob("*.whl")):
            name, version, needs = metadata_of(wheel)
            found.append(release(name, version, wheel.name, {"sha256": sha256_of(wheel) or ""}))
            brought[name] = version
            needed += needs
        if not no_deps:
            self._check_needs(needed, brought)
        return tuple(sorted(found, key=lambda one: one.name))

    def _check_needs(self, needed: list[str], brought: Mapping[str, str]) -> None:
        here = installed(sites(self.target))
        there = {**{one.name: one.version for one in here.values()}, **brought}
        markers = {key: str(value) for key, value in (self.target.told.get("markers") or {}).items()}
        missing = unmet(needed, there, markers)
        if missing:
            raise Refused(
                f"the environment's pip is older than {REPORTS} and cannot say beforehand what it would do about "
                f"{', '.join(missing)}; use uv (--installer uv) or a newer pip"
            )

    @property
    def compiles(self) -> bool:
        """True when this installer, as it is configured, compiles the modules that it installs."""
        if self.kind == "uv":
            return _is_set("UV_COMPILE_BYTECODE")
        return not _is_set("PIP_NO_COMPILE") and os.environ.get("PIP_COMPILE", "1") not in ("0", "false", "no", "off")

    def install_beside(
        self, change: Install, wheels: Mapping[str, str], into: Path, fetched: Path, *, linked: bool
    ) -> Mapping[str, str]:
        """Installs the releases of a plan below the folder `into`, as below a prefix; the target is not touched.

        `wheels`: package -> file named by the user. `fetched`: a folder for downloads. `linked`: files may be links
        into the installer's cache. Returns staged copy -> wheel that the user named. Raises Refused with the
        installer's last message, OSError.
        """
        pins = tuple(one for one in change.changes if one.name not in wheels)
        named = {
            f"{one.name}=={one.after}": one.sha256 for one in pins if f"{one.name}=={one.after}" not in change.builds
        }
        if self.ahead is not None and len(named) == len(change.changes) and self.ahead.take(named, into):
            return {}
        into.mkdir()
        fetched.mkdir(exist_ok=True)
        if self.kind == "pip":
            return self._pip_beside(change, named, wheels, into, fetched)
        there = ["pip", "install", "--quiet", "--python", str(self.target.python), "--prefix", str(into), "--no-deps",
                 *([] if linked else ["--link-mode", "copy"])]  # fmt: skip
        told = dict(change.build_environment)
        if named:
            asked = fetched / "requirements.txt"
            hashes = {pin: f" --hash=sha256:{sha256}" if sha256 else "" for pin, sha256 in named.items()}
            asked.write_text("".join(f"{pin}{digest}\n" for pin, digest in hashes.items()))
            self._run(
                "fetch",
                [*there, "--only-binary", ":all:", *(["--refresh"] if change.no_cache else []), *self._sources(),
                 "--requirements", str(asked)],
            )  # fmt: skip
        if change.builds:
            names = [pin.partition("==")[0] for pin in change.builds]
            words = [*there, "--no-build-isolation", *(word for name in names for word in ("--no-binary", name))]
            words += [word for name in names for word in ("--refresh-package", name)] if change.no_cache else []
            self._run("build", [*words, *self._sources(), *change.builds], told)
        if wheels:
            self._run("install", [*there, "--offline", *wheels.values()])
        return {}

    def _pip_beside(
        self, change: Install, named: Mapping[str, str], wheels: Mapping[str, str], into: Path, fetched: Path
    ) -> Mapping[str, str]:
        no_cache = ["--no-cache-dir"] if change.no_cache else []
        beside = [*_BESIDE, "--prefix", str(into)]
        if all(named.values()) and len(named) == len(change.changes):
            # The files are held against the plan by pip itself: one call fetches and installs.
            asked = fetched / "requirements.txt"
            asked.write_text("".join(f"{pin} --hash=sha256:{sha256}\n" for pin, sha256 in named.items()))
            self._run("fetch", [*beside, *no_cache, *self._sources(), "--require-hashes", "--requirement", str(asked)])
            return {}
        if named:
            self._run(
                "fetch",
                ["download", "--quiet", "--dest", str(fetched), "--no-deps", "--only-binary", ":all:", *no_cache,
                 *self._sources(), "--", *named],
            )  # fmt: skip
        if change.builds:
            from_source = [word for pin in change.builds for word in ("--no-binary", pin.partition("==")[0])]
            self._run(
                "build",
                ["wheel", "--quiet", "--wheel-dir", str(fetched), "--no-deps", "--no-build-isolation", *from_source,
                 *no_cache, *self._sources(), "--", *change.builds],
                dict(change.build_environment),
            )  # fmt: skip
        copies = {}
        for wheel in wheels.values():
            copies[str(fetched / Path(wheel).name)] = wheel
            shutil.copyfile(wheel, fetched / Path(wheel).name)
        for one in change.changes:
            if one.source.endswith(".whl") and one.sha256 and sha256_of(fetched / one.source) != one.sha256:
                raise Refused(f"{one.source} is not the file that the plan was shown for")
        # By path, since the file name of a published wheel may contain more than its metadata (+cu12torch2.8…). The
        # checked copy is installed, not the original, which may have changed during a build of hours.
        there = ["--no-index", "--find-links", str(fetched)]
        self._run("install", [*beside, *there, "--", *named, *change.builds, *copies])
        return copies

    def _sources(self) -> list[str]:
        words = ["--index-url", self.sources.index_url] if self.sources.index_url else []
        words += ["--no-index"] if self.sources.no_index else []
        for folder in self.sources.find_links:
            words += ["--find-links", folder]
        if self.kind == "uv" and self.sources.torch_backend:
            words += ["--torch-backend", self.sources.torch_backend]
        elif self.sources.torch_backend:
            # In addition to the configured index, which has the plan's other packages; a version with a build tag
            # counts as higher.
            words += ["--extra-index-url", index_of(self.sources.torch_backend)]
        return words

    def _run(self, name: str, arguments: list[str], told: Mapping[str, str] | None = None) -> Completed:
        environment = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
        environment |= {
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "NO_COLOR": "1",
            "UV_NO_PROGRESS": "1",
            "UV_COMPILE_BYTECODE": "0",  # what is compiled beside would name the wrong place
            # Published wheels are renamed after they were built; this package compares names and metadata itself.
            "UV_SKIP_WHEEL_FILENAME_CHECK": "1",
            **(told or {}),
        }
        number = len(list(self.folder.glob(f"{self.kind}-{name}*.stdout")))
        running = Running(
            [*self.command, *arguments],
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
            kind = Refused if name == "build" else Unavailable
            raise kind("\n".join([f"{self.kind} {completed.ended()} at {name}:", *(f"  {line}" for line in words)]))
        return completed


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no", "off")
