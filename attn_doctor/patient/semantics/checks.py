"""Causality, padding, batch rows and windows of one model, each by a change that must move nothing."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch

from . import BROKEN, COULD_NOT_LOOK, HOLDS, NOT_APPLICABLE, mixers
from .compare import REACHES, ROUNDING, difference, shown
from .culprit import culprits, where_lengths_part
from .rows import at, put_at

if TYPE_CHECKING:
    from .subject import Subject

Check = Dict[str, Any]


def made(name: str, outcome: str, words: str, **more: Any) -> Check:
    """One check of the answer, with every key."""
    empty: Check = {"form": None, "difference": None, "whose": None, "culprits": [], "mask": None, "safe": []}
    return {"name": name, "outcome": outcome, "words": words, **empty, **more}


def judged(name: str, moved: float, good: str, bad: str, limit: float = ROUNDING, **more: Any) -> Check:
    """A check by its largest difference: below rounding it holds, above REACHES it is broken."""
    if math.isnan(moved):
        return made(name, COULD_NOT_LOOK, "the model gives no finite number to compare", **more)
    told = None if math.isinf(moved) else float("{:.3g}".format(moved))
    if moved < limit:
        return made(name, HOLDS, good, difference=told, **more)
    if moved < REACHES:
        words = "{} apart: more than rounding, less than a token that reaches another".format(shown(moved))
        return made(name, COULD_NOT_LOOK, words, difference=told, **more)
    return made(name, BROKEN, "{}: {}".format(bad, shown(moved)), difference=told, **more)


def influence(subject: Subject) -> torch.Tensor:
    """Entry [j, i]: how far the output of token i moves, in standard deviations, when token j changes."""
    length = subject.length
    tokens = subject.words(1, length)
    one = [subject.changed(tokens, slice(j, j + 1)) for j in range(length)]
    with torch.no_grad():
        if subject.is_transformers:
            found = subject.outputs(torch.cat([tokens, *one]))
            base, moved = found[:1], [found[j + 1 : j + 2] for j in range(length)]
        else:
            base = subject.outputs(tokens)
            moved = [subject.outputs(other) for other in one]
    spread = max(float(base.double().std()), 1e-12)
    rows = [(other.double() - base.double()).abs().amax(dim=(0, *range(2, base.dim()))) / spread for other in moved]
    return torch.stack(rows)


def causality(subject: Subject) -> Check:
    """No token moves the output of an earlier one; says whose fault it is when one does."""
    matrix = influence(subject)
    length = subject.length
    if bool(matrix.isnan().any()):
        return made("causality", COULD_NOT_LOOK, "the model gives no finite number to compare")
    later = torch.tril(matrix, -1)  # [j, i] with i < j: a later token moves an earlier one
    worst = float(later.max())
    reaches = torch.triu(matrix, 1) > REACHES
    if worst < REACHES:
        if not bool(reaches.any()):
            return made("causality", COULD_NOT_LOOK, "no token moves another one's output: nothing here mixes tokens")
        return judged("causality", worst, "a later token moves no earlier one's output", "")
    back = later > REACHES
    pairs = length * (length - 1) // 2
    if int(back.sum()) == pairs and _may_look_ahead(subject):
        odd = _odd_one(subject)
        if odd is not None:
            return odd
        return made("causality", NOT_APPLICABLE, "every token reaches every other one: it attends in both directions")
    whole = _prefix(back)
    if whole and _may_look_ahead(subject):
        words = "the first {} tokens reach each other in both directions, as a prefix does".format(whole)
        return made("causality", NOT_APPLICABLE, words)
    j = int(later.max(dim=1).values.argmax())
    found = judged("causality", worst, "", "a later token moves the output of an earlier one" + _form(back, reaches))
    located(subject, found, subject.words(1, length), slice(j, j + 1), slice(0, j))
    found["whose"] = "model"
    return found


def _odd_one(subject: Subject) -> Optional[Check]:
    """The module that sees what no other of its class sees, where all together see everything."""
    if subject.module is None:
        return None
    tokens = subject.words(1, subject.length)
    found = mixers.mixers(subject, tokens)
    sees: Dict[str, torch.Tensor] = {}
    for one in found:
        own = mixers.own_influence(subject, one["module"], tokens)
        if own is not None:
            sees[one["module"]] = own
    ahead = {name: bool(torch.tril(own, -1).any()) for name, own in sees.items()}
    behind = {name: bool(torch.triu(own, 1).any()) for name, own in sees.items()}
    inverted = [one for one in found if ahead.get(one["module"]) and not behind[one["module"]]]
    looking = [one for one in found if ahead.get(one["module"])]
    causal = [one for one in found if one["module"] in ahead and not ahead[one["module"]]]
    if inverted and causal:
        words = "the tokens of this layer see later ones and no earlier one, as under an inverted mask"
        return made("causality", BROKEN, words, whose="model", culprits=inverted)
    alike = {one["type"] for one in causal} & {one["type"] for one in looking}
    if alike and not _says_which(subject, found):
        words = "the tokens of this layer see later ones, those of other layers of its class do not"
        return made(
            "causality", BROKEN, words, whose="model", culprits=[one for one in looking if one["type"] in alike]
        )
    return None


def _says_which(subject: Subject, found: List[Check]) -> bool:
    """Whether these modules say by an attribute which of them are causal, as an encoder and a decoder do."""
    assert subject.module is not None
    named = dict(subject.module.named_modules())
    says = [
        getattr(named[one["module"]], name, None) for one in found for name in ("is_causal", "causal", "is_decoder")
    ]
    return True in says and False in says


def _form(back: torch.Tensor, reaches: torch.Tensor) -> str:
    if not bool(reaches.any()):
        return " and no earlier one a later one's, as under an inverted mask"
    farthest = max(int(j) - int(i) for j, i in back.nonzero())
    return ", of {} before it".format("one" if farthest == 1 else "up to {}".format(farthest))


def _prefix(back: torch.Tensor) -> int:
    """The length of a prefix within which later tokens reach earlier ones, when they do so nowhere else; else 0."""
    last = int(back.nonzero()[:, 0].max()) + 1
    inner = back[:last, :last]
    return last if last < len(back) and int(inner.sum()) == last * (last - 1) // 2 else 0


def _may_look_ahead(subject: Subject) -> bool:
    """True unless the model says that it is causal: then a mask that is missing altogether is a fault."""
    if subject.is_transformers:
        from transformers.models.auto import modeling_auto  # type: ignore[import-not-found, import-untyped, unused-ignore]

        encoders = getattr(modeling_auto, "MODEL_FOR_MASKED_LM_MAPPING_NAMES", {})
        kind = getattr(subject.config, "model_type", "")
        by_config = kind in encoders and not getattr(subject.config, "is_decoder", False)
        causal = type(subject.module).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        return by_config or subject.takes("perm_mask") is not None or not causal
    says = ("is_causal", "causal")
    return not any(
        getattr(one, name, None) is True
        for one in (subject.module.modules() if subject.module is not None else ())
        for name in says
    )


def located(subject: Subject, found: Check, tokens: torch.Tensor, change: slice, still: slice, **given: Any) -> None:
    """Adds the guilty modules to a check: tokens at `change` were changed, outputs at `still` must not move."""
    if subject.module is None or found["outcome"] != BROKEN:
        return
    length = int(tokens.shape[1])
    other = subject.changed(tokens, change)
    with contextlib.suppress(Exception):
        found["culprits"], mask = culprits(
            subject.module,
            lambda: subject.call(tokens, **given),
            lambda: subject.call(other, **given),
            at(still, length),
            put_at(still, length),
            length,
        )
        if mask is not None:
            allows = mask.pop("allows")
            if allows is not None:
                open_pairs = int(allows[still, change].sum())
                all_pairs = int(allows[still, change].numel())
                mask["words"] += ", which lets {} of these {} pairs through".format(open_pairs, all_pairs)
        found["mask"] = mask


def batch_rows(subject: Subject) -> Check:
    """Another row of the batch moves nothing in this one."""
    if not subject.is_transformers and subject.tokens.shape[0] < 2:
        return made("batch-rows", NOT_APPLICABLE, "its example has one row")
    tokens = subject.words(2, subject.length)
    other = tokens.clone()
    other[1:] = subject.changed(tokens[1:], slice(0, subject.length))
    with torch.no_grad():
        moved = difference(subject.outputs(tokens)[:1], subject.outputs(other)[:1])
    bad = "another row of the batch moves this row's output"
    found = judged("batch-rows", moved, "another row of the batch moves nothing in this one", bad, whose="model")
    if found["outcome"] == BROKEN and subject.module is not None:
        with contextlib.suppress(Exception):
            found["culprits"], _ = culprits(
                subject.module,
                lambda: subject.call(tokens),
                lambda: subject.call(other),
                _first_row,
                lambda one, good: torch.cat([good[:1], one[1:]]) if one.shape == good.shape else one,
                subject.length,
            )
    return found


def _first_row(tensor: torch.Tensor) -> Optional[torch.Tensor]:
    return tensor[:1] if tensor.dim() >= 3 else None


_MASK = ("attention_mask", "padding_mask", "key_padding_mask")


def padding(subject: Subject) -> List[Check]:
    """What padding holds moves nothing, on either side; and padded is unpadded."""
    name = subject.takes(*_MASK)
    if name is None:
        words = "its forward takes no {}".format(" and no ".join(_MASK))
        return [made(one, NOT_APPLICABLE, words) for one in ("padding-left", "padding-right", "padded-equals-unpadded")]
    if name == "key_padding_mask":
        return [made("padding-left", NOT_APPLICABLE, "what key_padding_mask means differs between libraries")]
    return [_padded(subject, name, left=True), _padded(subject, name, left=False), _unpadded(subject, name)]


def _padded(subject: Subject, name: str, *, left: bool) -> Check:
    length, cut = subject.length, subject.boundary
    pads, rest = (slice(0, cut), slice(cut, length)) if left else (slice(length - cut, length), slice(0, length - cut))
    tokens = subject.words(1, length)
    given = _mask_of(subject, name, tokens, pads)
    check = "padding-left" if left else "padding-right"
    with torch.no_grad():
        one = subject.outputs(tokens, **given)
        two = subject.outputs(subject.changed(tokens, pads), **given)
    bad = "what padding on the {} holds moves the outputs of tokens".format("left" if left else "right")
    moved = difference(one[:, rest], two[:, rest])
    found = judged(check, moved, "what padding holds moves nothing", bad, whose="model")
    located(subject, found, tokens, pads, rest, **given)
    return found


def _mask_of(subject: Subject, name: str, tokens: torch.Tensor, pads: slice) -> Dict[str, torch.Tensor]:
    kept = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
    kept[:, pads] = 0
    given = {name: kept}
    if subject.takes("position_ids"):
        # As transformers' generate() makes them.
        given["position_ids"] = (kept.cumsum(-1) - 1).clamp(min=0)
    return given


def _unpadded(subject: Subject, name: str) -> Check:
    check = "padded-equals-unpadded"
    if not subject.is_transformers:
        return made(check, NOT_APPLICABLE, "its example has one length")
    length, cut = subject.length, subject.boundary
    tokens = subject.words(1, length)
    with torch.no_grad():
        given = _mask_of(subject, name, tokens, slice(0, cut))
        padded = subject.outputs(tokens, **given)[:, cut:]
        own = {"position_ids": given["position_ids"][:, cut:]} if "position_ids" in given else {}
        alone = subject.outputs(tokens[:, cut:], **own)
    bad = "a sequence padded on the left gives other outputs than without padding"
    apart = difference(alone, padded)
    found = judged(check, apart, "padded on the left it gives the same as unpadded", bad, whose="model")
    if found["outcome"] == BROKEN and not own:
        words = "it takes no position_ids and counts positions with the padding: pad on the right"
        return made(check, NOT_APPLICABLE, words, difference=found["difference"])
    if found["outcome"] == BROKEN and subject.module is not None:
        with contextlib.suppress(Exception):
            found["culprits"] = where_lengths_part(
                subject.module,
                lambda: subject.call(tokens, **given),
                lambda: subject.call(tokens[:, cut:], **own),
                length,
                cut,
            )
    return found
