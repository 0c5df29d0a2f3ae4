"""A message that lists several packages."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf

EVERY = (*shelf.bundled(), *shelf.families())
LIST = (
    "ImportError: This modeling file requires the following packages that were not found in your environment: {}. Run"
)


def commands(names: str) -> list[str]:
    """What is typed first."""
    finding = explain_text(LIST.format(names), EVERY, FactSet()).diagnosis.findings[0]
    return [command for action in finding.remedies[0].actions for command in action.commands]


@pytest.mark.parametrize("names", ["einops, flash_attn", "flash_attn, einops", "timm, flash_attn, einops"])
def test_all_of_a_list_are_installed_each_in_its_way(names: str) -> None:
    typed = commands(names)
    beside = [one.replace("flash_attn", "") for one in names.split(", ") if one != "flash_attn"]
    assert typed[0].startswith(f"python -m pip install {' '.join(beside)} ")
    assert "flash-attn" not in typed[0]
    assert any(command.endswith(" flash-attn") and "--no-deps" in command for command in typed)


def test_one_alone_has_nothing_beside_it() -> None:
    assert not any("einops" in command for command in commands("flash_attn"))


def test_compiled_packages_keep_their_torch() -> None:
    assert commands("flash_attn, causal_conv1d")[0].endswith("--no-deps --no-build-isolation causal-conv1d")


def test_what_the_remedy_names_already_is_not_named_twice() -> None:
    assert sum("einops" in command for command in commands("einops, timm")) == 1
