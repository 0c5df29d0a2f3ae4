"""Asks uv or pip which releases go together. Nothing is installed, built or, with uv, downloaded."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import threading
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.packages.releases import json_of, release
from attn_doctor.fix.refusal import Refused
from attn_doctor.formats import toml
from attn_doctor.machine.process import Running
from attn_doctor.machine.web import without_secrets
from attn_doctor.model.stack import PlannedNode
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.stack.settings import IndexSettings

#: The glibc releases of which uv knows a platform, x86_64-manylinux_2_35.
_UV_GLIBC = (17, 28, *range(31, 41))
_LAST_LINES = 8
_LONG = 700
_CONFLICTS = r"No solution found|ResolutionImpossible|No matching distribution|unsatisfiable|conflicting dependencies"
_NO_RELEASE = re.compile(r"there (is|are) no versions? of")
_YANKED = re.compile(r'`([\w.-]+==[^`]+)` is yanked(?: \(reason: "(.*?)"\))?')


class CannotResolve(AttnDoctorError):
    """No releases go together, by the resolver; `words` is the short form of its reason."""

    def __init__(self, what: str, *, about: str = "", hint: str = "", is_conflict: bool = False) -> None:
        super().__init__(what, about=about, hint=hint)
        self.is_conflict = is_conflict
        """True when it found that nothing fits; False when it could not ask."""

    @property
    def lacks_release(self) -> bool:
        """True when the index has no such release at all."""
        return self.is_conflict and _NO_RELEASE.search(self.about) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One release in the resolver's answer."""

    name: str
    version: str
    url: str = ""
    file: str = ""
    size: int | None = None
    sha256: str = ""
    yanked: str = ""
    """Why its authors withdrew it; an index still gives it to who asks for exactly it."""


class Resolver(Protocol):
    """Resolves requirements for a node."""

    @property
    def words(self) -> str:
        """Who it is, and what it cannot do."""
        ...

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        """The releases. Raises CannotResolve."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """uv, for any Python and any platform."""

    command: str
    folder: Path
    settings: IndexSettings
    extra: tuple[str, ...] = ()
    """Options of uv that name where packages come from."""
    timeout: float = 120.0
    words: str = "uv"
    asked: list[str] = field(default_factory=list)
    """Filled once the index has answered: what it said lies in uv's cache then, and later questions, mostly about
    the same packages, are asked of that. uv asks the index about every package again otherwise: seconds instead of
    tenths."""

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        """The releases. Raises CannotResolve."""
        number = uuid.uuid4().hex
        wanted, limits = self.folder / f"wants{number}.in", self.folder / f"limits{number}.txt"
        lock = self.folder / f"pylock.n{number}.toml"
        wanted.write_text("".join(f"{one}\n" for one in requirements))
        limits.write_text("".join(f"{one}\n" for one in constraints))
        words = [
            "pip", "compile", "--no-header", "--no-python-downloads", "--no-config",
            "--only-binary", ":all:", "--python", sys.executable, "--python-version", node.python,
            "--python-platform", _platform(node), "--constraints", str(limits),
            "--format", "pylock.toml", "--output-file", str(lock),
            *self.settings.for_uv(), *self.extra, str(wanted),
        ]  # fmt: skip
        if self.asked:
            try:
                return _of_pylock(lock, self._run([*words, "--offline"], f"cached{number}"))
            except CannotResolve:
                pass  # it needs what nobody asked for yet
        warned = self._run(words, f"uv{number}")
        self.asked.append(number)
        return _of_pylock(lock, warned)

    def _run(self, arguments: list[str], name: str) -> str:
        """Its warnings. Raises CannotResolve."""
        environment = {
            "UV_HTTP_RETRIES": "1", **os.environ,
            "NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_SKIP_WHEEL_FILENAME_CHECK": "1",
        }  # fmt: skip
        if self.settings.certificate:
            environment.setdefault("SSL_CERT_FILE", self.settings.certificate)
        running = Running([self.command, *arguments], folder=self.folder, name=name, environment=environment)
        try:
            completed = running.wait(self.timeout)
        finally:
            running.end()
        if not completed.ok:
            raise _refusal("uv", completed.stderr.strip() or completed.ended())
        return completed.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Pip:
    """pip of the running Python, for that Python and this machine alone."""

    folder: Path
    extra: tuple[str, ...] = ()
    timeout: float = 600.0
    words: str = field(default="")

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        """The releases. Raises CannotResolve."""
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if (node.python, node.machine) != (here, platform.machine()):
            raise CannotResolve(
                f"pip plans for the Python that runs it, {here} on {platform.machine()}",
                about=f"Python {node.python} on {node.machine}",
                hint="Install uv beside attn-doctor (pip install 'attn-doctor[plan]'), which plans for any.",
            )
        number = uuid.uuid4().hex
        report, limits = self.folder / f"pip{number}.json", self.folder / f"limits{number}.txt"
        limits.write_text("".join(f"{one}\n" for one in constraints))
        running = Running(
            [
                sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--no-input",
                "--disable-pip-version-check", "--only-binary", ":all:", "--constraint", str(limits),
                "--report", str(report), *self.extra, "--", *requirements,
            ],
            folder=self.folder,
            name=f"pip{number}",
        )  # fmt: skip
        try:
            completed = running.wait(self.timeout)
        finally:
            running.end()
        if not completed.ok:
            raise _refusal("pip", completed.stderr.strip() or completed.ended())
        return _of_pip(report)


class Remembering:
    """A resolver that is asked each question once, by several threads at a time."""

    def __init__(self, asked: Resolver) -> None:
        self._asked = asked
        self._answers: dict[tuple[object, ...], Future[tuple[Resolved, ...]]] = {}
        self._lock = threading.Lock()

    @property
    def words(self) -> str:
        """Those of the resolver that is asked."""
        return self._asked.words

    def resolve(
        self, requirements: tuple[str, ...], constraints: tuple[str, ...], node: PlannedNode
    ) -> tuple[Resolved, ...]:
        """The releases. Raises CannotResolve."""
        # GPU and driver are no question of the resolver's.
        key = (requirements, constraints, node.python, node.glibc, node.machine)
        with self._lock:
            known = self._answers.get(key)
            answer = known or self._answers.setdefault(key, Future())
        if known is None:
            try:
                answer.set_result(self._asked.resolve(requirements, constraints, node))
            except BaseException as error:
                answer.set_exception(error)
        return answer.result()


def resolver_here(folder: Path, settings: IndexSettings, *, extra: tuple[str, ...] = ()) -> Uv | Pip | None:
    """uv beside this Python or on PATH, else pip; None where there is neither."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv:
        return Uv(command=uv, folder=folder, settings=settings, extra=extra)
    import importlib.metadata  # with all of email, for one pip in many

    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return None
    words = f"pip {version}, which plans for the Python that runs it alone (uv, the extra `plan`, plans for any)"
    return Pip(folder=folder, extra=extra, words=words)


def _platform(node: PlannedNode) -> str:
    minor = int(node.glibc.partition(".")[2] or 0)
    known = [one for one in _UV_GLIBC if one <= minor]
    if not known:
        return f"{node.machine}-manylinux2014"
    return f"{node.machine}-manylinux_2_{known[-1]}"


def _of_pylock(file: Path, warned: str) -> tuple[Resolved, ...]:
    yanked = {name: why or "no reason is given" for name, why in _YANKED.findall(warned)}
    try:
        packages: list[dict[str, Any]] = toml.parse(file.read_text()).get("packages", [])
    except (OSError, ValueError) as error:
        raise CannotResolve("uv's answer cannot be read", about=str(error)) from None
    found = []
    for one in packages:
        wheel = (one.get("wheels") or [one.get("archive", {})])[0]
        url = str(wheel.get("url") or wheel.get("path") or "")
        why = yanked.get(f"{one.get('name')}=={one.get('version')}", "")
        found.append(
            _checked(one.get("name"), one.get("version"), url, wheel.get("hashes", {}), wheel.get("size"), why)
        )
    return tuple(found)


def _of_pip(file: Path) -> tuple[Resolved, ...]:
    found = []
    try:
        for one in json_of(file)["install"]:
            told, info = one["metadata"], one["download_info"]
            hashes = (info.get("archive_info") or {}).get("hashes") or {}
            why = "its authors withdrew it" if one.get("is_yanked") else ""
            found.append(_checked(told["name"], told["version"], info["url"], hashes, None, why))
    except (KeyError, TypeError, Refused) as error:
        raise CannotResolve("pip's report is not of the form that is known", about=repr(error)) from None
    return tuple(sorted(found, key=lambda one: one.name))


def _checked(name: object, version: object, url: str, hashes: dict[str, str], size: object, yanked: str) -> Resolved:
    try:
        one = release(str(name), str(version), url, hashes)
    except Refused as error:
        raise CannotResolve("the resolver's answer holds what is no release", about=str(error)) from None
    size = size if isinstance(size, int) else None
    return Resolved(
        name=one.name, version=one.version, url=url, file=one.source, size=size, sha256=one.sha256, yanked=yanked
    )


def _refusal(who: str, words: str) -> CannotResolve:
    """What it said, without passwords and the walk through all releases."""
    lines = [without_secrets(line.strip()) for line in words.splitlines() if line.strip()]
    text = " ".join(lines)
    refused = re.search(r"returned a (40[13] \w+) error|(40[13] \w+)(?= for url|: )", text)
    if re.search(_CONFLICTS, text) and refused is None:
        return CannotResolve(f"{who} found no releases that go together", about=_reason(text), is_conflict=True)
    status = refused and next(filter(None, refused.groups()))
    failed = re.search(r"HTTP status server error \((\d+[^)]*)\)", text)
    if status:
        what, hint = f"the package index refused to answer ({status})", "Are its address and its credentials right?"
    elif failed:
        what, hint = f"the package index failed ({failed[1]})", "That passes, or its operators know."
    elif re.search(r"unexpected (JSON|HTML)|[Ii]nvalid (JSON|HTML)|[Ff]ailed to (parse|deserialize)", text):
        what, hint = "the package index gave an answer that is none", "Is that address an index, or a page before it?"
    else:
        what, hint = f"{who} could not ask the package index", "Is the index reached from here?"
    return CannotResolve(
        what,
        about="\n".join(lines[-_LAST_LINES:])[-1200:],
        hint=f"{hint} --offline answers from the shelf's tables.",
    )


def _reason(text: str) -> str:
    """The reason of a conflict, without what says that there is one."""
    text = re.sub(r"(error|ERROR|cause):\s+", "", re.sub(r"[.,]?\s*hint:\s+", "; ", text))
    text = re.sub(r"No solution found when resolving dependencies[^B]{0,4}", "", text)
    text = re.sub(r",? ?we can conclude that your requirements are unsatisfiable\.?|\[notice\].*", "", text)
    parts = re.split(r"(?=\b(?:And because|Because) )", " ".join(text.split()))
    # uv walks through all releases; the end of the way says what was asked for and cannot be.
    if len(parts) > 2 and re.fullmatch(r"And because you require \S+\s*", parts[-1]):
        parts.pop()  # said of what is typed, and stops in the middle without its end
    return "".join(parts if len(text) < _LONG else parts[-2:])[-_LONG:].strip()
