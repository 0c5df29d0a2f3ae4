"""The prefilter never misses, and pattern literals are what patterns hold."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.prefilter import _FREQUENCY, Prefilter, _covering, _starts
from attn_doctor.recipes import shelf
from attn_doctor.recipes.literals import SHORTEST, required

WORDS = st.text("abcEFx _:.'", min_size=SHORTEST, max_size=12).map(str.strip).filter(lambda text: len(text) >= SHORTEST)


def hit(prefilter: Prefilter, text: str) -> bool:
    return any(True for _ in prefilter.rows(text))


@given(literals=st.lists(WORDS, min_size=1, max_size=8), before=st.text("abEx ", max_size=9), data=st.data())
def test_never_misses(literals: list[str], before: str, data: st.DataObject) -> None:
    """A literal is found in any surrounding text."""
    literal = data.draw(st.sampled_from(literals))

    assert hit(Prefilter(literals), before + literal + before)


@given(literals=st.lists(WORDS, min_size=1, max_size=8), sample=st.text("abEcx :'\n", max_size=99), data=st.data())
def test_fitted_to_a_log_it_never_misses(literals: list[str], sample: str, data: st.DataObject) -> None:
    """Nor where the log is full of a literal's end."""
    literal = data.draw(st.sampled_from(literals))

    assert hit(Prefilter(literals).fitted(sample), f"{sample}\n{literal}\n{sample}")


def test_a_word_of_each_line_is_no_hit() -> None:
    """`loss` is all that is left of `NAN loss` from its cheapest character on; each line of a training log has it."""
    line = "2026-11-24 10:00:00 INFO trainer step 17 loss=0.1234 lr=1e-5 grad_norm=0.123 tokens/s=1234\n"
    needles = ["NAN loss", "lost"]

    assert hit(Prefilter(needles), line)
    assert not hit(Prefilter(needles).fitted(line * 200), line)


@given(literals=st.lists(WORDS, min_size=1, max_size=5), text=st.text("012 \n", max_size=40))
def test_passes_over_the_rest(literals: list[str], text: str) -> None:
    """Text without any of their characters is not hit."""
    assert not hit(Prefilter(literals), text)


@given(st.lists(st.text("aetTXyz (", min_size=5).filter(str.strip), min_size=1, max_size=12))
def test_no_character_is_looked_at_in_vain(literals: list[str]) -> None:
    """The scan stops at each of them in the whole log."""
    every = [frozenset(one[: max(1, len(one) - 3)].replace(" ", "") or one.strip()[:1]) for one in literals]
    chosen = _covering(every, set())
    assert all(chosen & one for one in every)
    assert not any(all(chosen - {one} & characters for characters in every) for one in chosen)


def test_a_dear_character_is_exchanged_for_cheaper_ones() -> None:
    # "e" alone covers all, and stands in each second word.
    assert sum(_FREQUENCY.get(one, 1) for one in _starts(["eX", "eY", "eJ"])) < _FREQUENCY["e"]


def test_a_blank_stands_for_a_line_end() -> None:
    """Words may have come apart."""
    assert hit(Prefilter(["Ampere GPUs or newer"]), "only supports Ampere GPUs\n   or newer.")


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("FlashAttention only", {"FlashAttention only"}),
        (r"undefined symbol: \S*SetDevice", {"undefined symbol:"}),
        ("(?:alpha|beta gamma)x", {"alpha", "beta gamma"}),
        ("(?:alpha)?beta", {"beta"}),
        (r"ab\d+cd", set()),
        ("(?:alpha|x)", set()),
        ("(?i)alpha", set()),
        ("(?:word)+", {"word"}),
        ("(?:word)*", set()),
        ("needle(?=s)", {"needle"}),
        ("[Ff]lash[ -]attn", {"Flash attn", "flash attn", "Flash-attn", "flash-attn"}),
        ("[Ff][Ll][Aa][Ss]hes", set()),  # more spellings than are written out, and "hes" is short
        ("[^F]lash", {"lash"}),
        ("[A-F]lash", {"lash"}),
        (r"depends\s+on \s+torch", {"depends on torch"}),
    ],
)
def test_required(pattern: str, literals: set[str]) -> None:
    """Only what every match holds."""
    assert required(pattern) == literals


def test_required_of_the_shelf() -> None:
    """Every text that a recipe's pattern matches in its own cases holds one of its literals."""
    tried = 0
    for recipe in shelf.bundled():
        for known in recipe.logs:
            for case in recipe.cases:
                found = re.search(known.pattern, case.log or "", re.MULTILINE)
                if found:
                    tried += 1
                    flat = " ".join(found[0].split())
                    assert any(literal in flat for literal in required(known.pattern)), known.pattern
    assert tried > 100


def test_ordinary_lines_of_a_trainer_hold_nothing_that_is_looked_for() -> None:
    """Not even by the rest of a text, such as the `grad` of `aot_autograd`: each hit is an unit that is matched."""
    every = [*shelf.bundled(), *shelf.families()]
    looked = Prefilter(text for one in every for log in one.logs for text in required(log.pattern))
    lines = (
        "{'loss': 0.48, 'grad_norm': 0.03, 'learning_rate': 1e-05, 'epoch': 0.1}",
        "step=1 loss=0.84743 lr=1.0e-05",
        " 1%|#         | 1/100000 [1:12<99:59, 1.21s/it]",
        "step 12 | lm loss: 2.13 | grad norm: 0.31 | tokens per second: 51234",
    )

    assert [line for line in lines if hit(looked, line)] == []
