"""The index finds every literal that stands in a text, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.literal_index import LiteralIndex

TEXTS = st.text("abC 12", min_size=1, max_size=12)


@given(
    literals=st.lists(TEXTS, min_size=1, max_size=9, unique=True),
    texts=st.lists(st.text("abC 12", max_size=40), min_size=1, max_size=4),
)
def test_it_finds_what_a_search_for_each_finds(literals: list[str], texts: list[str]) -> None:
    """Also in a text that another one was before it, but for its digits."""
    index = LiteralIndex({literal: (number,) for number, literal in enumerate(literals)})

    for text in (*texts, *(one.replace("1", "") for one in texts), *(one.replace("2", "1") for one in texts)):
        assert set(index.standing(text)) == {number for number, one in enumerate(literals) if one in text}


def test_a_literal_of_several_patterns() -> None:
    index = LiteralIndex({"undefined symbol": (3, 5), "": (7,)})

    assert set(index.standing("x.so: undefined symbol: y")) == {3, 5, 7}
