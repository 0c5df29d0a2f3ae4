"""How FlashAttention-3 and -4 are called, held against stand-ins with the arguments that their docstrings give.

Their kernels need a GPU: what they compute is seen there alone (docs/kernels.md). Here a stand-in computes attention
from what it is handed, so that a wrong layout, window, scale or sequence end comes out as a wrong result.
"""

import sys
import types

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.kernels import registry, trial  # noqa: E402
from attn_doctor.patient.kernels.cells import Cell  # noqa: E402

FORMS = ["dense", "causal", "gqa", "varlen", "window", "softcap"]


def attention(q, k, v, scale, causal, window, softcap):
    """(length, heads, head_dim) each; window: keys to the left and to the right that are seen, None: all."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    left, right = (None if one in (None, -1) else one for one in window)
    ahead = torch.arange(k.shape[0])[None, :] - torch.arange(q.shape[0])[:, None]
    unseen = torch.zeros_like(ahead, dtype=torch.bool)
    right = 0 if causal else right
    if right is not None:
        unseen |= ahead > right
    if left is not None:
        unseen |= -ahead > left
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(unseen, float("-inf")).softmax(-1), v)


def meant(tensor, scale):
    """float8 times its scale, one for each key-value head."""
    if tensor.dtype != torch.float8_e4m3fn:
        assert scale is None
        return tensor.float()
    assert scale.dtype == torch.float32
    return tensor.float() * scale.repeat_interleave(tensor.shape[-2] // len(scale))[:, None]


def each(q, k, v, scales, **given):
    """One sequence after the other; the result in q's dtype, bfloat16 for float8."""
    names = ("q", "k", "v")
    outs = []
    for number, operands in enumerate(zip(q, k, v, strict=True)):
        own = [None if scales[name] is None else scales[name][number] for name in names]
        outs.append(attention(*(meant(one, scale) for one, scale in zip(operands, own, strict=True)), **given))
    return [out.to(torch.bfloat16 if q[0].dtype == torch.float8_e4m3fn else q[0].dtype) for out in outs]


def flash_attn_func(
    q, k, v, softmax_scale, causal=False, window_size=(-1, -1), softcap=0.0,
    q_descale=None, k_descale=None, v_descale=None,
):  # fmt: skip
    """(batch, length, heads, head_dim)."""
    scales = {"q": q_descale, "k": k_descale, "v": v_descale}
    return torch.stack(each(q, k, v, scales, scale=softmax_scale, causal=causal, window=window_size, softcap=softcap))


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal=False,
    window_size=(-1, -1), softcap=0.0, q_descale=None, k_descale=None, v_descale=None,
):  # fmt: skip
    """(all tokens, heads, head_dim), and where each sequence ends."""
    assert cu_seqlens_q.dtype == torch.int32
    lengths = (cu_seqlens_q[1:] - cu_seqlens_q[:-1]).tolist()
    assert max(lengths) == max_seqlen_q == max_seqlen_k
    assert torch.equal(cu_seqlens_q, cu_seqlens_k)
    scales = {"q": q_descale, "k": k_descale, "v": v_descale}
    assert all(scale is None or len(scale) == len(lengths) for scale in scales.values())
    given = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    return torch.cat(each(q.split(lengths), k.split(lengths), v.split(lengths), scales, **given))


def without_scales(function, unseen):
    """As in flash-attn-4: no scales, None for no window, the log-sum-exp beside the output."""

    def called(*operands, window_size=unseen, **given):
        assert not any(name.endswith("descale") for name in given)
        return function(*operands, window_size=window_size, **given), None

    return called


@pytest.fixture
def three(monkeypatch):
    module = types.ModuleType("flash_attn_interface")
    module.flash_attn_func, module.flash_attn_varlen_func = flash_attn_func, flash_attn_varlen_func
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def four(monkeypatch):
    module = types.ModuleType("flash_attn.cute")
    module.flash_attn_func = without_scales(flash_attn_func, (None, None))
    module.flash_attn_varlen_func = without_scales(flash_attn_varlen_func, (None, None))
    monkeypatch.setitem(sys.modules, "flash_attn", types.ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def tried(name, dtype, form, direction="train"):
    return trial.attempt(Cell(name, dtype, 64, form, direction), registry.backend(name), "cpu", 5)


@pytest.mark.parametrize("form", FORMS)
def test_flash_attention_3(three, form):
    """It is given what its docstring asks for, in half precision with gradients, in float8 without."""
    assert tried("flash-attn-3", "bfloat16", form)["outcome"] == "right"
    assert tried("flash-attn-3", "float8_e4m3fn", form, "forward")["outcome"] == "right"


@pytest.mark.parametrize("form", FORMS)
def test_flash_attention_4(four, form):
    """It is given what its docstring asks for."""
    assert tried("flash-attn-4", "bfloat16", form)["outcome"] == "right"


def test_the_first_betas_of_flash_attention_3(three):
    """They gave the log-sum-exp beside the output."""
    three.flash_attn_func = lambda *operands, **given: (flash_attn_func(*operands, **given), None)

    assert tried("flash-attn-3", "bfloat16", "causal")["outcome"] == "right"


def test_a_wrong_window_would_show(three):
    """The stand-in is no yes-man: a window that is one key too wide comes out wrong."""
    three.flash_attn_func = lambda *operands, window_size, **given: flash_attn_func(
        *operands, window_size=(window_size[0] + 32, 0), **given
    )

    assert tried("flash-attn-3", "bfloat16", "window")["outcome"] == "wrong"


def test_a_build_without_float8(three):
    """Whoever built it left float8 out: that is not offered, and no fault."""

    def refusing(q, *others, **given):
        if q.dtype == torch.float8_e4m3fn:
            raise RuntimeError(
                "run_mha_fwd, flash_api_stable.cpp:427, This flash attention build does not support FP8."
            )
        return flash_attn_func(q, *others, **given)

    three.flash_attn_func = refusing
    found = tried("flash-attn-3", "float8_e4m3fn", "dense", "forward")

    assert (found["outcome"], found["reason"]) == (
        "not offered",
        "This flash attention build does not support FP8.",
    )
    assert tried("flash-attn-3", "float16", "dense")["outcome"] == "right"
