"""Tells where Python took a file of the program for a package: then no release of the package is at fault."""

from __future__ import annotations

import re

from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.quick_patterns import when_used

#: The file is named, has the module's name, and lies with no installed packages; or Python says so.
_SAID = when_used(
    r" from [`'\"](?P<module>\w{2,60})[`'\"] \((?![^)\n]{0,300}(?:(?:site|dist)-packages|[/\\]lib[/\\]python3))"
    r"[^)\n]{0,300}[/\\](?P=module)\.py\)"
    r"|[`'\"]; [`'\"]\w{2,60}[`'\"] is not a package|\(consider renaming [`'\"]"
)
_PARTLY = when_used(r"partially initialized module [`'\"](?P<module>\w{2,60})[`'\"]")
_INSTALLED = when_used(r"(?:site|dist)-packages|[/\\]lib[/\\]python3")
#: The families that know it.
FAMILIES = frozenset({"module-is-a-file-of-ones-own", "package-hidden-by-a-folder", "import-goes-another-way"})


def hides_a_package(unit: Unit) -> bool:
    """True where the unit says, or its frames show, that a file with a package's name was imported in its place."""
    text = unit.text
    if "Error" not in text:
        return False
    if _SAID.search(text):
        return True
    partly = _PARTLY.search(text)
    return partly is not None and any(
        re.split(r"[/\\]", path)[-1] == f"{partly['module']}.py" and not _INSTALLED.search(path)
        for path, _ in unit.frames
    )
