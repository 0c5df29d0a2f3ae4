"""FlexAttention compiled for GPUs that are not there, by this torch and a real Triton; held against public reports."""

import pytest

pytest.importorskip("torch")

LOOK = """
import time
from _attn_doctor_patient.kernels import flex_kernels, plan
from _attn_doctor_patient.kernels.cells import Cell, Place
def look(capability, *calls):
    cells = [Cell("flex", dtype, head_dim, form, "train") for dtype, head_dim, form in calls]
    return flex_kernels.look(cells, gpu(capability), scratch, time.monotonic() + BUDGET)
"""


def of(found, kernel, head_dim):
    return next(k for k in found["kernels"] if kernel in k["kernel"] and f"head dim {head_dim}," in k["call"])


@pytest.mark.heavy
@pytest.mark.triton
def test_a_reported_failure_is_foreseen(triton, tmp_path):
    """On compute capability 12.0 the forward kernel of head dim 256 in bfloat16 fits and the backward one needs 114688
    bytes of 101376 (https://github.com/pytorch/pytorch/issues/198224). What is advised compiles."""
    script = LOOK.replace("BUDGET", "400") + "answer(look('12.0', ('bfloat16', 256, 'causal')))"
    found = triton.run(tmp_path, script, timeout=450)

    assert found["error"] is None
    broken = [one for one in found["kernels"] if one["outcome"] != "compiles"]
    assert [(one["outcome"], one["required_bytes"], one["limit_bytes"]) for one in broken] == [
        ("exceeds shared memory", 114688, 101376)
    ]
    assert broken == [of(found, "attention_backward_1", 256)]
    assert "out of resource" in broken[0]["message"]
    assert of(found, "attention_0", 256)["outcome"] == "compiles"
    assert 0 < of(found, "attention_0", 256)["required_bytes"] <= 101376
    assert broken[0]["mended_by"].startswith("kernel_options={")


@pytest.mark.triton
def test_nothing_is_said_of_what_was_not_reached(triton, tmp_path):
    """Without time no kernel compiles, and the reason is told."""
    script = LOOK.replace("BUDGET", "-1") + "answer(look('9.0', ('bfloat16', 64, 'causal')))"
    found = triton.run(tmp_path, script)

    assert found == {"error": "1 of 1 calls were not reached in time", "kernels": []}


@pytest.mark.triton
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("sys.modules['torch._inductor.compile_fx'] = None", "could not be brought to compile"),
        pytest.param(
            "import torch.nn.attention.flex_attention as m; del m._apply_kernel_options",
            "1 of 1 calls could not be looked",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            "import torch._inductor.kernel.flex.flex_attention as m; m.flex_attention_template = None",
            "1 of 1 calls could not be looked",
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_another_torch_is_no_verdict(triton, tmp_path, damage, told):
    """A torch whose inside is another one: nothing compiles and nothing fails to, and torch's words say why."""
    script = LOOK.replace("BUDGET", "100") + damage + "\nanswer(look('9.0', ('bfloat16', 64, 'causal')))"
    found = triton.run(tmp_path, script)

    assert found["kernels"] == []
    assert told in found["error"]
    assert "Error: " in found["error"]
