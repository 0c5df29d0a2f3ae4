"""JSON without the module `json` is the same JSON."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.patient import quick_json

TEXTS = st.text(st.characters(codec="utf-16", exclude_categories=())) | st.sampled_from(["\udce9", "😀", '"\\'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(value=VALUES)
def test_the_same_both_ways(value: object) -> None:
    """Every value, paths that are no UTF-8 included."""
    assert quick_json.dumps(value) == json.dumps(value)
    assert quick_json.loads(f" {json.dumps(value)}\n") == value


@pytest.mark.parametrize("text", ["", "{", '{"a": tru', "[1] 2", "nothing", '"\n"'])
def test_what_is_no_json_is_refused(text: str) -> None:
    """As json refuses it."""
    with pytest.raises(ValueError):
        quick_json.loads(text)


def test_another_python_has_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is no JSON becomes its text."""
    for here in (True, False):
        if not here:
            monkeypatch.setitem(sys.modules, "_json", None)
        assert quick_json.dumps({"a": complex(1, 2)}) == '{"a": "(1+2j)"}'
        assert quick_json.loads('{"a": [1.5, null, "é"]}') == {"a": [1.5, None, "é"]}
