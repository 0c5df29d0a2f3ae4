"""Finds the facts with messages of compilers, interpreters or libraries; imports little, since most examinations have
none.
"""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.model.facts import Fact, FactSet, Known
from attn_doctor.model.kinds import kind_of


def words_among(facts: FactSet) -> Iterator[tuple[Fact, str]]:
    """Those facts, each with its message."""
    for fact in facts.values():
        words = kind_of(fact.name.kind).words
        if words and fact.name.attribute == words and isinstance(fact.state, Known):
            yield fact, str(fact.state.value)
