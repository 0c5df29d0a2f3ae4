"""Examines downloaded releases as if they were installed: metadata and ELF files, before anything changes.

Uses the same probes as for the environment, with the downloaded files first on the path. Nothing is imported.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet
from attn_doctor.model.plans import Install
from attn_doctor.planning.planned_set import planned
from attn_doctor.probe.binaries import extensions
from attn_doctor.probe.packages import packages, torch_files
from attn_doctor.quick_dataclasses import replace

_HOW = "fetched, not installed yet"


def facts_of(install: Install, fetched: Path, target: Target, facts: FactSet, *, scratch: Path) -> FactSet:
    """The facts of the environment as it would be, read from the downloaded files.

    `fetched` contains wheels (pip) or their unpacked contents (uv). Raises Refused for a wheel that cannot be read.
    """
    stage = fetched
    if any(fetched.glob("*.whl")):
        stage = scratch / f"stage{len(list(scratch.glob('stage*')))}"
        stage.mkdir()
        for wheel in sorted(fetched.glob("*.whl")):
            _unpack(wheel, stage)
    told = {**target.told, "sys_path": [str(stage), *map(str, target.search_path)]}
    there = replace(target, told=told)
    inventory = packages.take_inventory(there.search_path)
    seen = [
        *packages.probe(inventory, told),
        *torch_files.probe(inventory.modules),
        *extensions.probe(inventory, there, dict(os.environ)),
    ]
    names = {one.name for one in install.changes}
    # The installed version would be replaced, so it is not a second copy.
    alone = [
        Fact(name=FactName("package", name, attribute), state=Absent("it gives way"), how=_HOW)
        for name in names
        for attribute in ("duplicates", "shadowed_by")
    ]
    return planned(install, facts).without("package").without("extension").with_facts([*seen, *alone])


def _unpack(wheel: Path, stage: Path) -> None:
    """Unpacks only what the probes read: metadata, shared libraries, torch's version file, and the names of the
    packages.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                parts = member.filename.split("/")
                if member.is_dir() or member.filename.startswith("/") or ".." in parts or "\\" in member.filename:
                    continue
                if parts[0].endswith(".data"):
                    if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):
                        continue
                    parts = parts[2:]
                wanted = (
                    parts[0].endswith(".dist-info")
                    or ".so" in parts[-1]
                    or parts == ["torch", "version.py"]
                    or parts[1:] in ([], ["__init__.py"])
                )
                if not wanted:
                    continue
                file = stage.joinpath(*parts)
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, file.open("wb") as made:
                    while block := source.read(1 << 20):
                        made.write(block)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:
        raise Refused(f"{wheel.name} cannot be looked into: {error}") from None
