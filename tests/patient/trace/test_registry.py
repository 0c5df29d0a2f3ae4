"""Released versions of libraries, judged by what they do. Nothing in the tracer knows any of them by number."""

import json
import os
import textwrap

import pytest

from tests.installed import SMALL, flash_linear_attention, installed
from tests.patient.trace.conftest import Tracer, culprit, operand

pytestmark = pytest.mark.registry

ROTARY = """
import torch
from x_transformers import Decoder, Encoder


def xpos():
    model = Decoder(dim=64, depth=2, heads=2, attn_flash=True, rotary_xpos=True).eval().to(torch.bfloat16).cuda()
    return model, (torch.randn(1, 16, 64, dtype=torch.bfloat16, device="cuda"),)


def float32_buffer():
    model = Encoder(dim=64, depth=2, heads=2, attn_flash=True, rotary_pos_emb=True).eval().to(torch.bfloat16)
    for name, buffer in model.named_buffers():
        if "inv_freq" in name:
            buffer.data = buffer.data.float()
    return model, (torch.randn(1, 16, 64, dtype=torch.bfloat16),)


def rotary():
    return Encoder(dim=64, depth=2, heads=2, attn_flash=True, rotary_pos_emb=True).eval(), (torch.randn(1, 16, 64),)
"""

RWKV = """
import inspect

import torch


def attention():
    from fla.layers.rwkv7 import RWKV7Attention

    options = dict(mode="chunk", hidden_size=128, head_dim=64, layer_idx=0)
    if "num_hidden_layers" in inspect.signature(RWKV7Attention.__init__).parameters:
        options["num_hidden_layers"] = 4
    return RWKV7Attention(**options).cuda(), (torch.randn(2, 64, 128, device="cuda"),)
"""


@pytest.fixture
def tracing(tmp_path):
    """Gives a function (source, folders) -> a tracer of that file with those packages on its path."""
    open_tracers = []

    def start(source, *folders):
        file = tmp_path / "models.py"
        file.write_text(textwrap.dedent(source))
        tracer = Tracer(path=folders)
        open_tracers.append(tracer)
        return lambda factory, **options: tracer(factory, file=file, **options)

    yield start
    for tracer in open_tracers:
        tracer.close()


@pytest.mark.parametrize(
    ("factory", "autocast", "verdict"),
    [
        ("xpos", None, "raises"),
        ("float32_buffer", None, "raises"),
        ("rotary", "bfloat16", "promoted then repaired"),
    ],
)
def test_x_transformers(tracing, factory, autocast, verdict):
    """1.30.1 multiplies q and k up to float32 in apply_rotary_pos_emb; 1.30.2 casts them back."""
    bad = tracing(ROTARY, installed("x-transformers==1.30.1"), installed(*SMALL))(factory, autocast=autocast)
    good = tracing(ROTARY, installed("x-transformers==1.30.2"), installed(*SMALL))(factory, autocast=autocast)

    assert (bad["verdict"], good["verdict"]) == (verdict, "clean")
    for role in "qk":
        found = culprit(bad, role)
        assert (found["function"], found["line"], found["call"]) == ("apply_rotary_pos_emb", 480, "Tensor.mul")
    assert not operand(bad, "v")["blamed"]
    assert bad["counterfactual"]["clean_after"] == 1
    if factory != "xpos":
        assert ("buffer", "rotary_pos_emb.inv_freq") in [(b["kind"], b["name"]) for b in culprit(bad, "q")["born"]]


@pytest.mark.triton
@pytest.mark.parametrize(
    ("version", "verdict", "line", "half"),
    [
        pytest.param("0.1.2", "raises", 179, "float16", marks=pytest.mark.heavy),
        ("0.2.1", "silently mixed", 242, "bfloat16"),
        pytest.param("0.2.2", "clean", None, "bfloat16", marks=pytest.mark.heavy),
        ("0.6.0", "clean", None, "float16"),
        pytest.param("0.1.2", "raises", 179, "bfloat16", marks=pytest.mark.heavy),
        pytest.param("0.2.1", "silently mixed", 242, "float16", marks=pytest.mark.heavy),
        pytest.param("0.2.2", "clean", None, "float16", marks=pytest.mark.heavy),
        pytest.param("0.6.0", "clean", None, "bfloat16", marks=pytest.mark.heavy),
    ],
)
def test_rwkv7(tracing, version, verdict, line, half):
    """flash-linear-attention's RWKV7 under autocast: k is promoted by addcmul with k_a until 0.2.2."""
    answer = tracing(RWKV, *flash_linear_attention(version))("attention", autocast=half, backward=version != "0.1.2")

    assert answer["verdict"] == verdict, answer["error"]
    if line is None:
        assert answer["promotions"] == []
    else:
        found = culprit(answer, "k")
        assert (found["call"], found["line"]) == ("Tensor.addcmul", line)
        assert [(b["kind"], b["name"]) for b in found["born"]] == [("parameter", "k_a")]
        assert not operand(answer, "q")["blamed"]
        assert answer["counterfactual"]["clean_after"] == 1


@pytest.mark.heavy
@pytest.mark.triton
def test_kernels_of_flash_linear_attention_compile(patient):
    """Without a GPU every kernel of its four backends, forward and backward, is compiled for a Hopper."""
    path = os.pathsep.join(str(folder) for folder in flash_linear_attention("0.6.0"))
    request = {"task": "kernels.run", "mode": "full", "seed": 1, "budget": 400, "scratch": str(patient.scratch)}
    request["gpu"] = {"compute_capability": "9.0", "name": "h100"}
    done = patient.run(request, timeout=500, env={"PYTHONPATH": path})

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (patient.answers_dir / "compiled.jsonl").read_text().splitlines()]
    found = {line["compiled"]["backend"]: line["compiled"] for line in lines if "compiled" in line}
    assert list(found) == ["fla-gated-delta-rule", "fla-gla", "fla-gsa", "fla-rwkv7"]
    for told in found.values():
        assert told["error"] is None
        assert len(told["kernels"]) > 10
        assert any("bwd" in one["kernel"] for one in told["kernels"])
        assert {one["outcome"] for one in told["kernels"]} == {"compiles"}


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("options", "name", "verdict"),
    [
        ({}, "scaled_dot_product_attention", "clean"),
        ({"attn": "flash_attention_2"}, "flash_attn_func", "clean"),
        ({"attn": "flash_attention_2", "dtype": "float32"}, "flash_attn_func", "raises"),
        ({"attn": "flash_attention_2", "dtype": "float32", "autocast": "float16"}, "flash_attn_func", "clean"),
    ],
)
def test_config_without_weights(with_transformers, tmp_path, options, name, verdict):
    """A 70-billion-parameter Llama is traced from its config alone, layer by layer, whatever memory there is."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    answer = with_transformers.ask({"kind": "hf", "target": str(tmp_path), **options})

    assert [(c["name"], c["verdict"]) for c in answer["attention"]] == [(name, verdict)], answer["error"]
    assert answer["attention"][0]["calls"] == (80 if verdict == "clean" else 1)
    assert operand(answer, "q")["path"][0]["call"] == "F.linear"
    if verdict == "raises":
        assert operand(answer, "q")["born"][0]["name"] == "model.layers.0.self_attn.q_proj.weight"
