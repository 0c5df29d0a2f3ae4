"""The distribution that brings a missing module is one that metadata asks for."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.missing_modules import requirement_for
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State


def asked(**installed: str | None) -> FactSet:
    """Requirements of flash-attn-4, each `name="version that is there"`."""
    found: dict[str, State] = {}
    for name, version in installed.items():
        own = f"requirement.flash-attn-4.{name.replace('__', '.').replace('_', '-')}."
        found[own + "specifier"] = Known(">=1" if name != "einops" else "any")
        found[own + "installed"] = Known(version) if version else Absent("not installed")
    return FactSet(Fact(name=FactName.parse(name), state=state, how="a test") for name, state in found.items())


@pytest.mark.parametrize(
    ("missing", "facts", "wanted"),
    [
        ("cutlass", asked(nvidia_cutlass_dsl=None, torch="2.11.0"), "nvidia-cutlass-dsl>=1"),
        ("cutlass.cute", asked(nvidia_cutlass_dsl=None), "nvidia-cutlass-dsl>=1"),
        ("typing_extensions", asked(typing_extensions=None, einops=None), "typing-extensions>=1"),
        ("einops", asked(einops=None), "einops"),
        ("quack", asked(quack_kernels=None, nvidia_cutlass_dsl=None), "quack-kernels>=1"),
        ("cutlass", asked(nvidia_cutlass_dsl="4.8.1"), None),  # it is there: something else is wrong with it
        ("cuda", asked(cuda_python=None, cuda_toolkit=None), None),  # which of them, no name tells
        ("yaml", asked(pyyaml=None), None),
        ("mine", asked(), None),
    ],
)
def test_what_brings_it(missing: str, facts: FactSet, wanted: str | None) -> None:
    """By its whole name, or by a part of it that no other missing one has; else nothing is guessed."""
    assert requirement_for(facts, missing) == wanted
