"""A law over the shelf: the first fix that is shown is possible where the log was written."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.finding import finding_of
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin, Value
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.shelf import bundled, families

#: Without the conditions of what is examined: they are about members that a log does not have.
SHELF = [
    replace(
        recipe, when=(), reached=(), where=(), remedies=tuple(replace(one, safe_when=()) for one in recipe.remedies)
    )
    for recipe in (*bundled(), *families())
    if recipe.logs
]

CUDA = r"whl/cu\d|\bnvidia-smi\b|\bnvcc\b|/usr/local/cuda|CUDA (?:build|toolkit)|NVIDIA driver"
LINUX = r"\bapt-get\b|\bldconfig\b|\bsystemctl\b|\bdmesg\b|^strings |\bln -s\b|\bsudo\b|\bLD_LIBRARY_PATH="
#: Where a log was written: its facts, and what a first fix there must not say.
PLACES: dict[str, tuple[dict[str, Value], str]] = {
    "Linux": ({"node.system": "Linux"}, r"\$env:|win_amd64"),
    "Windows": (
        {"node.system": "Windows"},
        LINUX + r"|(?<!whl)/usr/|^export |\btee\b|^[A-Z_]{2,30}=\S+ \w|\$\(|\| grep|\brm -rf",
    ),
    "macOS": ({"node.system": "macOS"}, CUDA + "|" + LINUX),
    "Jetson": ({"node.system": "Linux", "log.board": "Jetson"}, r"pytorch\.org/whl|CUDA build of torch"),
    "ROCm": ({"node.system": "Linux", "torch.version": "2.9.0+rocm6.4", "log.made_for": "AMD"}, CUDA),
    "XPU": ({"node.system": "Linux", "torch.version": "2.9.0+xpu", "log.made_for": "Intel"}, CUDA),
    "uv": ({"node.system": "Linux", "python.environment": "uv"}, r"(?<!uv run )python -m pip (?!debug)"),
}


def shown_first(facts: FactSet) -> list[tuple[str, str]]:
    """Each recipe, and its first remedy: the title, and its commands."""
    found = []
    for recipe in SHELF:
        remedies = finding_of(recipe, facts, bind(facts, None, None)).remedies
        if remedies:
            commands = [command for action in remedies[0].actions for command in action.commands]
            found.append((f"{recipe.id}:{remedies[0].id}", "\n".join([remedies[0].title, *commands])))
    return found


@pytest.mark.parametrize("package", ["", "flash-attn", "xformers"])
@pytest.mark.parametrize("place", PLACES)
def test_the_first_fix_is_possible_there(place: str, package: str) -> None:
    told, impossible = PLACES[place]
    told = {"python.executable": "python", **told, **({"subject.package": package} if package else {})}
    facts = FactSet(
        Fact(name=FactName.parse(name), state=Known(value), how="line 1", origin=Origin.DERIVED)
        for name, value in told.items()
    )

    assert wrong_there(shown_first(facts), impossible) == []


def wrong_there(shown: list[tuple[str, str]], impossible: str) -> list[str]:
    """What says something that is not possible there."""
    wrong = re.compile(impossible, re.MULTILINE)
    return [f"{called}: {text}" for called, text in shown if wrong.search(text)]


PLANTED = {
    "Linux": "Take it\n$env:MAX_JOBS=2",
    "Windows": "Take it\nsudo ldconfig",
    "macOS": "Take it\nnvidia-smi",
    "Jetson": "Take it\npython -m pip install torch --index-url https://download.pytorch.org/whl/cu126",
    "ROCm": "Install the CUDA toolkit",
    "XPU": "Take it\nnvcc -V",
    "uv": "Take it\npython -m pip install ninja",
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_impossible_there_is_seen(place: str) -> None:
    """In a title and in a command."""
    _, impossible = PLACES[place]

    assert wrong_there([("some:remedy", PLANTED[place])], impossible)
    assert not wrong_there([("some:remedy", "Update the program")], impossible)
