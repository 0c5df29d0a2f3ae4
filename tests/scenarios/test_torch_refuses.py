"""What the torch that is installed really says to calls of attention that it refuses, explained right.

All are made on the CPU, in one process: torch is imported once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor.workflows.explain import ExplainRequest, explain
from tests.conftest import clean_environment, needs_torch

HEADS = "q = torch.randn(1, {}, 8, 16); k = torch.randn(1, {}, 8, 16)"
FLEX = "from torch.nn.attention.flex_attention import create_block_mask, flex_attention"
MULTIHEAD = "attend = torch.nn.MultiheadAttention(64, 4, batch_first=True); x = torch.randn(2, 5, 64)"

#: What is called, and what is told of it first.
REFUSED = {
    "fewer key heads": (
        (HEADS.format(8, 2), "torch.nn.functional.scaled_dot_product_attention(q, k, k)"),
        "operands-do-not-fit",
    ),
    "key heads that do not divide": (
        (HEADS.format(8, 3), "torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)"),
        "heads-do-not-divide",
    ),
    "a mask of another length": (
        (HEADS.format(4, 4), "torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=torch.zeros(8, 9))"),
        "attention-mask-refused",
    ),
    "a mask of whole numbers": (
        (
            HEADS.format(4, 4),
            "mask = torch.ones(8, 8, dtype=torch.int32)",
            "torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)",
        ),
        "attn-mask-dtype",
    ),
    "one backend, which the CPU has not": (
        (
            "from torch.nn.attention import SDPBackend, sdpa_kernel",
            HEADS.format(4, 4),
            "with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):",
            "    torch.nn.functional.scaled_dot_product_attention(q, k, k)",
        ),
        "sdpa-no-backend",
    ),
    "a padding mask of another length": (
        (MULTIHEAD, "attend(x, x, x, key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))"),
        "mha-shapes",
    ),
    "a padding mask of whole numbers": (
        (MULTIHEAD, "attend(x, x, x, key_padding_mask=torch.zeros(2, 5, dtype=torch.int64))"),
        "attn-mask-dtype",
    ),
    "a block mask of another length": (
        (
            FLEX,
            "q = torch.randn(1, 2, 130, 16)",
            "mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, device='cpu')",
            "flex_attention(q, q, q, block_mask=mask)",
        ),
        "block-mask-of-other-length",
    ),
    "the Mac's GPU on another system": (
        ("torch.randn(4, 4, device='mps')",),
        "mps-operation-missing",
    ),
}

#: Runs each as a file, so that its traceback has lines of it.
RUN = """
import json, pathlib, sys, traceback, torch
told = {}
for name, lines in json.loads(pathlib.Path("calls.json").read_text()).items():
    file = pathlib.Path(f"{len(told)}.py")
    file.write_text("\\n".join(lines))
    try:
        exec(compile(file.read_text(), str(file.resolve()), "exec"), {"torch": torch})
    except Exception:
        told[name] = traceback.format_exc()
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("calls")
    (folder / "calls.json").write_text(json.dumps({name: lines for name, (lines, _) in REFUSED.items()}))
    run = subprocess.run(
        [sys.executable, "-c", RUN],
        capture_output=True, text=True, cwd=folder, timeout=180, env=clean_environment(), check=True,
    )  # fmt: skip
    return dict(json.loads(run.stdout.splitlines()[-1]))


@needs_torch
@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused_is_told_first(told: dict[str, str], call: str) -> None:
    if call.startswith("the Mac") and sys.platform == "darwin":
        pytest.skip("this system may have it")
    findings = explain(ExplainRequest(texts=(told[call],))).diagnosis.findings

    assert findings[0].id == REFUSED[call][1]
