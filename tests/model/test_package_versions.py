"""Plain specifiers are answered as packaging answers them, and the others by packaging."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from attn_doctor.model import package_versions
from attn_doctor.model.package_versions import accepts, canonical_name, is_release, named_versions

RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))
TAILS = st.sampled_from(["", "", "", "+cu128", "+git.1", "a0", "rc1", ".post1", ".dev3", "a0+nv25.1"])
CLAUSES = st.tuples(
    st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "~=", "==="]), RELEASES, st.sampled_from(["", "", ".*", "rc1"])
).map("".join)


@given(clauses=st.lists(CLAUSES, max_size=3), release=RELEASES, tail=TAILS)
def test_accepts_what_packaging_accepts(clauses: list[str], release: str, tail: str) -> None:
    """And raises what it raises."""
    specifier, version = ",".join(clauses), release + tail
    try:
        expected = SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except ValueError:
        with pytest.raises(ValueError):
            accepts(specifier, version)
    else:
        assert accepts(specifier, version) == expected


@pytest.mark.parametrize("specifier", [">=2.4", "==2.13.0", "<3,>=1.26", "==2.*", "!=2.1.*,>=2"])
@pytest.mark.parametrize("version", ["2.13.0+cu130", "1.26", "2.4.0"])
def test_the_usual_ones_need_no_packaging(specifier: str, version: str) -> None:
    """Otherwise every start would import it."""
    assert package_versions._plainly_accepts(specifier, version) is not None


@given(clause=CLAUSES)
def test_what_is_spelled_as_packaging_spells_it(clause: str) -> None:
    """Reports show it so."""
    if is_release(clause):
        assert str(SpecifierSet(clause)) == clause


@given(clauses=st.lists(CLAUSES, min_size=1, max_size=3, unique=True))
def test_named_versions(clauses: list[str]) -> None:
    """As packaging finds them, in any order."""
    try:
        expected = sorted(one.version for one in SpecifierSet(",".join(clauses)) if one.operator in ("==", "==="))
    except ValueError:
        with pytest.raises(ValueError):
            named_versions(",".join(clauses))
    else:
        assert sorted(named_versions(",".join(clauses))) == expected


@given(name=st.text(st.sampled_from("aB1-_."), min_size=1))
def test_names(name: str) -> None:
    """Case, and what stands between words."""
    assert canonical_name(name) == canonicalize_name(name)
