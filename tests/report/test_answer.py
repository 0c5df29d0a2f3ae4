"""The answer of `explain` on one screen: what is shortened ends where a sentence or a clause does."""

from __future__ import annotations

import io

import pytest

from attn_doctor.model.findings import Finding, Location, Remedy, Safety, Severity
from attn_doctor.model.remedies import Advise, ProposedAction
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report.terminal.answer import answer, hidden
from attn_doctor.report.terminal.console import ReportConsole

SO = "/opt/conda/envs/a_rather_long_name/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
WHY = "The first sentence is short. The second one is longer than what is left of its line, so it does not fit, " * 2
REMEDY = Remedy(
    id="one",
    title="Do this",
    safety=Safety.UNSAFE,
    why_this_safety="Packages change. Nothing else does.",
    actions=(ProposedAction(action=Advise(text="Type 1.5 e.g. here. And then wait for a while.")),),
)
FINDING = Finding(
    id="some-recipe",
    severity=Severity.ERROR,
    title="Something is wrong",
    why=WHY,
    locations=(Location(file="a.log", line=3, note=f"ImportError: {SO}: undefined symbol: _Zabc"),),
    remedies=(REMEDY,),
)


def shown(finding: Finding, *, room: int) -> list[str]:
    stream = io.StringIO()
    console = ReportConsole(stream)
    console.width = 80
    answer([finding], console, room=room)
    return stream.getvalue().splitlines()


def labelled(lines: list[str], label: str) -> str:
    return next(line for line in lines if line.startswith(f"  {label}"))


def test_a_reason_ends_with_a_sentence() -> None:
    assert labelled(shown(FINDING, room=9), "why").endswith("The first sentence is short.")


def test_one_long_sentence_ends_with_a_clause() -> None:
    long = replace(FINDING, why="One sentence that goes on and on over the half of its line, and after that " * 3)
    assert labelled(shown(long, room=9), "why").endswith("line …")


def test_what_to_do_comes_before_the_reason() -> None:
    lines = shown(FINDING, room=7)
    assert any("And then wait for a while." in line for line in lines)
    assert not any(line.startswith("  why") for line in lines)


def test_a_full_stop_within_a_name_ends_nothing() -> None:
    text = "\n".join(shown(FINDING, room=30))
    assert "Type 1.5 e.g. here. And then wait for a while." in text


def test_what_is_unsafe_says_why() -> None:
    assert labelled(shown(FINDING, room=30), "unsafe") == "  unsafe  Packages change."


def test_the_log_s_line_is_not_left_empty_by_a_long_path() -> None:
    first = labelled(shown(FINDING, room=30), "line 3")
    assert "/opt/conda" in first
    assert len(first) <= 80


@pytest.mark.parametrize(("remedies", "words"), [(1, ""), (2, "1 more fix, "), (3, "2 more fixes, ")])
def test_what_is_left_out_is_counted(remedies: int, words: str) -> None:
    many = replace(FINDING, remedies=(REMEDY,) * remedies)
    assert hidden([many]) == f"-v shows: {words}reason, effects, sources."


def test_the_second_way_is_named() -> None:
    """Whom the first does not fit sees that there is another, in one line where there is no room for more."""
    second = replace(REMEDY, title="Take the release before, which " + "goes on and on and " * 8)
    two = replace(FINDING, remedies=(REMEDY, second, replace(REMEDY, title="A third")))
    lines = shown(two, room=9)
    assert labelled(lines, "else").startswith("  else    Take the release before")
    assert len(lines) <= 9
    assert not any("A third" in line for line in lines)
    assert not any(line.startswith("  else") for line in shown(FINDING, room=30))


@pytest.mark.parametrize(("safety", "label"), [(Safety.DISPLAY_ONLY, "check"), (Safety.UNSAFE, "fix")])
def test_a_step_that_facts_chose_is_no_check(safety: Safety, label: str) -> None:
    steps = (replace(REMEDY, safety=safety), replace(REMEDY, title="Look there", safety=Safety.DISPLAY_ONLY))
    lines = shown(replace(FINDING, family="limit", remedies=steps), room=30)
    assert labelled(lines, label).endswith("Do this")
    assert labelled(lines, "check").endswith("Do this" if label == "check" else "Look there")
