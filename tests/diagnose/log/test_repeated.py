"""Looking lines up finds what searching them finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from attn_doctor.diagnose.log.prefilter import Prefilter, any_of
from attn_doctor.diagnose.log.repeated import _FEW, _MOST, _NEW, _TRIALS, Repeated

LITERALS = ("error 34", "CUDA error", "sm_90 is not", "bf16 and fp32", "nan loss", "loss: 0.0")
#: Kinds of lines: with no literal, with one, with one but for its number, with both.
KINDS = (
    "step {} loss {}", "error {}", "CUDA error {}", "sm_{} is not built", "bf{} and fp{}", "loss: 0.{}", "loss: {}.0",
    "nan", "loss of {}", "x error {} CUDA error {}", "",
)  # fmt: skip
NUMBERS = st.sampled_from(["0", "1", "16", "32", "34", "90", "120"])
LINES = st.tuples(st.sampled_from(KINDS), NUMBERS, NUMBERS).map(lambda of: of[0].format(of[1], of[2]))


@settings(max_examples=20)
@given(st.lists(st.lists(LINES, min_size=1, max_size=8), min_size=1, max_size=3))
def test_no_line_is_missed(parts: list[list[str]]) -> None:
    """Each line with a literal is found, however often its like was seen, and none of those that go on and on."""
    repeated = Repeated(Prefilter(LITERALS))
    for part in parts:
        steps = [f"epoch {step} of 1000" for step in range(max(_FEW, _NEW * (len(part) + 1)))]
        lines = [*steps, *part]
        found = [*repeated.rows(lines)]

        assert found == sorted(found)
        assert {row for row, line in enumerate(lines) if any_of(LITERALS).search(line)} <= set(found)
        assert all(row >= len(steps) for row in found)
        assert repeated._left == _TRIALS


def test_a_literal_over_two_lines() -> None:
    """As a terminal breaks it, of which the first line was printed before."""
    steps = [f"step {step}" for step in range(_FEW)]
    lines = [*steps, "nan", *steps, "nan", "loss is", *steps]

    assert [*Repeated(Prefilter(LITERALS)).rows(lines)] == [2 * len(steps) + 1]


def test_lines_that_do_not_repeat_are_searched() -> None:
    lines = [f"{chr(97 + step % 26)}{'x' * (step // 26)} error 34" for step in range(_FEW)]
    repeated = Repeated(Prefilter(LITERALS))

    for _ in range(5):
        assert [*repeated.rows(lines)] == [*range(_FEW)]
    assert not repeated._quiet
    assert not repeated._loud
    assert not repeated._left


def test_what_is_kept_is_bounded() -> None:
    repeated = Repeated(Prefilter(LITERALS))
    repeated._quiet = {str(number).encode() for number in range(_MOST)}

    assert [*repeated.rows(["step 1"] * _FEW + ["error 34"])] == [_FEW]
    assert len(repeated._quiet) == _MOST
