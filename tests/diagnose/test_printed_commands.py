"""Every command that the shelf can print: what it says it does, and nothing else. The recipes' own cases print them."""

from __future__ import annotations

import functools
import re

import pytest

from attn_doctor.model.install_request import COMPANIONS, name_of
from bench.printed_commands import PLACEHOLDERS, Printed, printed

pytestmark = pytest.mark.long


@functools.cache
def _everything(*, share: bool) -> tuple[Printed, ...]:
    """Not when this file is imported: each worker imports it, and one needs it."""
    return tuple(printed(share=share))


@functools.cache
def _installs(*, share: bool) -> tuple[Printed, ...]:
    return tuple(one for one in _everything(share=share) if one.installs)


@pytest.fixture(params=[pytest.param(True, id="a share"), pytest.param(False, id="all", marks=pytest.mark.heavy)])
def share(request: pytest.FixtureRequest) -> bool:
    """In CI a share of the cases, for a target with pip or for one without; by hand all for both."""
    return bool(request.param)


@pytest.fixture
def everything(share: bool) -> tuple[Printed, ...]:
    return _everything(share=share)


@pytest.fixture
def installs(share: bool) -> tuple[Printed, ...]:
    return _installs(share=share)


def called(one: Printed) -> str:
    return f"{one.recipe.id}: {one.command}"


def test_there_are_installs_to_look_at(installs: tuple[Printed, ...]) -> None:
    """For pip and for uv, from facts and from logs."""
    assert {word in one.command for one in installs for word in ("uv pip install",)} == {True, False}
    assert {one.from_log for one in installs} == {True, False}
    assert len({one.recipe.id for one in installs}) > 40


def unheld(one: Printed) -> bool:
    """Whether it may move torch although it does not name it."""
    if "torch.txt" in one.words:  # the pin of the torch that is there, for PowerShell
        return False
    if "--no-deps" in one.words or any(name_of(word) == "torch" for word in one.installs):
        return False
    return bool(one.from_log or one.facts.value("torch.version") or one.facts.value("package.torch.version"))


def test_torch_stays_unless_it_is_named(installs: tuple[Printed, ...]) -> None:
    """With --no-deps, or with torch pinned to the installed version."""
    assert [called(one) for one in installs if unheld(one)] == []


def test_a_command_that_moves_torch_says_so(installs: tuple[Printed, ...]) -> None:
    """In the title of its remedy, or in why it is not safe."""
    moving = [one for one in installs if any(name_of(word) == "torch" and not held(one, word) for word in one.installs)]

    assert moving
    assert [called(one) for one in moving if "torch" not in one.remedy.title + one.remedy.why_this_safety] == []


def held(one: Printed, word: str) -> bool:
    version = one.facts.text("package.torch.version")
    asked = word.startswith("torch==$(") and "--force-reinstall" not in one.words  # the shell asks torch itself
    return word == f"torch=={version}" if version else asked


def test_a_remedy_installs_what_it_speaks_of(installs: tuple[Printed, ...]) -> None:
    """One for A never installs B without a word."""
    wrong = []
    for one in installs:
        texts = [each.action.advice for each in one.remedy.actions]
        said = " ".join([one.finding.title, one.finding.what, one.remedy.title, one.remedy.why_this_safety, *texts])
        said += " ".join(one.finding.subjects)
        said += said.replace("CUDA ", "cu")  # the CUDA 12 runtime is nvidia-cuda-runtime-cu12
        for name in {name_of(word) for word in one.installs if re.match(r"[A-Za-z]", word)} - {"torch", *COMPANIONS}:
            parts = [part for part in re.split(r"[-_]", name) if len(part) > 2]
            parts = [part for part in parts if part != "cumajor"]
            if not PLACEHOLDERS.search(name.upper()) and not all(part in said.lower() for part in parts):
                wrong.append(f"{called(one)}: {name}")

    assert wrong == []


def test_no_word_is_left_to_fill_in(everything: tuple[Printed, ...]) -> None:
    """A command with a hole in it is none: it is not printed as one."""
    assert [called(one) for one in everything if PLACEHOLDERS.search(one.command)] == []


def test_what_no_command_holds(everything: tuple[Printed, ...]) -> None:
    """`auto` asks the machine at hand, which need not be the one that the answer is for."""
    for text in ("cuXYZ", "WHEEL_URL", "--torch-backend auto"):
        assert [called(one) for one in everything if text in one.command] == []
