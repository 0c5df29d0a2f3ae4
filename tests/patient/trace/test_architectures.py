"""Models of many kinds from their config alone, with an old and a new transformers, on a CPU build of torch."""

import json
import zlib

import pytest

from tests.installed import old_transformers
from tests.patient.trace.conftest import Tracer, operand

pytestmark = pytest.mark.registry

SIZES = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}
CONFIGS = {
    "llama": {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 8, **SIZES},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 4, **SIZES},
    "mistral": {"architectures": ["MistralForCausalLM"], "num_key_value_heads": 8, "sliding_window": 4096, **SIZES},
    "gemma2": {"architectures": ["Gemma2ForCausalLM"], "num_key_value_heads": 8, "head_dim": 128, **SIZES},
    "mixtral": {"architectures": ["MixtralForCausalLM"], "num_local_experts": 8, **SIZES},
    "gpt_neox": {"architectures": ["GPTNeoXForCausalLM"], "intermediate_size": 16384, **SIZES},
    "gpt2": {"architectures": ["GPT2LMHeadModel"]},
    "bert": {"architectures": ["BertForMaskedLM"]},
    "t5": {"architectures": ["T5ForConditionalGeneration"], "num_layers": 4},
    "vit": {"architectures": ["ViTForImageClassification"]},
    "whisper": {"architectures": ["WhisperForConditionalGeneration"], "encoder_layers": 2, "decoder_layers": 2},
}
NO_FLASH = {("4.50.3", "t5"), ("5.23.0", "t5"), ("4.50.3", "bert")}
"""Where transformers itself offers no flash_attention_2."""

WITHOUT_SDPA = {("4.50.3", "t5"), ("5.23.0", "gemma2")}


RELEASES = ["4.50.3", "5.23.0"]
KERNELS = ["sdpa", "flash_attention_2", "eager"]


def cells():
    """Each kind with each kernel in one of the two releases, which one by its name; in the other one by hand."""
    for kind in sorted(CONFIGS):
        for attention in KERNELS:
            chosen = RELEASES[zlib.crc32(f"{kind} {attention}".encode()) % 2]
            for one in RELEASES:
                yield pytest.param(one, kind, attention, marks=[] if one == chosen else pytest.mark.heavy)


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    if request.param == "5.23.0":
        yield request.param, request.getfixturevalue("with_transformers")
        return
    tracer = Tracer(path=[old_transformers()])
    yield request.param, tracer
    tracer.close()


def asked(release, tmp_path, kind, **options):
    config = {"model_type": kind, "torch_dtype": "bfloat16", **CONFIGS[kind]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return release[1].ask({"kind": "hf", "target": str(tmp_path), **options})


@pytest.mark.parametrize(("release", "kind", "attention"), cells(), indirect=["release"])
def test_forward(release, tmp_path, kind, attention):
    """The class that the config names runs to its end with an input of its own, and every attention call is clean."""
    answer = asked(release, tmp_path, kind, attn=attention)
    refused = {"flash_attention_2": NO_FLASH, "sdpa": WITHOUT_SDPA, "eager": set()}[attention]
    if (release[0], kind) in refused:
        assert answer["error"]["kind"] == "attention refused"
        assert "not support" in answer["error"]["message"]
        return

    assert answer["error"] is None, answer["error"]["traceback"]
    assert answer["entry"]["words"].startswith(CONFIGS[kind]["architectures"][0])
    assert {call["verdict"] for call in answer["attention"]} == {"clean"}
    assert {call["written_out"] for call in answer["attention"]} == {attention == "eager"}
    assert operand(answer, "q")["dtype"] == "bfloat16"


@pytest.mark.parametrize("kind", ["llama", "bert", "mixtral", "t5", "vit"])
def test_backward(release, tmp_path, kind):
    """And backward."""
    answer = asked(release, tmp_path, kind, attn="eager", backward=True)

    assert (answer["error"], answer["verdict"]) == (None, "clean")


def test_values_are_asked_for(release, tmp_path):
    """A model that looks at values runs smaller, on real tensors, and the answer says what was cut."""
    answer = asked(release, tmp_path, "mixtral")
    cut = "num_hidden_layers 2 instead of 32" in answer["entry"]["words"]

    assert answer["rules"]["fake"] == (not cut)
    assert cut == (release[0] == "4.50.3")
    assert operand(answer, "q")["head_dim"] == 128
