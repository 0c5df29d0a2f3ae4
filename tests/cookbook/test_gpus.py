"""GPUs by name: as people write them, and what is said of a name that is none."""

from __future__ import annotations

import pytest

from attn_doctor.cookbook.gpus import named_gpu
from attn_doctor.errors import BadInput


@pytest.mark.parametrize("name", ["sm_90", "sm90", "SM_90a", "compute_90", "9.0", "h100", "NVIDIA H100 80GB HBM3"])
def test_one_compute_capability_by_many_names(name: str) -> None:
    """All of them are a GPU of 9.0."""
    assert named_gpu(name).compute_capability == "9.0"


@pytest.mark.parametrize(
    ("name", "says", "not_said"),
    [
        ("mi300x", "no other maker's", "b300"),
        ("Instinct MI250X", "no other maker's", "Did you mean"),
        ("gfx942", "no other maker's", "Did you mean"),
        ("gtx1080", "such as h100", "rtx5080"),
        ("90", "sm_90", "5090"),
        ("h10", "Did you mean h100", "other maker"),
        ("rtx490", "Did you mean", "other maker"),
    ],
)
def test_a_name_that_is_none(name: str, says: str, not_said: str) -> None:
    """Near names are proposed, another maker's or another decade's are not."""
    with pytest.raises(BadInput) as refused:
        named_gpu(name)

    assert says in refused.value.hint
    assert not_said not in refused.value.hint
