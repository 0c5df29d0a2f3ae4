"""A program under trace is answered as in a run of its own, whatever it asks about itself."""

import json
from pathlib import Path

import pytest

from tests.patient.trace.conftest import Tracer

MODELS = Path(__file__).parent / "watched_models.py"


def calls(answer):
    """What is told of the attention calls."""
    assert answer["error"] is None, answer["error"]["traceback"]
    return [
        (
            call["name"],
            call["calls"],
            {role: (one["dtype"], one["shape"], one["stride"]) for role, one in call["operands"].items()},
            (call["backend"] or {}).get("taken"),
        )
        for call in answer["attention"]
    ]


@pytest.mark.parametrize("rules", ["cpu", "fake"])
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_nothing_tells_of_the_trace(traced, rules, autocast):
    """No class, mode or flag by which libraries know a trace is to be seen, also by names taken at import."""
    answer = traced("suspicious", file=MODELS, rules=rules, autocast=autocast, backward=True)
    (call,) = calls(answer)

    assert set(call[2]) == {"q", "k", "v"}
    assert call[2]["k"][1] == [2, 4, 16, 64]


@pytest.mark.parametrize("padded", [0, 3])
def test_small_values_are_known(traced, padded):
    """Masks, lengths and positions have values: what goes by them goes the way of a real run."""
    real, fake = (traced("looking", file=MODELS, rules=rules, padded=padded) for rules in ("cpu", "fake"))

    assert calls(fake) == calls(real)
    assert ("mask" in calls(fake)[0][2]) == bool(padded)
    assert not [note for note in fake["rules"]["not_simulated"] if "condition" in note]


@pytest.mark.parametrize("how", ["item", "tolist", "numpy"])
def test_what_has_no_value_is_refused(traced, how):
    """A value that rests on weights is asked for: the answer says so, and no number is made up."""
    answer = traced("doubting", file=MODELS, rules="fake", how=how)

    assert answer["error"]["kind"] == "cannot simulate"
    assert answer["error"]["at"]["file"] == str(MODELS)


def test_conditions_on_weights_are_guessed_and_told(traced):
    """`if` on such a value is taken for False, and a note says where."""
    answer = traced("doubting", file=MODELS, rules="fake", how="condition")

    assert calls(answer)
    assert any("watched_models.py" in note for note in answer["rules"]["not_simulated"])


def test_printing_ends_no_run(traced):
    """A tensor without values can be printed."""
    assert calls(traced("doubting", file=MODELS, rules="fake", how="printed"))


def test_no_memory(traced):
    """A layer of 224 GiB is built and run, forward and backward, in less than half a GiB."""
    answer = traced("huge", file=MODELS, rules="fake", backward=True)
    peak = traced.run("import resource; answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024")

    assert answer["outcome"] == "finished"
    assert peak < 2048  # MiB, torch and all that this worker ran before included


ENTER = "import torch\nfrom _attn_doctor_patient.trace.hollow import Hollow, NoValues\n"
FORMS = """
a, b = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5, 4)
ids = torch.tensor([[1, 0, 2]])
ops = {
    "matmul": lambda: a @ b,
    "permuted": lambda: a.permute(0, 2, 1, 3) * 2,
    "permuted clone": lambda: a.permute(0, 2, 1, 3).clone(),
    "contiguous": lambda: a.transpose(1, 2).contiguous(),
    "view": lambda: a.view(6, 20).t(),
    "reshape": lambda: a.transpose(1, 2).reshape(2, 4, 15),
    "softmax": lambda: a.softmax(-1, dtype=torch.float32),
    "half": lambda: a.half().to(torch.bfloat16),
    "embedding": lambda: torch.nn.functional.embedding(ids, a[0, 0]),
    "index": lambda: a[:, torch.tensor([0, 2])],
    "bool index": lambda: a[torch.tensor([True, False])],
    "masked_fill": lambda: a.masked_fill(a > 0, 0.0),
    "where": lambda: torch.where(a > 0, a, 0.0),
    "cat": lambda: torch.cat([a, a], 1),
    "split": lambda: a.split(2, -1)[1],
    "unbind": lambda: a.unbind(1)[2],
    "conv": lambda: torch.nn.functional.conv2d(a, torch.randn(8, 3, 2, 2)),
    "channels_last": lambda: a.to(memory_format=torch.channels_last) + 1,
    "layer_norm": lambda: torch.nn.functional.layer_norm(a, (5,)),
    "topk": lambda: a.topk(2, -1).indices,
    "sort": lambda: a.sort(1).values,
    "gather": lambda: a.gather(3, torch.zeros(2, 3, 4, 1, dtype=torch.long)),
    "scatter": lambda: a.scatter(3, torch.zeros(2, 3, 4, 1, dtype=torch.long), 1.0),
    "einsum": lambda: torch.einsum("bhqd,bhdk->bhqk", a, b),
    "complex": lambda: torch.view_as_real(torch.view_as_complex(a[..., :4].contiguous().view(2, 3, 4, 2, 2)) * 1j),
    "sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(a, a, a, is_causal=True),
    "in place": lambda: a.clone().add_(1).mul_(a),
    "out": lambda: torch.add(a, a, out=torch.empty(0)),
    "slice written": lambda: torch.zeros(2, 3, 4, 5).index_copy(2, torch.tensor([0]), a[:, :, :1]),
    "expand": lambda: a[:1].expand(4, 3, 4, 5) + 0,
    "cumsum": lambda: a.cumsum(-1),
    "pad": lambda: torch.nn.functional.pad(a, (1, 2)),
    "interpolate": lambda: torch.nn.functional.interpolate(a, scale_factor=2),
    "repeat_interleave": lambda: a.repeat_interleave(torch.tensor([1, 0, 2]), 1),
    "lstm": lambda: torch.nn.LSTM(5, 7)(a[0])[0],
    "vmap": lambda: torch.vmap(lambda x: x.sum(-1))(a),
}
def forms():
    return {name: [list(op().shape), list(op().stride()), str(op().dtype)] for name, op in ops.items()}
"""


@pytest.mark.parametrize("grad", ["torch.enable_grad", "torch.inference_mode"])
def test_forms_are_those_of_a_real_run(traced, grad):
    """Shape, strides and dtype of what ops return, where none of them may run."""
    real = traced.run(f"{ENTER}{FORMS}\nwith {grad}(): answer = forms()")
    hollow = traced.run(
        f"{ENTER}{FORMS}\nwith Hollow(weights=0) as mode, {grad}():\n"
        " a, b = torch.rand_like(a), torch.rand_like(b)\n answer = forms()\n"
        " assert mode.valueless(a) and mode.valueless(a @ b) and not mode.valueless(ids + 1)"
    )

    assert {name: form for name, form in hollow.items() if form != real[name]} == {}


def test_gradients_have_forms_too(traced):
    """Autograd is torch's own, over tensors without values."""
    script = f"""{ENTER}
with Hollow(weights=0):
    model = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    model(torch.randn(2, 8, 64)).sum().backward()
    torch.optim.AdamW(model.parameters()).step()
    answer = [list(p.grad.shape) == list(p.shape) for p in model.parameters()]
"""
    assert all(traced.run(script))


def test_what_hollow_values_are_written_to_is_hollow(traced):
    """A small tensor with values loses them where something without values is written to it, its views with it."""
    script = f"""{ENTER}
with Hollow(weights=4) as mode:
    cache, other = torch.zeros(2, 2), torch.ones(2, 2)
    large = torch.randn(100)
    before = mode.valueless(cache)
    same = cache[0].copy_(large[:2])
    answer = [before, mode.valueless(large), mode.valueless(cache), mode.valueless(cache[1]), mode.valueless(other)]
    try:
        cache.sum().item()
    except Exception as error:
        answer.append(type(error).__name__)
"""
    assert traced.run(script) == [False, True, True, True, False, "DataDependentOutputException"]


def test_large_masks_keep_their_values(traced):
    """A mask of an image's pixels is resized as a float and asked about, as detectors do."""
    script = f"""{ENTER}
with Hollow() as mode:
    pixels = torch.ones(2, 800, 1333, dtype=torch.long)
    mask = torch.nn.functional.interpolate(pixels[None].float(), size=(25, 42)).to(torch.bool)[0]
    weights = torch.empty(800, 1333).normal_()
    answer = [bool(mask.all()), mode.valueless(weights), mode.valueless(weights * mask[0, 0, 0])]
"""
    assert traced.run(script) == [True, True, True]


def test_copies_take_no_memory(traced):
    """A module's deep copy, its half copy and its state."""
    script = f"""{ENTER}
import copy, resource
with Hollow() as mode:
    layer = torch.nn.Linear(40000, 40000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    twin = copy.deepcopy(layer)
    half = copy.deepcopy(layer).to(torch.bfloat16)
    layer.load_state_dict(twin.state_dict())
    answer = [type(twin.weight).__name__, str(half.weight.dtype), mode.valueless(twin.weight),
              (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 512 * 1024]
"""
    assert traced.run(script) == ["Parameter", "torch.bfloat16", True, True]


def test_a_limit_on_addresses():
    """Under `ulimit -v` there are fewer addresses to be had, and they are handed out over and over; what does not fit
    at all is refused in words."""
    script = f"""{ENTER}
import resource
resource.setrlimit(resource.RLIMIT_AS, (30 << 30, resource.RLIM_INFINITY))
with Hollow() as mode:
    tensors = [torch.zeros(1 << 13, 1 << 15) for _ in range(40)]
    answer = [all(mode.valueless(one) for one in tensors)]
    try:
        torch.zeros(1 << 40)
    except MemoryError as error:
        answer.append(str(error))
"""
    tracer = Tracer()
    hollow, words = tracer.run(script)
    tracer.close()

    assert hollow
    assert words.startswith("a tensor of 4398046511104 bytes")


TRANSFORMERS = {
    "llama": {"num_key_value_heads": 2},
    "gemma3_text": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8},
    "gpt_neox": {},
    "qwen3_moe": {"num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "bert": {},
    "bart": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2},
    "vit": {"image_size": 32, "patch_size": 8},
    "deepseek_v3": {"first_k_dense_replace": 1, "n_routed_experts": 16, "num_key_value_heads": 4},
}
WIDTHS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


@pytest.mark.registry
@pytest.mark.parametrize("attention", ["sdpa", "flash_attention_2", "eager"])
@pytest.mark.parametrize("kind", sorted(TRANSFORMERS))
def test_transformers(with_transformers, tmp_path, kind, attention):
    """The same attention calls as on real tensors, where transformers asks whether it is traced."""
    config = {"model_type": kind, "vocab_size": 32000, **WIDTHS, **TRANSFORMERS[kind]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    request = {"kind": "hf", "target": str(tmp_path), "attn": attention, "dtype": "bfloat16", "batch": 2}
    request.update({"backward": True, "autocast": "bfloat16", "counterfactual": False})
    real, fake = (with_transformers.ask({**request, "rules": rules}) for rules in ("cpu", "fake"))

    assert calls(fake) == calls(real)
    assert calls(fake)
