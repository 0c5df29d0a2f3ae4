"""What a lock file or a manifest says of one package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from attn_doctor.model.package_versions import canonical_name, is_version
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One package, where it is named."""

    name: str
    """Canonical."""
    file: str
    line: int
    version: str = ""
    """Empty where no single version is named."""
    specifier: SpecifierSet = SpecifierSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRead:
    """What a file would install."""

    pins: tuple[Pin, ...]
    complete: bool
    """It names every package, as locks do; a manifest leaves the rest to an installer."""
    cuda: str | None = None
    """CUDA of torch's build where the file says it (an index, an image); empty for CPUs; None where it does not."""
    python: str = ""
    """The Python that it is for, where it says so."""
    notes: tuple[str, ...] = ()


def pin_of(text: str, file: str, line: int, environment: Mapping[str, str]) -> Pin | None:
    """The pin of one requirement; None for what is none, and for another platform or Python.

    A version in the name of a wheel, `flash-attn @ https://…/flash_attn-2.8.3+cu12torch2.8….whl`, is one as well.
    """
    try:
        requirement = Requirement(text.strip())
    except InvalidRequirement:
        return None
    if requirement.marker is not None and not applies(str(requirement.marker), environment):
        return None
    name = canonical_name(requirement.name)
    if requirement.url:
        return Pin(name=name, file=file, line=line, version=version_in(requirement.url))
    exact = [one.version for one in requirement.specifier if one.operator in ("==", "===") and "*" not in one.version]
    version = exact[0] if len(exact) == 1 and is_version(exact[0]) else ""
    return Pin(name=name, file=file, line=line, version=version, specifier=requirement.specifier)


def applies(marker: str, environment: Mapping[str, str]) -> bool:
    """True when the marker holds on Linux with that Python and processor; also when it cannot be decided."""
    try:
        return bool(Marker(marker).evaluate({**environment, "extra": ""}))
    except (InvalidMarker, UndefinedEnvironmentName, InvalidVersion):
        return True


def environment_of(python: str, machine: str) -> dict[str, str]:
    """The values of markers on Linux."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def version_in(url: str) -> str:
    """The version in a wheel's name at the end of an address; empty where there is none."""
    match = re.search(r"/[A-Za-z0-9_.]+-([^-/]+)-[^/]*\.whl(?:[#?]|$)", url.replace("%2B", "+"))
    return match[1] if match and is_version(match[1]) else ""


def cuda_of_index(address: str) -> str | None:
    """13.0 for an index that ends in cu130, empty for cpu, None for another one."""
    match = re.search(r"/(cu(\d+)(\d)|cpu)/?(?:$|[\s\"'#])", address.strip() + "\n")
    if match is None:
        return None
    return "" if match[1] == "cpu" else f"{match[2]}.{match[3]}"


def python_of(specifier: str) -> str:
    """The oldest Python that `requires-python` accepts: 3.12; empty where it names none."""
    versions = re.findall(r"(?:>=|~=|==|\^)\s*(\d+\.\d+)", specifier)
    return versions[0] if versions else ""


def merged(pins: Iterable[Pin]) -> tuple[tuple[Pin, ...], tuple[str, ...]]:
    """Each package once, and a note for those with several versions, which are left open."""
    found: dict[str, list[Pin]] = {}
    for one in pins:
        found.setdefault(one.name, []).append(one)
    kept, notes = [], []
    for name, several in found.items():
        versions = {one.version for one in several if one.version}
        if len(versions) > 1:
            notes.append(f"{name} has several versions there ({', '.join(sorted(versions))}): it is not judged")
            continue
        kept.append(next((one for one in several if one.version), several[0]))
    return tuple(kept), tuple(notes)
