"""Files that say what an environment holds: where they would bring an old release back, how the new one is recorded.

A list that pins exactly the release that is installed, beside the environment that changes, is edited with it. What
would need another tool to stay whole (a lock file, hashes), or somebody's decision (a range, a package of conda's, a
file of a folder that the environment is no part of), is told, with what to type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from attn_doctor.fix.allowed import check_file
from attn_doctor.fix.edits.splices import file_edit, spliced
from attn_doctor.fix.refusal import Refused
from attn_doctor.formats import toml
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import FileEdit, PackageChange, Splice
from attn_doctor.quick_dataclasses import dataclass, replace

#: Lock file -> how a package that pyproject.toml names, and one that it does not, are moved to a release there.
_LOCKS = {
    "uv.lock": ("uv add '{name}=={version}'", "uv lock --upgrade-package '{name}=={version}'"),
    "poetry.lock": ("poetry add '{name}=={version}'", "poetry update {name}"),
    "pdm.lock": ("pdm add '{name}=={version}'", "pdm update {name}"),
    "Pipfile.lock": ("pipenv install '{name}=={version}'", "pipenv upgrade '{name}=={version}'"),
}
_LISTS = (
    "requirements*.txt", "requirements*.in", "requirements/*.txt", "requirements/*.in", "constraints*.txt",
    "environment*.y*ml", "pyproject.toml", "Dockerfile*",
)  # fmt: skip
_LARGEST = 8 << 20
#: A hash of the same requirement, on its line or on those that continue it.
_HASHED = re.compile(r"(?:[^\n]*\\\n)*[^\n]*--hash[= ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The folders whose files say what the environment holds."""

    owning: Path | None = None
    """The project that the environment is part of: its lists are edited."""
    others: tuple[Path, ...] = ()
    """Folders whose lists are only told about."""


def planned(changes: Iterable[PackageChange], manifests: Manifests) -> tuple[tuple[FileEdit, ...], tuple[str, ...]]:
    """(edits of pins, what a person has to do about the other places)."""
    every = tuple(one for one in changes if one.before is not None)
    edits: list[FileEdit] = []
    told: list[str] = []
    folders = dict.fromkeys([*([manifests.owning] if manifests.owning else []), *manifests.others])
    for folder in folders:
        for file in sorted({path for pattern in _LISTS for path in folder.glob(pattern)}):
            text = _text(file)
            edit = _edited(file, text, every, manifests.owning) if folder == manifests.owning else None
            if edit is not None:
                edits.append(edit)
                text = spliced(text.encode(errors="surrogateescape"), edit.splices).decode(errors="surrogateescape")
            told += _told_of_list(file, text, every)
        told += _told_of_locks(folder, every)
    return tuple(edits), tuple(dict.fromkeys(told))


def _edited(file: Path, text: str, changes: tuple[PackageChange, ...], owning: Path | None) -> FileEdit | None:
    splices = []
    for one in changes:
        for start, end in _exact_pins(file, text, one):
            before = len(text[:start].encode(errors="surrogateescape"))
            splices.append(Splice(start=before, end=before + (end - start), text=one.after))
    if not splices:
        return None
    content = text.encode(errors="surrogateescape")
    try:
        check_file(str(file.resolve()), configs=(), roots=(str(owning),))
        edit = file_edit(str(file.resolve()), content, tuple(sorted(splices, key=lambda one: one.start)))
        if file.suffix == ".toml":
            toml.parse(spliced(content, splices).decode(errors="surrogateescape"))
    except (Refused, OSError, ValueError):
        return None
    return replace(edit, is_list=True)


def _exact_pins(file: Path, text: str, change: PackageChange) -> list[tuple[int, int]]:
    """Where the text pins the release that is there, exactly: (start, end) of its version."""
    name = "[-_.]+".join(map(re.escape, change.name.split("-")))
    exact = rf"(?<![\w.-]){name}\s*(?:\[[^\]\n]*\]\s*)?===?\s*(?P<version>[\w.!+]+)(?![\w.!+*-])"
    found = [*re.finditer(exact, text, re.IGNORECASE)]
    if file.name == "pyproject.toml":  # as Poetry spells it
        exact = rf"^{name}\s*=\s*(?:\{{[^}}\n]*version\s*=\s*)?[\"'](?:==)?(?P<version>\d[\w.!+]*)[\"']"
        found += re.finditer(exact, _poetry(text), re.IGNORECASE | re.MULTILINE)
    places = []
    for one in found:
        line = text[text.rfind("\n", 0, one.start()) + 1 : one.start()]
        if "#" in line or _HASHED.match(text, one.end()) or not _same(one["version"], change.before):
            continue
        if file.suffix in (".yml", ".yaml") and not _is_pips(text[: one.start()]):
            continue
        places.append(one.span("version"))
    return places


def _poetry(text: str) -> str:
    """The text with everything but Poetry's tables blanked, so that positions stay."""
    return "".join(
        table if table.startswith("[tool.poetry") else re.sub(r"[^\n]", " ", table)
        for table in re.split(r"(?m)^(?=\[)", text)
    )


def _is_pips(before: str) -> bool:
    """True below `- pip:` of an environment of conda's: conda may not have the release that the index has."""
    lines = before.splitlines()
    indent = _indent(lines[-1]) if lines else 0
    for line in reversed(lines[:-1]):
        if line.strip() and not line.lstrip().startswith("#") and _indent(line) < indent:
            return line.strip() == "- pip:"
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _same(version: str, before: str | None) -> bool:
    try:
        return before is not None and Version(version) == Version(before)
    except InvalidVersion:
        return False


def _told_of_list(file: Path, text: str, changes: tuple[PackageChange, ...]) -> list[str]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for one in changes:
            if _pins_another(line, one):
                found.append(
                    f"{file}:{number} says {line.strip()!r}: it brings the old release back; {one.after} fits"
                    + (" (with other hashes: compile that file anew)" if "--hash" in text else "")
                )
    return found


def _told_of_locks(folder: Path, changes: tuple[PackageChange, ...]) -> list[str]:
    found = []
    project = _text(folder / "pyproject.toml") + _text(folder / "Pipfile")
    for name, (named, brought) in _LOCKS.items():
        text = _text(folder / name).lower()
        for one in changes:
            if f'name = "{one.name}"' in text or f'"{one.name}": {{' in text:
                how = named if re.search(rf"(?i)(?<![\w.-]){re.escape(one.name)}(?![\w.-])", project) else brought
                command = how.format(name=one.name, version=one.after)
                found.append(f"{folder / name} names {one.name}: the next sync undoes this; `{command}` records it")
    return found


def _pins_another(line: str, change: PackageChange) -> bool:
    for word in line.split("#")[0].replace("'", " ").replace('"', " ").split():
        try:
            need = Requirement(word.rstrip(";\\,"))
        except InvalidRequirement:
            continue
        if canonical_name(need.name) == change.name and need.specifier:
            return not need.specifier.contains(change.after, prereleases=True)
    return False


def _text(file: Path) -> str:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return ""
        return file.read_bytes().decode(errors="surrogateescape")
    except OSError:
        return ""
