"""Which remedies are left where torch is for another maker's GPU."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.possible import is_possible
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Safety
from attn_doctor.model.remedies import InstallPackages
from attn_doctor.recipes.recipe import Condition, OneOf, Present, RecipeRemedy


def told(**facts: str) -> FactSet:
    return FactSet(
        Fact(name=FactName.parse(name.replace("__", ".")), state=Known(value), how="line 1", origin=Origin.DERIVED)
        for name, value in facts.items()
    )


def remedy(title: str, *when: Condition, backend: str | None = None) -> RecipeRemedy:
    install = InstallPackages(requirements=("torchvision",), torch_backend=backend)
    return RecipeRemedy(
        id="one",
        title=title,
        safety=Safety.UNSAFE,
        why_this_safety="",
        actions=(install,) if backend else (),
        when=when,
    )


def possible(one: RecipeRemedy, facts: FactSet) -> bool:
    return is_possible(one, facts, bind(facts, None, None))


AMD = told(log__made_for="AMD")
MAC = told(node__system="macOS")


def test_what_is_written_for_a_place_is_possible_there() -> None:
    text = "On the CPU: int8; the wheels are for NVIDIA's GPUs alone."
    of_amd = OneOf(fact=FactName.parse("log.made_for"), values=("AMD",))
    of_macs = OneOf(fact=FactName.parse("node.system"), values=("macOS",))

    assert not possible(remedy(text), AMD)
    assert possible(remedy(text, of_amd), AMD)
    assert possible(remedy(text, of_macs), MAC)
    assert not possible(remedy(text, of_amd), MAC)


def test_the_absence_of_a_maker_is_no_word_for_it() -> None:
    nobodys = Present(fact=FactName.parse("log.made_for"), present=False)
    assert not possible(remedy("Install NVIDIA's driver", nobodys), AMD)


@pytest.mark.parametrize(("build", "there"), [("rocm6.4", True), ("cu128", False), (None, False)])
def test_a_build_that_a_fact_names(build: str | None, there: bool) -> None:
    named = {} if build is None else {"package__torchvision__backend_for_torch": build}
    one = remedy("Install it from torch's index", backend="{package.torchvision.backend_for_torch}")
    assert possible(one, told(log__made_for="AMD", **named)) is there
