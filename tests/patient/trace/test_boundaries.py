"""Attention calls are met wherever they are made, and judged by their kernel's own contract."""

import pytest

from tests.patient.trace.conftest import MODELS, Tracer, operand


@pytest.mark.parametrize(
    ("factory", "name", "verdict"),
    [
        ("plain", "scaled_dot_product_attention", "clean"),
        ("multi_head", "scaled_dot_product_attention", "clean"),
        ("xformers_attention", "memory_efficient_attention", "raises"),
        ("custom_op", "attn_doctor_tests.attention.default", "silently mixed"),
        ("cast_by_hand", "_Kernel.apply", "silently mixed"),
        ("asserting", "kernel", "raises"),
        ("variable_length", "flash_attn_varlen_func", "clean"),
    ],
)
def test_met(traced, factory, name, verdict):
    """Each way of calling attention is one entry with its name and verdict."""
    answer = traced(factory, stand_ins=["flash_attn", "xformers"])
    if "No module named 'torch.nn.attention.flex_attention'" in str(answer["error"]):
        pytest.skip("this torch has no flex attention")

    assert [(call["name"], call["verdict"]) for call in answer["attention"]] == [(name, verdict)]


def test_flex_with_a_mask(traced):
    """Flex attention's block mask, made by torch with a device it took from its own tensors, is on the GPU like them;
    the kernel that needs one leaves zeros and the log-sum-exp that were asked for, and is not said to be missing."""
    answer = traced("flex_with_a_mask")
    if "No module named 'torch.nn.attention.flex_attention'" in str(answer["error"]):
        pytest.skip("this torch has no flex attention")

    assert (answer["error"], answer["verdict"]) == (None, "clean")
    assert [call["needs_gpu"] for call in answer["attention"]] == [True]


def test_packed(traced):
    """The packed variant is judged by its three parts, with the strides that the kernel sees."""
    answer = traced("packed", autocast="bfloat16")

    assert answer["verdict"] == "clean"
    assert operand(answer, "k")["shape"] == [2, 8, 4, 8]
    assert operand(answer, "k")["stride"] == [768, 96, 8, 1]


def test_cache_of_another_dtype(traced):
    """A float32 cache beside a half query is refused as flash_attn refuses it."""
    answer = traced("with_cache")

    assert answer["attention"][0]["error"]["message"] == "query and key must have the same dtype"
    assert traced("with_cache", cache="float16")["verdict"] == "clean"


@pytest.mark.parametrize("capability", ["9.0", "8.0", "8.9"])
def test_float32_mask(traced, capability):
    """A float32 mask on half operands: cuDNN computes wrongly in silence where it comes first, others refuse."""
    answer = traced("masked", gpu={"compute_capability": capability})
    taken = answer["attention"][0]["backend"]["taken"]

    assert answer["verdict"] == {"cudnn": "silently mixed", "efficient": "raises"}[taken]
    assert operand(answer, "mask")["blamed"]


@pytest.mark.parametrize("kind", ["float16", "bool"])
def test_fitting_mask(traced, kind):
    """A mask in q's dtype, or a boolean one, breaks nothing."""
    assert traced("masked", kind=kind)["verdict"] == "clean"


def test_what_stood_in_is_said(traced):
    """A kernel that did not run is never passed off as one that did."""
    assert "stand-in" in traced("variable_length")["attention"][0]["stand_in"]
    assert traced("plain")["attention"][0]["stand_in"] is None


@pytest.mark.parametrize(
    ("gpu", "version", "message"),
    [
        ("7.5", "2.8.3", "FlashAttention only supports Ampere GPUs or newer."),
        ("10.0", "2.7.2", "FlashAttention only supports Ampere GPUs or newer."),
        ("10.0", "2.7.3", "FlashAttention only support fp16 and bf16 data type"),
        ("8.9", "2.0.0", "FlashAttention only support fp16 and bf16 data type"),
    ],
)
def test_order_of_checks(traced, gpu, version, message):
    """Of several broken clauses the one that flash_attn checks first is raised: the GPU before the dtype."""
    answer = traced("single", gpu={"compute_capability": gpu}, flash_attn_version=version)

    assert answer["attention"][0]["error"]["message"] == message
    assert answer["attention"][0]["error"]["predicted"]


def test_clean_never_without_a_call(traced):
    """A program without an attention call has no verdict, which is not the same as clean."""
    answer = traced("without_attention")

    assert (answer["verdict"], answer["outcome"]) == (None, "finished")


ON_A_GPU = """
import importlib, sys, torch
run = importlib.import_module("_attn_doctor_patient.trace.run.run")
torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda *a: (9, 0)
torch.cuda.get_device_name = lambda *a: "a GPU that is made up"
answer = run.trace({"kind": "factory", "target": TARGET, "kwargs": KWARGS, "rules": "gpu"})
"""


@pytest.mark.parametrize(("cache", "verdict"), [("float16", "clean"), ("float32", "raises")])
def test_a_library_that_is_missing_on_a_gpu_node(cache, verdict):
    """The import fails there, and that is said; what would have become of the calls is told none the less."""
    tracer = Tracer()
    try:
        script = ON_A_GPU.replace("TARGET", repr(f"{MODELS}:with_cache")).replace("KWARGS", repr({"cache": cache}))
        answer = tracer.run(script)
    finally:
        tracer.close()
    first, second = answer["rules"]["stood_in"]

    assert answer["rules"]["name"] == "gpu"
    assert first.startswith("flash_attn is not installed here")
    assert second == "without that the program ends there: No module named 'flash_attn'"
    assert (answer["verdict"], answer["attention"][0]["stand_in"] is None) == (verdict, False)


TE = """
import torch


class DotProductAttention(torch.nn.Module):
    def forward(self, query_layer, key_layer, value_layer, attention_mask=None):
        assert query_layer.is_cuda
        raise RuntimeError("this kernel needs CUDA")
"""


def test_transformer_engine(tmp_path):
    """DotProductAttention is met as a call of its forward, with the one demand that its documents state."""
    package = tmp_path / "transformer_engine" / "pytorch"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "attention.py").write_text(TE)
    (tmp_path / "te_model.py").write_text(
        "import torch\nfrom transformer_engine.pytorch.attention import DotProductAttention\n\n\n"
        "def build(kind):\n    q, k, v = (torch.randn(2, 1, 4, 8, dtype=torch.float16).cuda() for _ in range(3))\n"
        "    return lambda: DotProductAttention()(q.to(getattr(torch, kind)), k, v)\n"
    )
    tracer = Tracer(path=[tmp_path])
    try:
        answers = {kind: tracer("build", file=tmp_path / "te_model.py", kind=kind) for kind in ("float16", "float32")}
    finally:
        tracer.close()

    assert {kind: answer["verdict"] for kind, answer in answers.items()} == {"float16": "clean", "float32": "raises"}
    call = answers["float32"]["attention"][0]
    assert (call["name"], call["library"]) == ("DotProductAttention", "transformer_engine")
    assert call["error"]["message"] == "Queries, keys and values must have the same data type!"


@pytest.mark.parametrize("release", ["flash_attn_3", "flash_attn_4"])
def test_newer_flash_attn_only_where_it_is(traced, tmp_path, release):
    """Code that tries flash-attn 3 or 4 first takes it where it is, or was asked for, and flash-attn 2 elsewhere."""
    module = {"flash_attn_3": "flash_attn_interface", "flash_attn_4": "flash_attn.cute"}[release]
    installed = (
        "import importlib.metadata\nanswer = [d.name.replace('-', '_') for d in importlib.metadata.distributions()]"
    )
    if release in traced.run(installed):
        pytest.skip(f"{release} is installed there")
    path = tmp_path / f"{release}_model.py"
    path.write_text(
        f"import torch\ntry:\n    from {module} import flash_attn_func\nexcept ImportError:\n"
        "    from flash_attn import flash_attn_func\n\n\ndef build():\n"
        "    q = torch.randn(1, 8, 2, 64, dtype=torch.float16)\n    return lambda: flash_attn_func(q, q, q)\n"
    )
    without = traced("build", file=path)
    given = traced("build", file=path, stand_ins=["flash_attn", release])

    assert "flash_attn 2.8.3" in without["attention"][0]["stand_in"]
    assert f"flash_attn {release[-1]} " in given["attention"][0]["stand_in"]
    assert given["verdict"] == "clean"
