"""The newest release of each package against which the recipes were checked; data in recipes/checked.toml."""

from __future__ import annotations

from functools import cache

from packaging.version import InvalidVersion, Version

from attn_doctor.recipes.shelf import table

TABLE = "checked.toml"


@cache
def newest_checked() -> dict[str, str]:
    """Package -> newest release checked; `5.23` stands for every release that begins with it."""
    return {str(name): str(version) for name, version in table(TABLE)["newest"].items()}


def is_newer(package: str, version: str) -> bool | None:
    """True when this release is newer than the newest one checked; None when undecidable."""
    newest = newest_checked().get(package)
    if newest is None:
        return None
    try:
        here = Version(version)
    except InvalidVersion:
        return None
    limit = Version(newest)
    if newest.count(".") == 1:
        return here.release[:2] > limit.release
    return Version(here.public) > limit
