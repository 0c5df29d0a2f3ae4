"""The tracer's own tests, and the commands, on torches other than the one that runs the tests.

    ATTN_DOCTOR_TORCHES=/path/to/python:/path/to/other/python pytest -m other_torch

Each path is an interpreter whose environment holds a torch; it needs nothing else, and what else it holds
(transformers, x-transformers, flash-linear-attention) is sampled too. docs/testing.md says which were run, and when.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patient.trace import (
    test_boundaries,
    test_promotions,
    test_recorder,
    test_script,
    test_troubles,
    test_watch,
)
from tests.patient.trace.conftest import Tracer
from tests.patient.trace.test_script import program

PYTHONS = [one for one in os.environ.get("ATTN_DOCTOR_TORCHES", "").split(os.pathsep) if one]

pytestmark = pytest.mark.other_torch

__all__ = ["program"]

# The same tests, with the `traced` below in place of theirs.
for _module in (test_boundaries, test_promotions, test_recorder, test_script, test_troubles, test_watch):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_"):
            assert globals().setdefault(_name, _test) is _test, f"two tests are called {_name}"


def _version(python):
    found = subprocess.run(
        [python, "-c", "import sys, torch; print('torch', torch.__version__, 'python', *sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or f"{python}: no torch"


@pytest.fixture(scope="module", params=PYTHONS or ["none"])
def python(request):
    if request.param == "none":
        pytest.fail("ATTN_DOCTOR_TORCHES names no interpreter")
    print(_version(request.param))
    return request.param


@pytest.fixture(scope="module")
def traced(python):
    tracer = Tracer(python)
    yield tracer
    tracer.close()


def _doctor(python, *arguments, cwd):
    ended = subprocess.run(
        [sys.executable, "-m", "attn_doctor", *arguments, "--python", python, "--json"],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        timeout=600,
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


MODEL = """
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 8, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q * self.scale, k, v)


def build():
    model = Attention()
    model.qkv.half()
    return model.cuda(), (torch.randn(2, 8, 64, dtype=torch.float16, device="cuda"),)
"""

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize("rules", ["cpu", "fake"])
@pytest.mark.parametrize("backward", [[], ["--backward"]])
def test_trace_command(python, tmp_path, rules, backward):
    """`trace --python` names the line and the parameter, and which backend SDPA would take."""
    (tmp_path / "model.py").write_text(MODEL)
    status, report = _doctor(python, "trace", "model.py:build", "--rules", rules, *backward, cwd=tmp_path)
    (finding,) = [f for f in report["findings"] if f["id"] == "fp32-promoted-before-kernel"]

    assert status == 1
    assert (
        finding["locations"][0]["line"]
        == MODEL.splitlines().index("        return F.scaled_dot_product_attention(q * self.scale, k, v)") + 1
    )
    assert report["facts"]["promotion.0.operand"]["value"] == "parameter scale"


@pytest.mark.parametrize("backward", [[], ["--backward"]])
@pytest.mark.parametrize("attention", ["sdpa", "flash_attention_2", "eager"])
def test_trace_of_a_config(python, tmp_path, attention, backward):
    """A Llama from its config alone is traced by every attention that transformers offers."""
    if subprocess.run([python, "-c", "import transformers"], capture_output=True, check=False).returncode:
        pytest.skip("no transformers there")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    status, report = _doctor(python, "trace", "--hf", "config.json", "--attn", attention, *backward, cwd=tmp_path)
    calls = report["trace"]["attention"]

    assert (status, report["trace"]["error"]) == (0, None)
    assert [(c["verdict"], c["calls"]) for c in calls] == [("clean", 4)]
    assert calls[0]["written_out"] == (attention == "eager")


def test_check_command(python, tmp_path):
    """Every sample of every library that is there came to an answer, and the tracer failed on none."""
    _, report = _doctor(python, "check", "--timeout", "120", cwd=tmp_path)
    samples = {
        name: fact["value"] if fact["state"] == "known" else fact["reason"]
        for name, fact in report["facts"].items()
        if name.startswith("sample.") and name.endswith(".outcome")
    }
    print(json.dumps(samples, indent=1))

    assert samples
    assert {value for name, value in samples.items() if not name.startswith("sample.fla")} <= {"ran", "raised"}
