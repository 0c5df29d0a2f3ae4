"""Why SDPA picks what it picks, and what to change for flash."""

import dataclasses

import pytest

from attn_doctor.patient.kernels import explain_sdpa as explain
from attn_doctor.patient.simulate.cuda import simulated_gpu

H100 = simulated_gpu.from_request({"compute_capability": "9.0", "name": "h100"})
A100 = simulated_gpu.from_request({"compute_capability": "8.0", "name": "a100"})
T4 = simulated_gpu.from_request({"compute_capability": "7.5", "name": "t4"})


def call(dtype="bfloat16", shape=(2, 8, 512, 128), kv=None, mask=None, **more):
    tensor = {"shape": shape, "dtype": dtype}
    other = {"shape": kv or shape, "dtype": dtype}
    mask = {"shape": (shape[-2], (kv or shape)[-2]), "dtype": mask} if mask else None
    flags = {"causal": False, "train": False, "gqa": False, "dropout": 0.0}
    return explain.call_of({"q": tensor, "k": other, "v": other, "mask": mask, **flags, **more})


def changes(asked, gpu=A100, version="2.11.0+cu130"):
    return [way["changes"] for way in explain.changes(asked, gpu, version, 91900)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (call(mask="bool"), ["pass no attn_mask"]),
        (call("float32"), ["cast q, k and v"]),
        (call("float32", mask="float32"), ["pass no attn_mask", "cast q, k and v"]),
        (call(kv=(2, 2, 512, 128)), ["enable_gqa"]),
        (call(shape=(2, 8, 512, 320)), ["head dimension of at most 256"]),
        (call(kv=(2, 8, 256, 128), causal=True), ["as many keys as queries"]),
    ],
)
def test_what_to_change(asked, words):
    """The fewest changes after which flash takes the call, and no more than that."""
    ways = changes(asked)

    assert len(ways) >= 1
    for wanted in words:
        assert any(wanted in one for one in ways[0])
    assert len(ways[0]) == len(words)


def test_what_stands_before_flash_is_said():
    """On Hopper cuDNN comes first: it is to be switched off as well."""
    assert ["enable_cudnn_sdp(False)" in one for one in changes(call(), H100)[0]] == [True]


def test_nothing_helps_on_a_gpu_without_flash():
    """No change of the call makes an older GPU run flash."""
    assert changes(call("float16"), T4) == []


def test_a_change_is_never_made_up():
    """After the changes that are proposed the rules really let flash through."""
    asked = call("float32", mask="float32", causal=True)
    by_name = dict(explain._CHANGES)
    for way in changes(asked):
        changed = asked
        for words in way:
            changed = by_name[words](changed) if words in by_name else changed
        said = explain.predicted(changed, A100, "2.11.0+cu130", 91900)
        assert said["chosen"] == "flash"


def test_predicted():
    """Without a GPU the answer says that it is predicted, by which torch, and what is not certain."""
    said = explain.predicted(call(mask="float32"), H100, "2.11.0+cu130", 91900)

    assert (said["how"], said["chosen"], said["certain"]) == ("predicted", "cudnn", True)
    assert said["refused"]["flash"] == ["Flash Attention does not support non-null attn_mask."]
    assert "wrong values" in said["warnings"][0]


@pytest.mark.parametrize("head_dim", [192, 256])
def test_cudnn_takes_large_heads_on_hopper(head_dim):
    """As an H200 with torch 2.11 and cuDNN 9.19 answered."""
    asked = call(shape=(2, 8, 512, head_dim))

    assert explain.predicted(asked, H100, "2.11.0+cu130", 91900)["chosen"] == "cudnn"
    assert explain.predicted(asked, A100, "2.11.0+cu130", 91900)["chosen"] == "flash"


def test_torchs_words_are_read_off_standard_error():
    """torch writes its reasons itself, with a time before and the name of a function behind."""
    line = "[W1121 06:07:16.045 sdp_utils_cpp.h:262] Warning: Flash Attention does not support x. (function check_y)"
    other = "[W1121 sdp_utils.cpp:1] Warning: not 1. (function operator())"

    assert [m.group(1) for m in explain._WARNING.finditer(line + "\n" + other)] == [
        "Flash Attention does not support x.",
        "not 1.",
    ]


def test_every_change_leaves_a_fitting_call_alone():
    """A change that does not apply says so, and one that does changes something."""
    asked = call()
    for words, change in explain._CHANGES:
        changed = change(asked)
        assert changed is None or changed != asked, words
        assert changed is None or dataclasses.is_dataclass(changed)


@pytest.mark.parametrize(
    ("shape", "kv", "more"),
    [
        ((1, 8, 4, 8), (1, 8, 4, 8), {"mask": "bool", "causal": True}),
        ((1, 8, 4, 8), (1, 2, 4, 8), {}),
        ((1, 8, 4, 8), (1, 3, 4, 8), {"gqa": True}),
        ((2, 8, 4, 8), (3, 8, 4, 8), {}),
        ((1, 8, 4, 8), (1, 1, 4, 8), {}),
        ((2, 8, 4, 8), (1, 8, 4, 8), {}),
        ((1, 8, 4, 8), (1, 2, 4, 8), {"gqa": True}),
    ],
)
def test_what_math_raises_is_what_torch_raises(shape, kv, more):
    """Nothing is said to go to math that math would raise on, nor the other way round: torch's own is asked."""
    torch = pytest.importorskip("torch")
    asked = call("float32", shape, kv, **more)
    foreseen = explain.sdpa_backends.math(asked)
    raised = None
    q, k, v, mask = explain.tensors_of(torch, asked, "cpu")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        try:
            torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=asked.causal, enable_gqa=asked.enable_gqa
            )
        except RuntimeError as error:
            raised = " ".join(str(error).split())

    assert (foreseen is None) == (raised is None)
    assert foreseen is None or foreseen.startswith(raised)
    said = explain.predicted(call("bfloat16", shape, kv, **more), T4, "2.11.0+cu130", 91900)
    assert said["chosen"] == "math"
    assert said["warnings"] == ([f"raises afterwards: {foreseen}"] if foreseen else [])


def test_math_is_no_way_out_of_a_mask_beside_is_causal():
    """cuDNN takes both at once and math raises, so math is named among those that do not take the call."""
    said = explain.predicted(call(mask="bool", causal=True), H100, "2.11.0+cu130", 91900)

    assert said["chosen"] == "cudnn"
    assert "is_causal" in said["refused"]["math"][0]


def test_the_widest_head_that_flash_takes():
    """192 is named where training with more is refused, and 256 everywhere else."""
    ada = simulated_gpu.from_request({"compute_capability": "8.9", "name": "rtx4090"})
    wide = call(shape=(1, 8, 512, 512))

    assert changes(wide) == [["a head dimension of at most 256"]]
    assert changes(call(shape=(1, 8, 512, 200), train=True), ada)[0] == ["a head dimension of at most 192"]
