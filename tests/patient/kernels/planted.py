"""Kernels with planted faults, with the arguments of scaled_dot_product_attention: for tests and bench/kernels.py."""

import os
import signal
import time

import torch
import torch.nn.functional as F


def right(q, k, v, **given):
    return F.scaled_dot_product_attention(q, k, v, **given)


def off_by_two_per_cent(q, k, v, **given):
    return right(q, k, v, **given) * 1.02


def tile_unwritten(q, k, v, **given):
    whole = right(q, k, v, **given)
    out = torch.empty_like(whole)
    out[:, :, :128] = whole[:, :, :128]
    out[:, :, 192:] = whole[:, :, 192:]
    return out


def gradient_off(q, k, v, **given):
    class Off(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 0.5

    return right(q, Off.apply(k), v, **given)


def hangs(q, k, v, **given):
    if given["is_causal"]:
        time.sleep(3600)
    return right(q, k, v, **given)


def crashes(q, k, v, **given):
    if given["is_causal"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(q, k, v, **given)


def leaves(q, k, v, **given):
    if given["is_causal"]:
        os._exit(3)
    return right(q, k, v, **given)


def rows_dropped(q, k, v, **given):
    out = right(q, k, v, **given)
    rest = q.shape[2] % 64  # a kernel that forgets what does not fill a tile
    return out if not rest else torch.cat([out[:, :, :-rest], torch.zeros_like(out[:, :, -rest:])], dim=2)


def strides_swapped(q, k, v, **given):
    def as_if_contiguous(x):
        room = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size() - x.storage_offset(),), (1,))
        return room[: x.numel()].view(x.shape) if 0 not in x.stride() else x

    return right(as_if_contiguous(q), as_if_contiguous(k), as_if_contiguous(v), **given)


kept = {}


def cache_stale(q, k, v, **given):
    key = (tuple(k.shape), k.dtype, k.device, given["is_causal"])
    kept.setdefault(key, k.detach().clone())
    return right(q, kept[key] + 0 * k, v, **given)


def mask_off_by_one(q, k, v, **given):
    if given["is_causal"]:
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(1)
        given = {**given, "is_causal": False, "attn_mask": seen}
        given.pop("enable_gqa", None)
    return right(q, k, v, **given)


def wrong_scale(q, k, v, **given):
    return right(q, k, v, **{**given, "scale": given["scale"] * 1.05})


def no_key_no_zero(q, k, v, **given):
    mask = given["attn_mask"]
    if mask is not None and mask.dtype == torch.bool:
        given = {**given, "attn_mask": mask | ~mask.any(-1, keepdim=True)}
    return right(q, k, v, **given)


def refuses(q, k, v, **given):
    if q.dtype == torch.float32:
        raise RuntimeError("only fp16 and bf16, says this kernel")
    return right(q, k, v, **given)
