"""Packed documents: what the first moves in the second, in each form in which a trainer tells them apart."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from . import BROKEN, COULD_NOT_LOOK, HOLDS, NOT_APPLICABLE, REFUSED
from .checks import Check, judged, located, made
from .compare import REACHES, difference

if TYPE_CHECKING:
    from .subject import Subject

POSITIONS = "position_ids"
ONES = "position_ids + attention_mask of ones"
CACHE = "position_ids + use_cache"
LENGTHS = "position_ids + cu_seq_lens"
SEQ_IDX = "position_ids + seq_idx"
FOUR_D = "4-D mask + position_ids"
BLOCK = "BlockMask + position_ids"
_OF_THE_CALL = {
    ONES: "transformers looks for packed documents in position_ids only when no attention_mask is given",
    CACHE: "transformers looks for packed documents in position_ids only when there is no cache",
}
_OWN_NAMES = {
    "cu_seqlens": "lengths", "cu_seq_lens": "lengths", "seq_idx": "documents", "document_ids": "documents",
    "doc_ids": "documents", "segment_ids": "documents", "sequence_ids": "documents",
}  # fmt: skip


def packing(subject: Subject) -> List[Check]:
    """One check a form, and the gradient's for each form in which the documents were kept apart."""
    length, cut = subject.length, subject.boundary
    tokens = subject.words(1, length)
    other = subject.changed(tokens, slice(0, cut))
    with torch.no_grad():
        plain = difference(subject.outputs(tokens)[:, cut:], subject.outputs(other)[:, cut:])
    if not plain > REACHES:
        words = "without any packing, too, the first tokens move nothing in the later ones"
        return [made("packing", COULD_NOT_LOOK, words)]
    forms = _forms(subject, tokens, cut)
    if not forms:
        words = "its forward takes nothing that tells documents apart"
        return [made("packing", NOT_APPLICABLE, words)]
    found = [_tried(subject, form, given, tokens, other, cut) for form, given in forms]
    safe = [str(one["form"]) for one in found if one["outcome"] == HOLDS]
    unmasked = {two["module"] for one in found if one["form"] in (FOUR_D, BLOCK) for two in one["culprits"]}
    for one in found:
        one["safe"] = safe
        if one["culprits"] and one["culprits"][0]["module"] in unmasked:
            # It passes a state on, and leaks under a mask too that tells the documents apart.
            one["mask"] = None
    gradients = [
        _gradient(subject, form, given, tokens, cut)
        for (form, given), one in zip(forms, found)
        if one["outcome"] == HOLDS
    ]
    return found + [one for one in gradients if one is not None][:2]


def _forms(subject: Subject, tokens: torch.Tensor, cut: int) -> List[Tuple[str, Dict[str, Any]]]:
    length = int(tokens.shape[1])
    positions = torch.cat([torch.arange(cut), torch.arange(length - cut)])[None].to(tokens.device)
    if not subject.is_transformers:
        return _own_forms(subject, positions, cut, length)
    if not subject.takes("position_ids") and not subject.takes_all:
        return []
    given: Dict[str, Any] = {"position_ids": positions}
    starts = torch.tensor([0, cut, length], dtype=torch.int32, device=tokens.device)
    longest = max(cut, length - cut)
    lengths = {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": longest, "max_length_k": longest}
    forms: List[Tuple[str, Dict[str, Any]]] = [
        (POSITIONS, given),
        (ONES, {**given, "attention_mask": torch.ones(1, length, dtype=torch.long, device=tokens.device)}),
        (CACHE, {**given, "use_cache": True}),
    ]
    if subject.takes_all:
        forms.append((LENGTHS, {**given, **lengths}))
        forms.append((SEQ_IDX, {**given, "seq_idx": _documents(cut, length, tokens.device).int()}))
    if subject.takes("attention_mask"):
        if getattr(subject.config, "_attn_implementation", None) == "flex_attention":
            forms.append((BLOCK, {**given, "attention_mask": _block_mask(cut, length, tokens.device)}))
        else:
            forms.append((FOUR_D, {**given, "attention_mask": _four_d(cut, length, tokens.device, torch.float32)}))
    return forms


def _own_forms(subject: Subject, positions: torch.Tensor, cut: int, length: int) -> List[Tuple[str, Dict[str, Any]]]:
    """Forms that a model of one's own names among its parameters."""
    device = subject.tokens.device
    batch = int(subject.tokens.shape[0])
    forms: List[Tuple[str, Dict[str, Any]]] = []
    starts = torch.tensor([0, cut, length], dtype=torch.int32, device=device)
    for name, kind in _OWN_NAMES.items():
        if subject.takes(name):
            value = starts if kind == "lengths" else _documents(cut, length, device).expand(batch, -1)
            forms.append((name, {name: value}))
    if not forms and subject.takes("position_ids"):
        forms.append((POSITIONS, {"position_ids": positions.expand(batch, -1)}))
    return forms


def _documents(cut: int, length: int, device: torch.device) -> torch.Tensor:
    return (torch.arange(length, device=device) >= cut).long()[None]


def _four_d(cut: int, length: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    documents = _documents(cut, length, device)[0]
    kept = (documents[:, None] == documents[None]).tril()
    return torch.zeros(length, length, dtype=dtype, device=device).masked_fill(~kept, torch.finfo(dtype).min)[
        None, None
    ]


def _block_mask(cut: int, length: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    documents = _documents(cut, length, device)[0]

    def kept(batch: Any, head: Any, q: Any, k: Any) -> Any:
        return (q >= k) & (documents[q] == documents[k])

    return create_block_mask(kept, 1, None, length, length, device=str(device))


def _tried(
    subject: Subject, form: str, given: Dict[str, Any], tokens: torch.Tensor, other: torch.Tensor, cut: int
) -> Check:
    length = int(tokens.shape[1])
    try:
        with torch.no_grad():
            one = subject.outputs(tokens, **_fresh(given))[:, cut:]
            two = subject.outputs(other, **_fresh(given))[:, cut:]
            # A mask that is given takes the place of a layer's own window.
            alone = _alone(subject, tokens, cut) if form not in (FOUR_D, BLOCK) else None
    except Exception as error:  # noqa: BLE001
        words = "the call raises {}: {}".format(
            type(error).__name__, (str(error).strip().splitlines() or [""])[0][:160]
        )
        compiler = type(error).__name__ in ("InductorError", "BackendCompilerFailed", "CppCompileError")
        return made("packing", COULD_NOT_LOOK if compiler else REFUSED, words, form=form)
    whose = "call" if form in _OF_THE_CALL else "model"
    bad = "the first document moves outputs of the second"
    moved = difference(one, two)
    found = judged("packing", moved, "the first document moves nothing in the second", bad, form=form, whose=whose)
    if found["outcome"] == HOLDS and alone is not None:
        apart = difference(alone, one)
        if apart >= REACHES:
            found["words"] += "; yet its outputs are not those of the document alone, as if positions went on"
    if found["outcome"] == BROKEN:
        if whose == "call":
            found["words"] += "; " + _OF_THE_CALL[form]
        located(subject, found, tokens, slice(0, cut), slice(cut, length), **given)
    return found


def _fresh(given: Dict[str, Any]) -> Dict[str, Any]:
    return dict(given)


def _alone(subject: Subject, tokens: torch.Tensor, cut: int) -> Optional[torch.Tensor]:
    """The outputs of the second document by itself."""
    if not subject.is_transformers:
        return None
    with contextlib.suppress(Exception):
        return subject.outputs(tokens[:, cut:])
    return None


def _gradient(subject: Subject, form: str, given: Dict[str, Any], tokens: torch.Tensor, cut: int) -> Optional[Check]:
    """The loss of the second document reaches no embedding of the first."""
    embedding = subject.embedding()
    if embedding is None:
        return None
    kept: List[torch.Tensor] = []

    def hook(module: torch.nn.Module, args: Any, output: Any) -> Any:
        if not kept and isinstance(output, torch.Tensor) and output.is_floating_point():
            kept.append(output.detach().requires_grad_(True))
            return kept[0].clone()  # what follows may change it in place, which a leaf refuses
        return None

    handle = embedding.register_forward_hook(hook)
    try:
        with torch.enable_grad():
            loss = subject.outputs(tokens, **_fresh(given))[:, cut:].double().pow(2).sum()
            loss.backward()
    except Exception as error:  # noqa: BLE001
        words = "no gradient can be taken: {}: {}".format(type(error).__name__, str(error).strip()[:120])
        return made("gradient", COULD_NOT_LOOK, words, form=form)
    finally:
        handle.remove()
        if subject.module is not None:
            subject.module.zero_grad(set_to_none=True)
    if not kept or kept[0].grad is None:
        return made("gradient", COULD_NOT_LOOK, "no gradient reaches the embeddings", form=form)
    gradient = kept[0].grad.double().abs()
    own = float(gradient[:, cut:].max())
    if own == 0.0:
        return made("gradient", COULD_NOT_LOOK, "no gradient reaches the embeddings", form=form)
    share = float(gradient[:, :cut].max()) / own
    bad = "the loss of the second document reaches embeddings of the first, though its outputs do not depend on them"
    found = judged(
        "gradient", share, "the loss of the second document reaches no embedding of the first", bad, form=form
    )
    found["whose"] = "model"
    return found
