"""A dtype is spelled alike for every command."""

from __future__ import annotations

import pytest

from tests.conftest import Doctor


@pytest.mark.parametrize(("word", "taken"), [("fp32", True), ("bf16", True), ("fp64", False)])
def test_autocast_of_fix(doctor: Doctor, word: str, taken: bool) -> None:
    """`fix --trace X` takes the dtypes that `trace X` takes; what X is here, no factory, is told after that."""
    run = doctor("fix", "--dry-run", "--trace", "nothing-there", "--autocast", word)

    assert run.status == 2
    assert ("is no dtype" in run.stderr) is not taken
    assert ("factory" in run.stderr) is taken
