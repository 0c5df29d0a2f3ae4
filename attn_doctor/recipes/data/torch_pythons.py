"""The Pythons that a release of torch has wheels for; data: recipes/torch/releases.toml."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from attn_doctor.recipes.data.torch_releases import TABLE
from attn_doctor.recipes.shelf import table


def pythons(release: str) -> tuple[str, str] | None:
    """The oldest and the newest Python of the registry's wheels; None where the table does not say."""
    row: dict[str, Any] = next((one for one in table(TABLE)["release"] if release in one["versions"]), {})
    told = row.get("python") or table(TABLE)["older_pythons"].get(release.rpartition(".")[0])
    return (told[0], told[1]) if told else None


def has_wheels_for(release: str, python: str) -> bool | None:
    """Whether the registry has wheels of this torch for a Python, 3.12 or 3.12.4; None where the table does not say."""
    told = pythons(release)
    if told is None:
        return None
    oldest, newest = (Version(one).release[:2] for one in told)
    return oldest <= Version(python).release[:2] <= newest
