"""Which remedies are left where torch is for another maker's GPU."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.possible import is_possible
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Safety
from attn_doctor.model.remedies import Advise, InstallPackages
from attn_doctor.quick_dataclasses import replace
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


@pytest.mark.parametrize(
    ("title", "command", "gpu", "there"),
    [
        ("Install flash-attn", "python -m pip install flash-attn", "7.5", False),
        ("Install flash-attn", "python -m pip install flash-attn", "8.6", True),
        ("Install flash-attn 1", "python -m pip install 'flash-attn<2'", "7.5", True),  # which served Turing
        ("Install peft", "python -m pip install peft", "7.5", True),
        ("Set attention to FlashAttention-2 where packing is on", "", "7.0", False),
        ('Use FlashAttention-2, or attn_implementation="sdpa"', "", "7.0", True),
        ("Without FlashAttention: switch packing off", "", "7.5", True),
    ],
)
def test_a_package_is_offered_to_gpus_that_it_is_for(title: str, command: str, gpu: str, there: bool) -> None:
    told_gpu = FactSet(
        [Fact(name=FactName("gpu", "0", "compute_capability"), state=Known(gpu), how="line 1", origin=Origin.DERIVED)]
    )
    action = Advise(text="", commands=(command,) if command else ())
    one = replace(remedy(title), actions=(action,))
    assert possible(one, told_gpu) is there


@pytest.mark.parametrize(
    ("device", "command", "there"),
    [
        ("ZLUDA", "python -m pip install torch --index-url https://download.pytorch.org/whl/rocm6.4", False),
        ("AMD", "python -m pip install torch --index-url https://download.pytorch.org/whl/rocm6.4", True),
        ("Gaudi", "nvidia-smi", False),
        ("NVIDIA", "nvidia-smi", True),
    ],
)
def test_what_runs_cuda_or_none_of_it_takes_no_other_makers_torch(device: str, command: str, there: bool) -> None:
    one = replace(remedy("Do it"), actions=(Advise(text="", commands=(command,)),))
    assert possible(one, told(log__device=device)) is there
