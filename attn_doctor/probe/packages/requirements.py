"""The requirements of an environment's packages on each other, from all metadata: no import, no resolver.

Markers are evaluated for the interpreter under examination, and extras when a package requires them
(`cuda-toolkit[cublas]`). Requirements that a person gave to an installer are in no metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from packaging.version import Version

from attn_doctor.model.facts import Fact
from attn_doctor.model.package_versions import accepts, canonical_name, is_release
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_dataclasses import dataclass

#: Most requirements are this simple; packaging's parser takes twenty times as long, for some thousands of them.
_PLAIN = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[(?P<extras>[\w\s,.-]*)\])?\s*"
    r"\(?(?P<specifier>(?:(?:[<>]=?|[=!~]=)[^;@()]*)?)\)?\s*(?:;(?P<marker>.*))?$"
)
_EXTRA = re.compile(r"\bextra\b")
_OR = re.compile(r"\bor\b")
_ASKS_FOR_EXTRA = re.compile(r"""(?:^|\sand\s+|\()\s*extra\s*==\s*(?:"[\w.-]+"|'[\w.-]+')""")
#: The parts of most markers. https://packaging.python.org/en/latest/specifications/dependency-specifiers/
_COMPARISON = re.compile(r"""(?P<name>\w+)\s*(?P<sign>[<>]=?|[=!]=)\s*(?P<quote>["'])(?P<wanted>[^"']*)(?P=quote)""")
_VERSIONS = frozenset({"python_version", "python_full_version"})
_WORDS = frozenset(
    {
        "extra",
        "implementation_name",
        "os_name",
        "platform_machine",
        "platform_python_implementation",
        "platform_system",
        "sys_platform",
    }
)
#: No version, so that it is compared as text.
_WORD = re.compile(r"(?!v?\d)[A-Za-z_][\w-]*", re.IGNORECASE)
#: Distributions that replace another one: torch's nightly and ROCm builds ship triton under these names.
_STAND_INS: Mapping[str, tuple[str, ...]] = {
    "triton": ("pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu"),
}
_HOW = "Requires-Dist in the metadata of every distribution"


@dataclass(frozen=True, slots=True)
class RequirementSource:
    """The metadata of one distribution: its version and its requirements."""

    name: str
    version: str | None
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needed:
    """A distribution that another one requires; several lines about the same one are joined."""

    package: str
    on: str
    specifier: str


def probe(everything: Mapping[str, RequirementSource], markers: Mapping[str, str]) -> tuple[Fact, ...]:
    """Facts about requirements of the attention stack, and a text for each unmet requirement of other packages."""
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
    """True for a package that samples or models import: all its requirements count."""
    known = BY_NAME.get(package)
    return known is not None and bool(known.imports)


def spelled(on: str, specifier: str, there: str | None) -> str:
    """An unmet requirement, for people: `torch==2.14.1 (2.11.0 is there)`."""
    asked = on if specifier == "any" else f"{on}{specifier}"
    return f"{asked} ({there} is there)" if there else f"{asked} (not installed)"


def met(specifier: str, version: str | None) -> bool | None:
    """True when the specifier accepts the version; None when undecidable.

    A vendor's or a nightly build of the required release, such as 2.6.0a0+nv25.1 for >=2.6, is undecidable.
    """
    if version is None:
        return False
    if specifier in ("", "any"):
        return True
    try:
        if accepts(specifier, version):
            return True
        there = Version(version)
        return None if there.is_prerelease and accepts(specifier, there.base_version) else False
    except ValueError:
        return None


def requirements(everything: Mapping[str, RequirementSource], markers: Mapping[str, str]) -> Iterator[Needed]:
    """Yields each requirement that applies here, including extras that some package requires."""
    wanted: dict[tuple[str, str], list[str]] = {}
    waiting = [(name, "") for name in everything]
    seen = set(waiting)
    environment = tuple(sorted(markers.items()))
    while waiting:
        name, extra = waiting.pop()
        for text in everything[name].requires:
            if extra and not _EXTRA.search(text):
                continue  # already counted without the extra
            line = read_line(text)
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
class Line:
    """One Requires-Dist; `name` and `extras` are canonical."""

    name: str
    extras: tuple[str, ...]
    specifier: str
    marker: str


@lru_cache(maxsize=8192)
def read_line(text: str) -> Line | None:
    """One Requires-Dist; None where it cannot be read."""
    plain = _PLAIN.match(text)
    if plain is not None:
        extras = tuple(canonical_name(one.strip()) for one in (plain["extras"] or "").split(",") if one.strip())
        specifier = "".join(plain["specifier"].split())
        return Line(canonical_name(plain["name"]), extras, specifier, (plain["marker"] or "").strip())
    from packaging.requirements import InvalidRequirement, Requirement  # its parser, which few lines need

    try:
        parsed = Requirement(text)
    except InvalidRequirement:
        return None
    # `name @ URL` is met by any installation of that name.
    return Line(
        canonical_name(parsed.name),
        tuple(canonical_name(one) for one in parsed.extras),
        str(parsed.specifier),
        str(parsed.marker or ""),
    )


@lru_cache(maxsize=8192)
def _applies(marker: str, extra: str, environment: tuple[tuple[str, str], ...]) -> bool:
    if not marker:
        return True
    if not extra and all(_ASKS_FOR_EXTRA.search(part.strip()) for part in _OR.split(marker)):
        return False  # a false part in each conjunction; most markers are this
    found = _plainly_applies(marker, extra, dict(environment))
    if found is not None:
        return found
    from packaging.markers import Marker, UndefinedEnvironmentName  # its parser, which few markers need

    try:
        return Marker(marker).evaluate({**dict(environment), "extra": extra})
    except (ValueError, UndefinedEnvironmentName):
        return False


def _plainly_applies(marker: str, extra: str, environment: Mapping[str, str]) -> bool | None:
    """The value of a conjunction of plain comparisons; None where packaging has to decide."""
    values = []
    for text in marker.split(" and "):
        part = _COMPARISON.fullmatch(text.strip())
        if part is None:
            return None
        name, wanted = part["name"], part["wanted"]
        if name != "extra" and name not in environment:
            return None
        if name in _VERSIONS and is_release(part["sign"] + wanted):
            values.append(accepts(part["sign"] + wanted, environment[name]))
        elif name in _WORDS and part["sign"] in ("==", "!=") and _WORD.fullmatch(wanted):
            same = canonical_name(extra) == canonical_name(wanted) if name == "extra" else environment[name] == wanted
            values.append(same == (part["sign"] == "=="))
        else:
            return None
    return all(values)


def _version(name: str, everything: Mapping[str, RequirementSource]) -> str | None:
    """The installed version; `?` when its metadata does not contain it."""
    for one in (name, *_STAND_INS.get(name, ())):
        if one in everything:
            return everything[one].version or "?"
    return None
