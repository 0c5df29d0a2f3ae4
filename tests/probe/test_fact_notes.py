"""What a probe writes down."""

from __future__ import annotations

from attn_doctor.model.facts import Known
from attn_doctor.model.outcomes import Outcome
from attn_doctor.probe.fact_notes import FactNotes


def test_a_word_of_an_enumeration_is_plain_text() -> None:
    """A recipe's `equals = "crashed"` compares text with text alone."""
    notes = FactNotes()
    notes.known("import.torch.outcome", Outcome.CRASHED, "imported")

    (fact,) = notes.facts()

    assert isinstance(fact.state, Known)
    assert type(fact.state.value) is str
