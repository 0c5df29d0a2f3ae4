"""Which distribution has a module: the table recipes/modules.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.shelf import table

TABLE = "modules.toml"


@dataclass(frozen=True, slots=True)
class Distribution:
    """What an installer is asked for."""

    requirement: str
    around_torch: bool
    """It asks for torch, which an installer moves where nothing holds it."""


def distribution_with(module: str) -> Distribution | None:
    """What has this module; None for modules that are not in the table."""
    return _distributions().get(module)


def distribution_called(requirement: str) -> Distribution | None:
    """The distribution of the table that has this name."""
    return _by_name().get(requirement.lower().replace("_", "-"))


def repository_with(module: str) -> str | None:
    """The address of the repository that has this module, which no registry has."""
    return {str(name): str(address) for name, address in table(TABLE)["repository"].items()}.get(module)


@cache
def _by_name() -> Mapping[str, Distribution]:
    return {one.requirement.lower().replace("_", "-"): one for one in _distributions().values()}


@cache
def _distributions() -> Mapping[str, Distribution]:
    read = table(TABLE)
    found: dict[str, Distribution] = {}
    for same, named, around in (("around", "named_around", True), ("same", "named", False)):
        found |= {name: Distribution(name.replace("_", "-"), around) for name in read[same].split()}
        found |= {name: Distribution(requirement, around) for name, requirement in read[named].items()}
    return found
