"""Facts that are put into commands: a shell reads each back as it is."""

from __future__ import annotations

import shlex

import pytest

from attn_doctor.diagnose.placeholders import command
from attn_doctor.model.facts import Fact, FactName, FactSet, Known


def facts(value: str) -> FactSet:
    return FactSet([Fact(name=FactName.parse("log.requirement"), state=Known(value), how="a test")])


@pytest.mark.parametrize("written", ["pip install {log.requirement}", "pip install '{log.requirement}'"])
@pytest.mark.parametrize("value", ["transformers>=4.58.0", "a<2,>=1", "it's", "plain"])
def test_a_value_is_one_word_whether_its_place_is_quoted_or_not(written: str, value: str) -> None:
    assert shlex.split(command(written, facts(value), {}, quote=True)) == ["pip", "install", value]


@pytest.mark.parametrize("value", ["a b", 'so "named"', "it's"])
def test_within_double_quotes(value: str) -> None:
    written = 'grep "it\'s {log.requirement}" log'

    assert shlex.split(command(written, facts(value), {}, quote=True)) == ["grep", f"it's {value}", "log"]


def test_behind_a_quote_that_is_closed() -> None:
    typed = command("echo 'it''s' \\' {log.requirement}", facts("a>1"), {}, quote=True)

    assert shlex.split(typed) == ["echo", "its", "'", "a>1"]
