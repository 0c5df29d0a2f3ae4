"""Assertions about one attention function, `attend(q, k, v)`, by changing tokens and beside float64.

Nothing here knows how the function works: q, k and v are random, and tokens of them are changed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from .guard.guard import Guard
from .kernels.truth import distance, limits
from .semantics.compare import REACHES, ROUNDING, difference, shown
from .trace.record import ops

Attend = Callable[..., Any]
Shape = Tuple[int, int, int, int]
_SHAPE: Shape = (2, 4, 24, 16)
_HALVES = ("bfloat16", "float16")


class Attention:
    """Each method raises AssertionError with what was seen, and returns nothing."""

    def is_causal(self, attend: Attend, **options: Any) -> None:
        """No token moves the output of an earlier one, nor gets a gradient from its loss; each sees those before it."""
        for given in _each(options):
            for cut in {1, given.length // 2, given.length - 1}:
                self._apart(attend, given, slice(0, cut), slice(cut, None), "a token reaches an earlier one", {})
            first, last = slice(0, 1), slice(given.length - 1, None)
            assert given.moved(attend, last, first, {}) > REACHES, "the first token does not reach the last one"

    def is_isolated(self, attend: Attend, *, as_lengths: bool = False, **options: Any) -> None:
        """`attend(q, k, v, documents)`: nothing reaches another document. `documents` is [batch, length], the number
        of each token's document; with `as_lengths` cu_seqlens, and q, k, v are packed: [tokens, heads, head_dim]."""
        for given in _each({**options, **({"layout": "thd", "batch": 1} if as_lengths else {})}):
            ends = [0, given.length // 3, given.length // 3 + 1, given.length]  # one has a single token
            numbers = torch.bucketize(torch.arange(given.length), torch.tensor(ends[1:-1]), right=True)
            told = torch.tensor(ends, dtype=torch.int32) if as_lengths else numbers.expand(given.shape[0], -1)
            extra = {"documents": told.to(given.device)}
            for start, end in zip(ends, ends[1:]):
                for other in (slice(0, start), slice(end, None)):
                    if len(range(given.length)[other]):
                        words = "a document reaches another one"
                        self._apart(attend, given, slice(start, end), other, words, extra)
            last = slice(ends[-2], None)
            assert given.moved(attend, last, last, extra) > REACHES, "a document does not reach itself"

    def is_right(self, attend: Attend, *, causal: bool = False, scale: Optional[float] = None, **options: Any) -> None:
        """Output and gradients are within a small multiple of what plain attention in the same dtype is off by, beside
        float64."""
        for given in _each(options):
            wanted = _plain(given, torch.float64, causal, scale)
            own = _plain(given, given.dtype, causal, scale)
            found = given.results(attend)
            kind = ops.short(given.dtype)
            most = limits({name: distance(own[name], one)["relative"] for name, one in wanted.items()}, kind)
            for name, one in found.items():
                assert bool(one.isfinite().all()), "{}: {} is not finite".format(kind, name)
                off = distance(one, wanted[name])["relative"]
                words = "{}: {} is off by {:.2g} of its size from float64; {:.2g} is allowed".format(
                    kind, name, off, most[name]
                )
                assert off <= most[name], words

    def keeps_dtype(self, attend: Attend, **options: Any) -> None:
        """Half precision in, the same out and in the gradients, and no attention call inside gets another one."""
        for given in _each({"dtypes": _HALVES, **options}):
            guard = Guard(every=1, rows=1).start()
            try:
                found = given.results(attend)
            finally:
                guard.stop()
            kind = ops.short(given.dtype)
            for name, one in found.items():
                assert one.dtype is given.dtype, "{} in, {} is {}".format(kind, name, ops.short(one.dtype))
            for call in guard.answer()["attention"]:
                got = {role: one["dtype"] for role, one in call["operands"].items() if role in "qkv"}
                assert set(got.values()) == {kind}, "{} in, {} gets {}".format(kind, call["name"], got)

    def _apart(
        self, attend: Attend, given: Given, still: slice, changed: slice, words: str, extra: Dict[str, Any]
    ) -> None:
        limit = ROUNDING if given.dtype is torch.float32 else REACHES
        moved = given.moved(attend, still, changed, extra)
        place = "tokens {} moved by tokens {}".format(_shown(still, given), _shown(changed, given))
        assert moved < limit, "{}: {}, {}".format(words, place, shown(moved))
        for name, gradient in given.gradients(attend, still, extra).items():
            part = given.tokens(gradient, changed).abs()
            worst = float(part.max()) if part.numel() else 0.0
            size = max(float(gradient.abs().max()), 1e-30)
            assert worst <= limit * size, "{}, backward: {} of tokens {} gets a gradient from tokens {}".format(
                words, name, _shown(changed, given), _shown(still, given)
            )


def _shown(part: slice, given: Given) -> str:
    places = range(given.length)[part]
    return "{} to {}".format(places[0], places[-1]) if len(places) > 1 else str(places[0])


class Given:
    """Random q, k and v of one dtype, in one layout."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: str, layout: str, groups: Optional[int]) -> None:
        if layout not in _LENGTH_AT:
            raise ValueError("layout {!r}: one of {}".format(layout, ", ".join(_LENGTH_AT)))
        self.shape, self.dtype, self.device, self.layout = shape, dtype, device, layout
        batch, heads, self.length, dim = shape
        generator = torch.Generator().manual_seed(7)
        sizes = (heads, groups or heads, groups or heads)
        made = [torch.randn(batch, size, self.length, dim, generator=generator) for size in sizes]
        self.operands = [one.to(device, dtype) for one in made]
        self.others = [torch.randn(one.shape, generator=generator).to(device, dtype) for one in made]

    def laid_out(self, tensor: torch.Tensor) -> torch.Tensor:
        """From [batch, heads, length, dim]."""
        if self.layout == "bhld":
            return tensor
        turned = tensor.transpose(1, 2)
        return turned.contiguous() if self.layout == "blhd" else turned.flatten(0, 1)

    def tokens(self, tensor: torch.Tensor, part: slice) -> torch.Tensor:
        """These tokens of a tensor in the layout."""
        return tensor[(slice(None),) * _LENGTH_AT[self.layout] + (part,)]

    def call(self, attend: Attend, operands: List[torch.Tensor], extra: Dict[str, Any]) -> torch.Tensor:
        out = attend(*operands, *extra.values())
        out = out[0] if isinstance(out, (tuple, list)) else out
        size = out.shape[_LENGTH_AT[self.layout]] if out.dim() > _LENGTH_AT[self.layout] else None
        assert size == self.length, "its output {} has no row for each of {} tokens in layout {}".format(
            tuple(out.shape), self.length, self.layout
        )
        return out

    def moved(self, attend: Attend, still: slice, changed: slice, extra: Dict[str, Any]) -> float:
        """How far outputs at `still` move when q, k and v at `changed` do, in standard deviations."""
        other = [one.clone() for one in self.operands]
        for one, new in zip(other, self.others):
            one[:, :, changed] = new[:, :, changed]
        with torch.no_grad():
            first = self.call(attend, [self.laid_out(one) for one in self.operands], extra)
            second = self.call(attend, [self.laid_out(one) for one in other], extra)
        return difference(self.tokens(first, still), self.tokens(second, still))

    def leaves(self) -> List[torch.Tensor]:
        return [self.laid_out(one).detach().clone().requires_grad_(True) for one in self.operands]

    def gradients(self, attend: Attend, of: slice, extra: Dict[str, Any]) -> Dict[str, torch.Tensor]:
        """Gradients of q, k and v from a loss over these tokens alone; nothing where it has none."""
        leaves = self.leaves()
        out = self.call(attend, leaves, extra)
        if not out.requires_grad:
            return {}
        self.tokens(out, of).float().pow(2).sum().backward()
        return {name: one.grad for name, one in zip("qkv", leaves) if one.grad is not None}

    def results(self, attend: Attend) -> Dict[str, torch.Tensor]:
        """The output and the gradients of q, k and v, as [batch, heads, length, dim]."""
        leaves = self.leaves()
        out = self.call(attend, leaves, {})
        found = {"out": out.detach()}
        if out.requires_grad:
            weights = self.laid_out(_weights(self))
            got = torch.autograd.grad(out, leaves, weights.to(out.dtype), allow_unused=True)
            found.update({"d" + name: one for name, one in zip("qkv", got) if one is not None})
        return {name: one if self.layout == "bhld" else one.transpose(1, 2) for name, one in found.items()}


_LENGTH_AT = {"bhld": 2, "blhd": 1, "thd": 0}


def _weights(given: Given) -> torch.Tensor:
    generator = torch.Generator().manual_seed(11)
    return torch.randn(given.shape, generator=generator).to(given.device)


def _plain(given: Given, dtype: torch.dtype, causal: bool, scale: Optional[float]) -> Dict[str, torch.Tensor]:
    """softmax(q kᵀ · scale) v in that dtype, with its gradients."""
    leaves = [one.to(dtype).requires_grad_(True) for one in given.operands]
    q, k, v = leaves
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = (q * (scale if scale is not None else q.shape[-1] ** -0.5)) @ k.transpose(-2, -1)
    if causal:
        seen = torch.ones(given.length, given.length, dtype=torch.bool, device=given.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    out = scores.softmax(-1) @ v
    got = torch.autograd.grad(out, leaves, _weights(given).to(dtype))
    return {"out": out.detach(), **{"d" + name: one for name, one in zip("qkv", got)}}


def _each(options: Dict[str, Any]) -> List[Given]:
    """One set of operands for each dtype. Raises TypeError for options that there are not."""
    known = {"shape", "dtype", "dtypes", "device", "layout", "groups", "batch"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError("no such option: {}; there are {}".format(", ".join(unknown), ", ".join(sorted(known))))
    shape = tuple(options.get("shape") or _SHAPE)
    batch = int(options.get("batch") or shape[0])
    dtypes = [options["dtype"]] if "dtype" in options else options.get("dtypes") or ("float32",)
    named = [getattr(torch, one) if isinstance(one, str) else one for one in dtypes]
    device, layout = str(options.get("device") or "cpu"), str(options.get("layout") or "bhld")
    whole: Shape = (batch, *shape[1:])
    return [Given(whole, dtype, device, layout, options.get("groups")) for dtype in named]
