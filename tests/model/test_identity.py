"""Names that go into file names and lines."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.model.identity import safe_name


@given(name=st.text(max_size=300))
def test_a_node_name_is_one_plain_word(name: str) -> None:
    """Whatever a node is called, its file stays in the folder and its line stays one."""
    safe = safe_name(name)

    assert safe.isascii()
    assert len(safe) <= 128
    assert PurePosixPath(safe).name == safe
    assert not safe.startswith((".", "-"))
    assert safe.split() == [safe]


@pytest.mark.parametrize("name", ["n17", "gpu-001.cluster.example", "N_1"])
def test_good_names_stay(name: str) -> None:
    """What needs no change has none."""
    assert safe_name(name) == name


@given(one=st.text(max_size=20), other=st.text(max_size=20))
def test_two_names_stay_two(one: str, other: str) -> None:
    """Hostile names do not overwrite each other's reports."""
    assert (safe_name(one) == safe_name(other)) == (one == other)
