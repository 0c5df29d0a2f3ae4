"""The index finds every literal that stands in a text, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.literal_index import LiteralIndex

TEXTS = st.text("abC ", min_size=1, max_size=12)


@given(literals=st.lists(TEXTS, min_size=1, max_size=9, unique=True), text=st.text("abC ", max_size=40))
def test_it_finds_what_a_search_for_each_finds(literals: list[str], text: str) -> None:
    index = LiteralIndex({literal: (number,) for number, literal in enumerate(literals)})

    assert set(index.standing(text)) == {number for number, one in enumerate(literals) if one in text}


def test_a_literal_of_several_patterns() -> None:
    index = LiteralIndex({"undefined symbol": (3, 5), "": (7,)})

    assert set(index.standing("x.so: undefined symbol: y")) == {3, 5, 7}
