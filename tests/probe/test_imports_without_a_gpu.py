"""An import that only wants a GPU tells nothing of its package on a node that has none."""

from __future__ import annotations

from typing import Any

import pytest

from attn_doctor.model.facts import FactSet, Known, Unknown
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.live.imports_and_torch import _as_on_a_gpu_node, _note_outcome

FAILED = {
    "outcome": "failed",
    "error_type": "RuntimeError",
    "error": "0 active drivers ([]). There should only be one.",
}


def noted(with_a_gpu: dict[str, Any]) -> FactSet:
    notes = FactNotes()
    _note_outcome(notes, "fla", *_as_on_a_gpu_node("fla", {**FAILED, "with_a_gpu": with_a_gpu}, "import fla"))
    return FactSet(notes.facts())


def test_one_that_comes_to_its_end_with_a_gpu() -> None:
    """It is imported, and how that was seen is told."""
    outcome = noted({"outcome": "imported", "version": "0.5.0"}).fact("import.fla.outcome")

    assert outcome.state == Known("imported")
    assert "simulated" in outcome.how
    assert "0 active drivers" in outcome.how


@pytest.mark.parametrize(
    "with_a_gpu",
    [dict(FAILED), {"outcome": "failed", "error": "TypeError: x"}, {"outcome": "hung"}, {"outcome": "unasked"}],
)
def test_one_that_does_not_is_an_open_question(with_a_gpu: dict[str, Any]) -> None:
    """What the simulation could not show a node with a GPU shows; it is no failure."""
    found = noted(with_a_gpu)
    state = found.fact("import.fla.outcome").state

    assert isinstance(state, Unknown)
    assert "this node has none" in state.reason
    assert found.value("import.fla.error") is None


def test_what_a_gpu_does_not_mend_is_a_failure() -> None:
    """A module that is missing is missing there too."""
    simulated = {"outcome": "failed", "error": "No module named 'einops'", "missing_module": "einops"}

    assert noted(simulated).fact("import.fla.outcome").state == Known("failed")
