"""SDPA in float32 where the model is half: told with the call that widened, and not where somebody wrote it."""

from pathlib import Path

import pytest

from tests.patient.trace import widened_models

FILE = Path(widened_models.__file__)


@pytest.mark.parametrize(
    ("entry", "promotions"),
    [
        ("magnitude", [(["q", "k", "v"], "mixed operands")]),
        ("gate", [(["q", "k"], "explicit cast"), (["v"], "mixed operands")]),
        ("written", []),
        ("float32", []),
    ],
)
def test_what_widened_all_three(traced, entry, promotions):
    result = traced(entry, file=FILE)

    assert result["verdict"] == "clean"
    assert [(one["roles"], one["kind"]) for one in result["promotions"]] == promotions


def test_autocast_casts_back(traced):
    result = traced("written", file=FILE, autocast="bfloat16")

    assert result["verdict"] == "promoted then repaired"
