"""A wheel file named by the user: checks its name and metadata against the target. planning/preview_install.py checks
its ELF files.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from attn_doctor.fix.packages.releases import metadata_of
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import sha256_of
from attn_doctor.machine.files import expanded
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.wheels import TABLES, NoWheel, fitting, node_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A wheel that may be installed, as far as its name and metadata show."""

    path: Path
    package: str
    version: str
    """From its metadata: published wheels have more in their file names (+cu12torch2.8…)."""
    sha256: str


def read(path: Path, target: Target) -> WheelFile:
    """Reads the wheel. Raises Refused when the file is not a wheel, or not one for this Python and platform."""
    real = expanded(path).resolve()
    try:
        name, version, _, tags = parse_wheel_filename(real.name)
    except InvalidWheelFilename as error:
        raise Refused(f"{path} is not named as a wheel: {error}") from None
    if not real.is_file():
        raise Refused(f"there is no file {path}")
    if not zipfile.is_zipfile(real):
        raise Refused(f"{path} is no wheel: a download that was cut off, or a page that says why there is none?")
    said_name, said_version, _ = metadata_of(real)
    if said_name != name:
        raise Refused(f"{path} is named {name}, and its metadata is that of {said_name}")
    if Version(said_version).public != version.public:
        raise Refused(f"{path} is named {version}, and its metadata says {said_version}")
    if not any(_fits(tag, target) for tag in tags):
        spelled = ", ".join(sorted(map(str, tags)))
        raise Refused(f"{path} is for {spelled}; this is Python {target.version} on {target.told.get('platform_tag')}")
    return WheelFile(path=real, package=canonical_name(name), version=said_version, sha256=sha256_of(real) or "")


def unofficial(one: WheelFile, facts: FactSet) -> str:
    """Empty for the official wheel for this node; else how it differs."""
    if one.package not in TABLES:
        return ""
    try:
        published = fitting(one.package, node_of(facts), f"=={one.version}")
    except NoWheel as error:
        return f"{one.path.name} is no published wheel for this node: {error}"
    if published.file == one.path.name:
        return ""
    return f"{one.path.name} is not the published wheel for this node, which is {published.file}"


def _fits(tag: Tag, target: Target) -> bool:
    major, minor = target.version.split(".")[:2]
    here = f"cp{major}{minor}"
    machine = str(target.told.get("machine", ""))
    stable = tag.abi == "abi3" and tag.interpreter.startswith(f"cp{major}") and _minor(tag.interpreter) <= int(minor)
    python = tag.interpreter in (here, f"py{major}", f"py{major}{minor}") or stable
    abi = tag.abi in ("none", here) or stable
    system = "musllinux" if not target.told.get("libc") else "linux"
    platform = tag.platform == "any" or (
        tag.platform.endswith(f"_{machine}") and tag.platform.startswith((system, "many" + system))
    )
    return python and abi and platform


def _minor(interpreter: str) -> int:
    digits = interpreter[3:]
    return int(digits) if digits.isdigit() else 99
