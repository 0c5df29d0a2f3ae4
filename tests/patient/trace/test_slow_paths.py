"""A library's notice that it runs torch operations in the place of a kernel is heard, whoever silenced it."""

import logging

import pytest

from attn_doctor.patient.trace.run import slow_paths

NOW = (
    "`chunk_gated_delta_rule` is falling back to its reference PyTorch implementation because `flash-linear-attention` "
    "is not installed. This is correct but much slower; install `flash-linear-attention` for the optimized kernel."
)
THEN = (
    "The fast path is not available because one of the required library is not installed. Falling back to torch "
    "implementation. To install follow https://github.com/fla-org/flash-linear-attention#installation and "
    "https://github.com/Dao-AILab/causal-conv1d"
)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (NOW, ["chunk_gated_delta_rule: flash-linear-attention"]),
        (THEN, ["fast path: causal-conv1d", "fast path: flash-linear-attention"]),
        ("The path to the checkpoint is not available because the disk is full", []),
        ("Some weights were not used when initializing the model", []),
    ],
)
def test_what_is_said(message, found):
    assert slow_paths.told(message) == found


def test_a_silenced_logger_is_heard_and_stays_silent():
    records = []
    logger = logging.getLogger("transformers.models.example")
    logger.addFilter(records.append)
    logger.setLevel(logging.CRITICAL)
    before = logging.Logger.warning
    with slow_paths.heard() as found:
        for _ in range(3):
            logger.warning(NOW)

    assert found == ["chunk_gated_delta_rule: flash-linear-attention"]
    assert records == []
    assert logging.Logger.warning is before
