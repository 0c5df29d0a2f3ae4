"""What the packages of an environment ask of each other, by the metadata of all of them: no import, no resolver.

Markers are evaluated for the interpreter under examination, and extras where some package asks for them
(`cuda-toolkit[cublas]`). What a person asked for on the command line of an installer, no metadata tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from packaging.markers import Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.known_packages import BY_NAME

#: Most requirements are as plain as this; packaging's parser takes twenty times as long for each of some thousands.
_PLAIN = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[(?P<extras>[\w\s,.-]*)\])?\s*"
    r"\(?(?P<specifier>(?:(?:[<>]=?|[=!~]=)[^;@()]*)?)\)?\s*(?:;(?P<marker>.*))?$"
)
_EXTRA = re.compile(r"\bextra\b")
#: A distribution that stands in for another one: torch's nightly and ROCm builds bring their triton under these names.
_STAND_INS: Mapping[str, tuple[str, ...]] = {
    "triton": ("pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu"),
}
_HOW = "Requires-Dist in the metadata of every distribution"


@dataclass(frozen=True, slots=True)
class RequirementSource:
    """What one distribution's metadata says of itself and of what it asks for."""

    name: str
    version: str | None
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needed:
    """One distribution that another one asks for; several lines about the same one are joined."""

    package: str
    on: str
    specifier: str


def probe(everything: Mapping[str, RequirementSource], markers: Mapping[str, str]) -> tuple[Fact, ...]:
    """Facts of the requirements that touch the attention stack, and the unmet ones of the rest in words."""
    notes = FactNotes()
    rest: list[str] = []
    count = 0
    for one in requirements(everything, markers):
        count += 1
        there = _version(one.on, everything)
        if one.on not in BY_NAME and met(one.specifier, there) is not False:
            continue
        if one.on in BY_NAME or imported(one.package):
            own = f"requirement.{one.package}.{one.on}."
            notes.known(own + "specifier", one.specifier or "any", _HOW)
            notes.known_or_absent(own + "installed", there, _HOW, "not installed")
        else:
            rest.append(f"{one.package} asks for {spelled(one.on, one.specifier, there)}")
    notes.known("listed.requirement", count, _HOW)
    notes.known_or_absent("environment.unmet_elsewhere", tuple(sorted(rest)), _HOW, "none")
    notes.known("environment.unmet_elsewhere_count", len(rest), _HOW)
    return notes.facts()


def imported(package: str) -> bool:
    """Whether it is one of those that a sample or a model imports: each of its requirements counts."""
    known = BY_NAME.get(package)
    return known is not None and bool(known.imports)


def spelled(on: str, specifier: str, there: str | None) -> str:
    """What is asked for and not met, for people: `torch==2.14.1 (2.11.0 is there)`."""
    asked = on if specifier == "any" else f"{on}{specifier}"
    return f"{asked} ({there} is there)" if there else f"{asked} (not installed)"


def met(specifier: str, version: str | None) -> bool | None:
    """Whether the version is one that the specifier accepts; None where that cannot be told.

    A vendor's or a nightly build of the very release that is asked for, 2.6.0a0+nv25.1 for >=2.6, may or may not do.
    """
    if version is None:
        return False
    if specifier in ("", "any"):
        return True
    try:
        accepted = SpecifierSet(specifier)
        there = Version(version)
    except (InvalidSpecifier, InvalidVersion):
        return None
    if accepted.contains(there, prereleases=True):
        return True
    return None if there.is_prerelease and accepted.contains(there.base_version, prereleases=True) else False


def requirements(everything: Mapping[str, RequirementSource], markers: Mapping[str, str]) -> Iterator[Needed]:
    """Each requirement that applies here, extras that something asks for included."""
    wanted: dict[tuple[str, str], list[str]] = {}
    waiting = [(name, "") for name in everything]
    seen = set(waiting)
    environment = tuple(sorted(markers.items()))
    while waiting:
        name, extra = waiting.pop()
        for text in everything[name].requires:
            if extra and not _EXTRA.search(text):
                continue  # counted without the extra already
            line = _line(text)
            if line is None or not _applies(line.marker, extra, environment):
                continue
            specifiers = wanted.setdefault((name, line.name), [])
            if line.specifier and line.specifier not in specifiers:
                specifiers.append(line.specifier)
            for one in line.extras:
                key = (line.name, one)
                if line.name in everything and key not in seen:
                    seen.add(key)
                    waiting.append(key)
    for (package, on), specifiers in wanted.items():
        if on != package:
            yield Needed(package, on, ",".join(specifiers))


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    extras: tuple[str, ...]
    specifier: str
    marker: str


@lru_cache(maxsize=8192)
def _line(text: str) -> _Line | None:
    plain = _PLAIN.match(text)
    if plain is not None:
        extras = tuple(canonicalize_name(one.strip()) for one in (plain["extras"] or "").split(",") if one.strip())
        specifier = "".join(plain["specifier"].split())
        return _Line(canonicalize_name(plain["name"]), extras, specifier, (plain["marker"] or "").strip())
    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        return None
    # `name @ URL` is met by whatever is installed under that name.
    return _Line(
        canonicalize_name(parsed.name),
        tuple(canonicalize_name(one) for one in parsed.extras),
        str(parsed.specifier),
        str(parsed.marker or ""),
    )


@lru_cache(maxsize=8192)
def _applies(marker: str, extra: str, environment: tuple[tuple[str, str], ...]) -> bool:
    if not marker:
        return True
    try:
        return Marker(marker).evaluate({**dict(environment), "extra": extra})
    except (ValueError, UndefinedEnvironmentName):
        return False


def _version(name: str, everything: Mapping[str, RequirementSource]) -> str | None:
    """The version that is there; `?` where its metadata does not tell."""
    for one in (name, *_STAND_INS.get(name, ())):
        if one in everything:
            return everything[one].version or "?"
    return None
