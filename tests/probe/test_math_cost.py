"""When SDPA's math fallback is a finding, and when it costs next to nothing."""

import pytest

from attn_doctor.model.trace import MathCost


@pytest.mark.parametrize(
    ("lengths", "scores", "operands", "says"),
    [
        ((1024, 1024), 64 << 20, 8 << 20, ""),
        ((1, 65536), 64 << 20, 8 << 20, "decoding"),
        ((32, 32), 64 << 10, 8 << 10, "small"),
        ((64, 64), 4 << 20, 8 << 20, "no more than q, k, v"),
        ((256, 256), 2 << 20, 1 << 20, ""),
    ],
)
def test_who_need_not_mind(lengths, scores, operands, says):
    cost = MathCost(q_length=lengths[0], k_length=lengths[1], score_bytes=scores, operand_bytes=operands, ways=())

    assert says in cost.why_small
    assert bool(cost.why_small) == bool(says)
