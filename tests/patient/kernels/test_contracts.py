"""What kernels leave out by their own contracts."""

import pytest

from attn_doctor.patient.kernels import offers, registry
from attn_doctor.patient.kernels.cells import Cell, Place


def place(capability="9.0", torch="2.11.0+cu130", cudnn=91900, **versions):
    major, minor = capability.split(".")
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    return Place(capability=(int(major), int(minor)), gpu_name="", torch_version=torch, cudnn=cudnn, versions=named)


def asked(backend, dtype="bfloat16", head_dim=128, form="dense", direction="train", at=None):
    return registry.backend(backend).contract(Cell(backend, dtype, head_dim, form, direction), at or place())


@pytest.mark.parametrize(
    ("backend", "cell", "words"),
    [
        ("sdpa-flash", {"form": "bool-mask"}, "Flash Attention does not support non-null attn_mask."),
        ("sdpa-flash", {"dtype": "float32"}, "Expected query, key and value to all be of dtype"),
        ("sdpa-efficient", {"form": "fp32-mask"}, "invalid dtype for bias"),
        ("sdpa-efficient", {"form": "gqa"}, "same num_heads"),
        ("sdpa-math", {"form": "window"}, "no window argument"),
        ("flash-attn-2", {"dtype": "float32"}, "FlashAttention only support fp16 and bf16 data type"),
        ("flash-attn-2", {"form": "half-mask"}, "takes no mask"),
        ("flash-attn-2", {"at": place("7.5")}, "FlashAttention only supports Ampere GPUs or newer."),
        ("flash-attn-2", {"form": "softcap", "at": place(flash_attn="2.5.9")}, "new in flash-attn 2.6"),
        ("flash-attn-3", {"dtype": "float32"}, "only supports fp16, bf16, and fp8_e4m3"),
        ("flash-attn-3", {"dtype": "float8_e4m3fn"}, "float8 is for its forward pass"),
        ("flash-attn-3", {"dtype": "float8_e4m3fn", "direction": "forward", "at": place("8.0")}, "on Ampere/Ada cards"),
        ("flash-attn-3", {"at": place("10.0")}, "8.x and 9.0"),
        ("flash-attn-3", {"form": "bool-mask"}, "takes no mask"),
        ("flash-attn-4", {"dtype": "float32"}, "must be float16, bfloat16"),
        ("flash-attn-4", {"dtype": "float8_e4m3fn", "direction": "forward"}, "only supported on SM100"),
        ("flash-attn-4", {"dtype": "float8_e4m3fn", "direction": "forward", "at": place("10.0")}, "takes no scales"),
        ("flash-attn-4", {"head_dim": 192, "at": place("10.0")}, "between 8 and 128"),
        ("flash-attn-4", {"at": place("7.5")}, "Unsupported compute capability"),
        ("flex", {"at": place(torch="2.4.1")}, "new in torch 2.5"),
        ("xformers", {"form": "fp32-mask"}, "invalid dtype for bias"),
        ("xformers", {"form": "gqa"}, "only for the forward pass"),
        ("xformers", {"form": "window", "dtype": "float32"}, "takes no bias of type"),
        ("xformers", {"form": "half-mask", "at": place("10.0")}, "capability <= (9, 0)"),
        ("fla-gla", {"form": "dense"}, "linear attention is causal"),
    ],
)
def test_not_offered(backend, cell, words):
    """A combination outside a contract is told in the contract's words."""
    assert words in asked(backend, **cell)


@pytest.mark.parametrize(
    ("backend", "cell"),
    [
        ("sdpa-cudnn", {"form": "fp32-mask"}),  # it takes it, and is wrong: that is for the trial to find
        ("sdpa-default", {"form": "fp32-mask"}),
        ("sdpa-cudnn", {"head_dim": 256}),
        ("sdpa-math", {"dtype": "float32", "form": "gqa"}),
        ("flash-attn-2", {"form": "window"}),
        ("flash-attn-3", {"dtype": "float8_e4m3fn", "direction": "forward"}),
        ("flash-attn-3", {"form": "gqa", "at": place("8.0")}),
        ("flash-attn-4", {"head_dim": 192}),
        ("flash-attn-4", {"head_dim": 256, "at": place("10.0")}),
        ("xformers", {"form": "gqa", "direction": "forward"}),
        ("xformers", {"form": "window", "dtype": "float32", "direction": "forward"}),
        ("xformers", {"dtype": "float32"}),
        ("flex", {"form": "softcap"}),
    ],
)
def test_offered(backend, cell):
    """What a contract offers is run."""
    assert asked(backend, **cell) is None


def test_default_on_an_older_gpu():
    """Where torch picks a backend that refuses a float32 mask, the call is not offered; on Hopper it is."""
    assert "invalid dtype for bias" in asked("sdpa-default", form="fp32-mask", at=place("8.0"))


def test_on_cpu_tensors():
    """Without a GPU the engine runs what torch has for the CPU, and nothing else."""
    cpu = Place(capability=None, gpu_name="cpu", torch_version="2.13.0", cudnn=None, versions={})

    assert asked("sdpa-math", at=cpu) is None
    assert asked("sdpa-cudnn", at=cpu) is not None
    assert asked("flash-attn-2", at=cpu) is not None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "mha_fwd, /build/hopper/flash_api_stable.cpp:1219, This flash attention build does not support FP8.\nat: …",
            "This flash attention build does not support FP8.",
        ),
        (
            "FlashAttention-3 only supports Hopper GPUs (SM90). Got SM120.",
            "only supports Hopper GPUs (SM90). Got SM120.",
        ),
        ("CUDA error: no kernel image is available for execution on the device", None),
    ],
)
def test_what_a_build_leaves_out_is_not_refused(message, words):
    """A kernel's own words, that its build has no such thing, are told without its source path; an error is none."""
    assert offers.own_words(message) == words
