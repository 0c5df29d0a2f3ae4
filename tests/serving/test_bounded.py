"""An answer to an agent fits, says what is missing, and keeps what it keeps as it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.machine.own_command import typed
from attn_doctor.serving.bounded import LARGEST, bounded

_PLAIN = st.none() | st.integers() | st.text(max_size=20) | st.integers(0, 30_000).map(lambda long: "x" * long)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=8,
)
_MANY = st.builds(lambda one, many: [one] * many, _VALUES, st.integers(0, 500)) | st.builds(
    lambda one, many: {str(key): one for key in range(many)}, _PLAIN, st.integers(0, 500)
)


@given(st.dictionaries(st.text(max_size=8), _VALUES | _MANY, max_size=6))
def test_it_fits(answer: dict[str, Any]) -> None:
    """Whatever a command wrote."""
    assert len(json.dumps(bounded(answer, ("check", "--json")), ensure_ascii=False)) <= LARGEST


def test_small_answers_stay() -> None:
    """Nothing is left out of what fits, and no word says so."""
    answer = {"schema": "s", "findings": [{"id": "a", "title": "b"}] * 30}

    assert bounded(answer, ("check",)) == answer


def test_facts_go_first_and_it_is_said() -> None:
    """The facts go, the findings stay whole, and the command that writes all is named."""
    answer = {"findings": [{"id": "a"}], "facts": {str(one): "x" for one in range(9)}}

    assert bounded(answer, ("check", "--json")) == {
        "findings": [{"id": "a"}],
        "left_out": {"of": ["facts"], "all": typed("check", "--json")},
    }


def test_long_lists_are_cut_from_their_end() -> None:
    """The worst finding is the first: it stays."""
    answer = {"findings": [{"id": str(one), "why": "y" * 900} for one in range(60)]}
    told = bounded(answer, ("check", "--json"))

    assert told["findings"][0] == answer["findings"][0]
    assert told["left_out"]["of"] == [f"findings: {len(told['findings'])} of 60"]
