"""Which files hold unit tests alone, told by their text: `-m "not unit"` need not import them."""

from __future__ import annotations

import functools
import re
from pathlib import Path

#: Folders whose tests start no process and import no torch, unless a test is marked otherwise (NOT_UNIT).
UNIT_FOLDERS = ("recipes", "stack", "diagnose", "fleet", "fix", "machine", "model", "probe", "report", "formats")
NOT_UNIT = ("process", "long", "registry", "triton", "heavy", "costly", "gpu", "slurm", "ssh", "other_torch")
STARTING_FIXTURES = ("doctor", "environment")
#: What a test needs that has these fixtures, whatever it is marked with.
NEEDED_BY_FIXTURE = {
    "triton": "triton", "triton_beside": "triton", "packages": "registry", "wheel": "registry",
}  # fmt: skip
_OTHERWISE = re.compile(
    rf"\bmark\.(?:{'|'.join(NOT_UNIT)})\b|\b(?:{'|'.join((*STARTING_FIXTURES, *NEEDED_BY_FIXTURE))})\s*[:,)]"
)


def in_unit_folder(place: tuple[str, ...]) -> bool:
    """By the parts of a path below tests/. Nearly all tests of probe/binaries/ compile what they read."""
    return place[0] in UNIT_FOLDERS and place[:2] != ("probe", "binaries")


@functools.cache
def unit_alone(file: Path, place: tuple[str, ...]) -> bool:
    """Whether no test of this file can be another than a unit test: it names no such marker and no such fixture."""
    return in_unit_folder(place) and file.suffix == ".py" and not _OTHERWISE.search(file.read_text())
