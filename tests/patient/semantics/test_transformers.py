"""transformers' classes against a perturbation of its own: another way to build, to change and to compare.

By hand, in an environment that has transformers: ATTN_DOCTOR_MODELS=llama,gpt_oss names model types, `all` takes every
causal one that the installed version has.
"""

import importlib.util
import json
import os

import pytest

from tests.patient.trace.conftest import Tracer

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="no transformers here"),
]
#: Of transformers 5.23.0, with position_ids alone.
LEAK = ("qwen3_next", "gpt_oss", "bamba", "jamba")
SOUND = ("llama", "qwen3", "gemma3_text", "gpt2", "cohere2")
MODELS = tuple(name for name in os.environ.get("ATTN_DOCTOR_MODELS", "").split(",") if name) or LEAK + SOUND
SIZES = {
    "hidden_size": 64, "n_embd": 64, "num_attention_heads": 4, "n_head": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 2, "n_layer": 2, "vocab_size": 128,
    "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "mamba_chunk_size": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def examined():
    tracer = Tracer()

    def ask(kind, attention):
        script = f"""
import importlib, json
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
entry = importlib.import_module('_attn_doctor_patient.trace.run.config_entry')
run = importlib.import_module('_attn_doctor_patient.semantics.run')
entry.load = lambda target, trusted: (transformers, CONFIG_MAPPING[{kind!r}]())
answer = run.examine({{"kind": "hf", "target": "", "attn": {attention!r}, "budget": 300}})
"""
        return tracer.ask({"script": script})

    yield ask
    tracer.child.stdin.close()
    tracer.child.wait(60)


def model_of(kind, attention):
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING[kind]
    known = made().to_dict()
    ends = {name: int(not name.startswith("pad")) for name in known if name.endswith("token_id") and known[name]}
    config = made(**{name: size for name, size in SIZES.items() if isinstance(known.get(name), int)}, **ends)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).float().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model


def moved(model, changed, watched, **given):
    """The largest change of logits of the watched tokens when the others change, in standard deviations."""
    import torch

    one = torch.randint(10, 100, (1, 16), generator=torch.Generator().manual_seed(3))
    two = one.clone()
    two[:, changed] = 109 - two[:, changed]
    with torch.no_grad():
        first, second = (model(input_ids=ids, use_cache=False, **given).logits[:, watched] for ids in (one, two))
    return float((first - second).abs().max() / first.std())


def outcome(answer, name, form=None):
    return next(one["outcome"] for one in answer["checks"] if (one["name"], one["form"]) == (name, form))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_verdict_is_that_of_another_perturbation(examined, kind, attention):
    import torch

    answer = examined(kind, attention)
    if answer["error"] is not None:
        pytest.skip(json.dumps(answer["error"]["message"])[:200])
    model = model_of(kind, attention)
    positions = torch.cat([torch.arange(7), torch.arange(9)])[None]
    first, second = slice(0, 7), slice(7, 16)
    alone = moved(model, first, second, position_ids=positions)
    with_ones = moved(model, first, second, position_ids=positions, attention_mask=torch.ones(1, 16).long())

    assert (outcome(answer, "packing", "position_ids") == "broken") == (alone > 1e-2)
    assert (outcome(answer, "packing", "position_ids + attention_mask of ones") == "broken") == (with_ones > 1e-2)
    assert (outcome(answer, "causality") == "broken") == (moved(model, second, first) > 1e-2)
    if kind in LEAK + SOUND:
        assert (outcome(answer, "packing", "position_ids") == "broken") == (kind in LEAK)


def test_flex_attention_is_judged_on_a_cpu(examined):
    """Not compiled there; documents are kept apart by position_ids and by a BlockMask, and leaks have their layers."""
    answer = examined("llama", "flex_attention")

    assert answer["error"] is None
    held = {(one["name"], one["form"]) for one in answer["checks"] if one["outcome"] == "holds"}
    assert held >= {("packing", "position_ids"), ("packing", "BlockMask + position_ids"), ("causality", None)}
    leaks = [one for one in answer["checks"] if one["outcome"] == "broken"]
    assert [[culprit["layer"] for culprit in one["culprits"]] for one in leaks] == [[0, 1], [0, 1]]


def test_what_cannot_be_built_says_why(examined):
    """Not how large the last cut was."""
    assert "Attention sinks cannot be run on CPU" in examined("gpt_oss", "flex_attention")["error"]["message"]
    assert "does not build from this config uncut either" in examined("dbrx", "sdpa")["error"]["message"]


def test_hybrid_models_keep_an_attention_layer(examined):
    answer = examined("jamba", "eager")

    assert "num_hidden_layers 5 instead of 32" in answer["cut"]
    (leak,) = [one for one in answer["checks"] if (one["name"], one["form"]) == ("packing", "position_ids")]
    assert {one["type"] for one in leak["culprits"]} == {"JambaMambaMixer"}
