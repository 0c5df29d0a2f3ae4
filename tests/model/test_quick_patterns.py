"""Expressions that wait for their first use are valid, and behave as compiled ones."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import attn_doctor
from attn_doctor.quick_patterns import _Waiting, when_used


def _modules() -> list[str]:
    found = pkgutil.walk_packages(attn_doctor.__path__, "attn_doctor.")
    return [one.name for one in found if one.name.startswith(("attn_doctor.diagnose", "attn_doctor.report"))]


@pytest.mark.parametrize("name", _modules())
def test_every_expression_that_waits_is_valid(name: str) -> None:
    """The one check that `re.compile` made when the module was loaded."""
    for value in vars(importlib.import_module(name)).values():
        every = value if isinstance(value, (tuple, list)) else value.values() if isinstance(value, dict) else (value,)
        for one in every:
            if isinstance(one, _Waiting):
                assert re.compile(one.pattern, one._given)


def test_it_behaves_as_the_compiled_one() -> None:
    waiting = when_used(r"(?P<word>[a-z]+)", re.IGNORECASE)
    found = waiting.search("12 Blank")

    assert found is not None
    assert found["word"] == "Blank"
    assert waiting.sub("-", "a1B") == "-1-"
    assert waiting.pattern == r"(?P<word>[a-z]+)"
    assert waiting.flags == re.compile("x", re.IGNORECASE).flags
    assert waiting.groupindex == {"word": 1}


def test_an_invalid_one_raises_at_its_first_use() -> None:
    waiting = when_used("(")

    with pytest.raises(re.error):
        waiting.search("x")
