"""What is not asked for is no open question."""

from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.vocabulary import TERMS
from attn_doctor.probe.not_examined import not_traced


def test_every_fact_of_a_traced_run_is_not_asked_for_without_one() -> None:
    facts = FactSet(not_traced())
    names = [term.name for term in TERMS if term.name.startswith("trace.")]
    states = {name: facts.fact(name).state for name in names}

    assert names
    assert {name for name, state in states.items() if not isinstance(state, Unknown) or state.asked} == set()
