"""What a preview of pip has installed beside already, for a run that is agreed to: pip needs half a second to start."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from packaging.requirements import Requirement

from attn_doctor.fix.packages.releases import Release
from attn_doctor.quick_dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Ahead:
    """At most one tree of files."""

    folder: Path
    """Where it may."""
    releases: tuple[Release, ...] = ()
    tree: Path | None = None
    """What these releases are, as below a prefix."""

    def take(self, named: Mapping[str, str], into: Path) -> bool:
        """Moves it to `into` where it is exactly these releases: `name==version` -> SHA-256. Raises OSError."""
        ready = {f"{one.name}=={one.version}": one.sha256 for one in self.releases}
        if self.tree is None or ready != named or not all(ready.values()):
            return False
        shutil.move(self.tree, into)
        self.tree = None
        return True


def is_exact(requirement: str) -> bool:
    """True where it names one release."""
    pins = list(Requirement(requirement).specifier)
    return len(pins) == 1 and pins[0].operator == "==" and not pins[0].version.endswith("*")
