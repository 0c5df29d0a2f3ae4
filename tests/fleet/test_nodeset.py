"""Node names folded and unfolded."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.errors import BadInput
from attn_doctor.fleet import nodeset
from attn_doctor.fleet.nodeset import fold, unfold

HAS_LIBRARY = importlib.util.find_spec("ClusterShell") is not None


@pytest.fixture(
    params=[
        "ours",
        pytest.param("ClusterShell", marks=pytest.mark.skipif(not HAS_LIBRARY, reason="ClusterShell is not installed")),
    ]
)
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the library and without it."""
    if request.param == "ours":
        monkeypatch.setattr(nodeset, "_library", lambda: None)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["login"], "login"),
        (["n3", "n1", "n2", "n1"], "n[1-3]"),
        (["gpu001", "gpu002", "gpu130"], "gpu[001-002,130]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n098", "n099", "n100"], "n[098-100]"),
        (["a1", "b1"], "a1,b1"),
        (["n1.cluster", "n2.cluster"], "n[1-2].cluster"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    ],
)
def test_folded_as_clusters_write_it(names: list[str], folded: str) -> None:
    """The same with the library and without."""
    assert fold(names) == folded
    assert sorted(unfold(folded, about="a test")) == sorted(set(names)) if folded else True


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[01-03,7],login1", ["n01", "n02", "n03", "n7", "login1"]),
        ("n1 n2,n3", ["n1", "n2", "n3"]),
        ("rack[1-2]n[1-2]", ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]),
        ("n[1-9/4]", ["n1", "n5", "n9"]),
    ],
)
def test_unfolded(text: str, names: list[str]) -> None:
    """Ranges, several brackets, steps."""
    assert sorted(unfold(text, about="a test")) == sorted(names)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("text", ["", "n[1-", "n]1[", "n[3-1]", "n[1-99999999]", "n[a-b]", "n[1-2", "-x", "n;rm"])
def test_what_is_no_set_of_nodes(text: str) -> None:
    """One clear message, at once."""
    with pytest.raises(BadInput, match="nodes"):
        unfold(text, about="a test")


_NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["n", "gpu", "a-b.", "10."]),
    st.one_of(st.integers(0, 1200).map(str), st.integers(0, 1200).map("{:04d}".format)),
    st.sampled_from(["", ".x", "-ib"]),
)


@given(st.sets(_NAMES, min_size=1, max_size=40))
def test_nothing_is_lost_or_added(names: set[str]) -> None:
    """Folding and unfolding by our own means gives the same names."""
    folded = nodeset._fold(sorted(names, key=nodeset._order))

    assert {name for part in nodeset._parts(folded, "") for name in nodeset._unfold(part, "")} == names
