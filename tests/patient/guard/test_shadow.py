"""Sampled rows in float64: sound kernels of every form stay inside the limit, planted faults do not."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

from attn_doctor.patient.guard import shadow  # noqa: E402


def made(dtype="float32", batch=2, heads=4, groups=2, length=40, keys=40, dim=16, large=1.0):
    generator = torch.Generator().manual_seed(0)

    def some(*shape):
        return (torch.randn(*shape, generator=generator) * large).to(getattr(torch, dtype))

    return {
        "q": some(batch, heads, length, dim),
        "k": some(batch, groups, keys, dim),
        "v": some(batch, groups, keys, dim),
    }


def attend(tensors, **given):
    return functional.scaled_dot_product_attention(
        tensors["q"], tensors["k"], tensors["v"], enable_gqa=tensors["q"].shape[1] != tensors["k"].shape[1], **given
    )


def wrong(tensors, given, out, count=24):
    rows = shadow.rows(shadow.of_sdpa(tensors, given, out), count, seed=1)
    assert rows
    return sum(bool(row.error > row.limit) for row in rows)


def band(length, keys):
    i, j = torch.arange(length)[:, None], torch.arange(keys)
    return (j <= i) & (i - j < 7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, {}),
        ({"is_causal": True}, {}),
        ({"is_causal": True}, {"keys": 23}),
        ({"scale": 0.7}, {"large": 6.0}),
        ({"attn_mask": band(40, 40)}, {}),
        ({"attn_mask": torch.randn(2, 1, 40, 40)}, {}),
        ({}, {"groups": 4, "length": 1}),
    ],
)
def test_sound_rows_are_inside_the_limit(dtype, given, shape):
    tensors = made(dtype, **shape)
    mask = given.get("attn_mask")
    if mask is not None and mask.dtype != torch.bool:
        given = {"attn_mask": mask.to(tensors["q"].dtype)}

    assert wrong(tensors, given, attend(tensors, **given)) == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "planted",
    [
        lambda tensors: attend(tensors, is_causal=True, scale=0.2),
        lambda tensors: attend(tensors),
        lambda tensors: attend(tensors, attn_mask=torch.ones(40, 40, dtype=torch.bool).tril(1)),
        lambda tensors: attend(tensors, is_causal=True).roll(1, 2),
        lambda tensors: attend({**tensors, "k": tensors["k"].flip(1)}, is_causal=True),
    ],
    ids=["scale", "no mask", "mask off by one", "rows shifted", "heads swapped"],
)
def test_planted_faults_are_outside_it(dtype, planted):
    tensors = made(dtype)

    assert wrong(tensors, {"is_causal": True}, planted(tensors)) > 0


def test_cancellation_in_v_alarms_nobody():
    tensors = made("bfloat16", groups=4)
    tensors["v"] = torch.cat([tensors["v"][:, :, :20], -tensors["v"][:, :, :20]], 2)
    tensors["k"] = torch.cat([tensors["k"][:, :, :20], tensors["k"][:, :, :20]], 2)

    assert wrong(tensors, {}, attend(tensors)) == 0


def test_a_row_without_a_key_is_not_judged():
    tensors, mask = made(), band(40, 40)
    mask[-1] = False

    assert wrong(tensors, {"attn_mask": mask}, attend(tensors, attn_mask=mask)) == 0


def test_dropout_cannot_be_shadowed():
    tensors = made()

    with pytest.raises(shadow.CannotShadow, match="dropout"):
        shadow.of_sdpa(tensors, {"dropout_p": 0.1}, tensors["q"])


def flash(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, starts=None):
    """flash_attn's functions, written out."""
    packed = q.dim() == 3
    q, k, v = (one[None] if packed else one for one in (q, k, v))
    i, j = torch.arange(q.shape[1])[:, None], torch.arange(k.shape[1])
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if starts is not None:
        seen = torch.bucketize(i, starts[1:-1], right=True) == torch.bucketize(j, starts[1:-1], right=True)
    at = i + k.shape[1] - q.shape[1]
    seen = seen & (j <= at) if causal else seen
    seen = seen & (at - j <= window_size[0]) if window_size[0] >= 0 else seen
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(2, 2)) * q.shape[-1] ** -0.5
    scores = torch.tanh(scores / softcap) * softcap if softcap else scores
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    out = torch.einsum("bhqk,bkhd->bqhd", weights, v.repeat_interleave(2, 2))
    return out[0] if packed else out


@pytest.mark.parametrize(
    "given", [{}, {"causal": True}, {"causal": True, "window_size": (5, -1)}, {"causal": True, "softcap": 2.0}]
)
@pytest.mark.parametrize("keys", [40, 53])
def test_flash_is_aligned_to_the_last_key(given, keys):
    tensors = {role: one.transpose(1, 2) for role, one in made(keys=keys).items()}
    out = flash(*tensors.values(), **given)

    def bad(other):
        rows = shadow.rows(shadow.of_flash(tensors, other, out), 24, 1)
        return sum(bool(row.error > row.limit) for row in rows)

    assert bad(given) == 0
    assert bad({**given, "softmax_scale": 0.3}) > 0
    assert bad({**given, "causal": not given.get("causal")}) > 0


def test_packed_documents_of_flash():
    tensors = {role: one[0].transpose(0, 1) for role, one in made().items()}
    starts = torch.tensor([0, 11, 40])
    right, leaking = (flash(*tensors.values(), causal=True, starts=one) for one in (starts, None))
    given = {"causal": True, "cu_seqlens_q": starts, "cu_seqlens_k": starts}

    def bad(out):
        return sum(bool(row.error > row.limit) for row in shadow.rows(shadow.of_flash(tensors, given, out), 24, 1))

    assert bad(right) == 0
    assert bad(leaking) > 0
