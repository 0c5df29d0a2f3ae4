"""The stand-in for flash_attn answers as flash_attn itself answered on a GPU."""

import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "flash_attn_answers.json").read_text())


@pytest.fixture(scope="module")
def answered(traced, tmp_path_factory):
    file = tmp_path_factory.mktemp("flash_attn") / "answers.json"
    answer = traced(
        "every_call",
        file=HERE / "flash_attn_calls.py",
        stand_ins=["flash_attn"],
        counterfactual=False,
        answers_file=str(file),
    )
    assert answer["error"] is None
    return json.loads(file.read_text())


def test_every_call_was_made(answered):
    """The table and what was recorded are about the same calls."""
    assert set(answered) == set(RECORDED["answers"])


@pytest.mark.parametrize("name", sorted(RECORDED["answers"]))
def test_as_the_kernel(answered, name):
    """The same refusal in the same words, or a result of the same shape and dtype."""
    # flash_attn 2.8.3 with torch 2.11.0 on compute capability 9.0.
    assert answered[name] == RECORDED["answers"][name]
