"""Task `kernels.explain_sdpa`: which backend scaled_dot_product_attention chooses for a call, and why not the others.

Request: `call` (q, k, v: {"shape", "dtype"}; mask: the same or None; causal, train, gqa, dropout), `gpu` (None: uses
the first GPU that torch sees; else the GPU to predict for). Answer: explanation. On a GPU it contains torch's own
choice, torch's warnings when each backend is tried alone, and the prediction as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from .. import answers as _answers
from .. import imports, outcomes, torch_facts
from ..simulate.cuda import simulated_gpu
from ..simulate.sdpa import backends as sdpa_backends
from ..simulate.sdpa import choice as sdpa_choice
from ..simulate.sdpa.rules import Call, Tensor

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor as TorchTensor

Operands = Tuple["TorchTensor", "TorchTensor", "TorchTensor", Optional["TorchTensor"]]
"""q, k, v and the mask."""

BACKENDS = ("flash", "efficient", "cudnn", "math")
_CHOICES = {-1: None, 0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}


def main(request: Dict[str, Any], answers: str) -> None:
    _answers.write(answers, "explanation", _explained(request))
    sys.stdout.flush()
    os._exit(0)


def _explained(request: Dict[str, Any]) -> Dict[str, object]:
    outcome, error = imports.attempt("torch")
    if outcome["outcome"] != outcomes.IMPORTED:
        return {"error": "torch cannot be imported: {}".format(error)}
    torch = sys.modules["torch"]
    call = call_of(request["call"])
    if request.get("gpu"):
        gpu = simulated_gpu.from_request(request["gpu"])
        return {"torch": str(torch.__version__), **predicted(call, gpu, str(torch.__version__), None)}
    if torch_facts.is_cpu_build(torch):
        return {"torch": str(torch.__version__), "error": torch_facts.cpu_build(torch)["reason"]}
    cuda = torch_facts.cuda(torch)
    if not cuda["devices"] or "error" in cuda["devices"][0]:
        return {"torch": str(torch.__version__), "error": cuda.get("reason") or "torch sees no GPU"}
    device = cuda["devices"][0]
    gpu = simulated_gpu.Gpu(
        name=device["name"], capability=simulated_gpu.capability(device["compute_capability"]), shared_memory=0
    )
    guess = predicted(call, gpu, str(torch.__version__), torch.backends.cudnn.version())
    try:
        found = asked(torch, call)
    except Exception as raised:  # noqa: BLE001
        return {"torch": str(torch.__version__), **guess, "could_not_ask": torch_facts.last_line(raised)}
    if found["chosen"] not in (None, "flash") and "flash" not in found["refused"]:
        guess["changes"] = [{"changes": [_before_flash(found["chosen"])]}]
    return {
        **guess,
        **found,
        "torch": str(torch.__version__),
        "how": "asked",
        "certain": True,
        "doubts": [],
        "predicted": {"chosen": guess["chosen"], "refused": guess["refused"]},
    }


def call_of(written: Dict[str, Any]) -> Call:
    def tensor(one: Dict[str, Any]) -> Tensor:
        return Tensor(shape=tuple(one["shape"]), dtype=one["dtype"], requires_grad=bool(written["train"]))

    mask = written.get("mask")
    return Call(
        query=tensor(written["q"]),
        key=tensor(written["k"]),
        value=tensor(written["v"]),
        mask=Tensor(shape=tuple(mask["shape"]), dtype=mask["dtype"]) if mask else None,
        causal=bool(written["causal"]),
        dropout=float(written["dropout"]),
        enable_gqa=bool(written["gqa"]),
        grad_mode=bool(written["train"]),
    )


def predicted(call: Call, gpu: simulated_gpu.Gpu, torch_version: str, cudnn: Optional[int]) -> Dict[str, object]:
    """The prediction from rules read in torch's source; does not access a GPU."""
    choice = sdpa_choice.choose(call, gpu, torch_version, cudnn)
    refused = {name: [reason] for name, reason in choice.refused.items()}
    if choice.backend not in (None, "math"):
        refused.update(_math_refuses(call))
    return {
        "how": "predicted",
        "gpu": gpu.name,
        "compute_capability": "{}.{}".format(*gpu.capability),
        "chosen": choice.backend,
        "refused": refused,
        "error": None,
        "raises": choice.error,
        "certain": choice.certain,
        "doubts": list(choice.doubts),
        "warnings": list(choice.warnings),
        "changes": changes(call, gpu, torch_version, cudnn) if choice.backend != "flash" else [],
    }


def _math_refuses(call: Call) -> Dict[str, List[str]]:
    """Why math fails; torch does not check math before it calls it, so it has no warnings."""
    reason = sdpa_backends.math(call)
    return {"math": [reason]} if reason is not None else {}


def asked(torch: ModuleType, call: Call) -> Dict[str, Any]:
    """torch's own result on the current GPU: its choice, and its warnings about each backend alone."""
    tensors = tensors_of(torch, call, "cuda")
    found: Dict[str, Any] = {"chosen": None, "refused": {}, "raises": None}
    with torch.set_grad_enabled(call.grad_mode):
        given = {"attn_mask": tensors[3], "dropout_p": call.dropout, "is_causal": call.causal}
        if call.enable_gqa:
            given["enable_gqa"] = True
        try:
            found["chosen"] = _CHOICES.get(int(torch._fused_sdp_choice(*tensors[:3], **given)))
        except RuntimeError as error:
            found["raises"] = str(error).splitlines()[0]
        for name in BACKENDS[:3]:
            takes, reasons = can_use(torch, name, tensors, call)
            if not takes:
                found["refused"][name] = reasons
    if found["chosen"] not in (None, "math"):
        found["refused"].update(_math_refuses(call))
    return found


def tensors_of(torch: ModuleType, call: Call, device: str) -> Operands:
    """q, k, v and the mask, with memory but without values, which torch does not read here."""

    def made(tensor: Tensor) -> Any:
        one = torch.empty(tensor.shape, dtype=getattr(torch, tensor.dtype), device=device)
        return one.requires_grad_(True) if tensor.requires_grad else one

    return (*(made(tensor) for tensor in call.tensors), made(call.mask) if call.mask is not None else None)


def can_use(torch: ModuleType, name: str, tensors: Operands, call: Call) -> Tuple[bool, List[str]]:
    """Whether that fused backend accepts the call, and torch's warnings when it does not."""
    from .trial import refusals

    ask: Optional[Callable[..., bool]] = getattr(torch.backends.cuda, "can_use_{}_attention".format(name), None)
    if ask is None:
        return False, ["this torch has no such backend"]
    given: List[Any] = [*tensors, call.dropout, call.causal]
    try:
        params = torch.backends.cuda.SDPAParams(*given, call.enable_gqa)
    except TypeError:  # before 2.5
        params = torch.backends.cuda.SDPAParams(*given)
    with warnings.catch_warnings(record=True) as caught, _standard_error() as written:
        warnings.simplefilter("always")
        takes = bool(ask(params, True))
    # torch sends warnings to Python only with its own handler installed; here it writes them to standard error itself.
    said = [match.group(1) for match in _WARNING.finditer(written())]
    return takes, refusals([*(str(one.message) for one in caught), *said])


_WARNING = re.compile(r"Warning: (.+?)(?: \(function [\w()]+\))?$", re.MULTILINE)


@contextlib.contextmanager
def _standard_error() -> Iterator[Callable[[], str]]:
    """Captures output to file descriptor 2, including that of C++ code."""
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        text: List[str] = []

        def written() -> str:
            return "".join(text)

        try:
            yield written
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            text.append(file.read().decode("utf-8", "replace"))


# ---------------------------------------------------------------------------------------------------------------
# Recommended changes

_Change = Tuple[str, Callable[[Call], Optional[Call]]]


def changes(call: Call, gpu: simulated_gpu.Gpu, torch_version: str, cudnn: Optional[int]) -> List[Dict[str, Any]]:
    """The smallest sets of changes after which flash accepts the call, and the backends to disable so that torch
    chooses it.
    """
    for count in range(5):
        found = []
        for picked in itertools.combinations(_CHANGES, count):
            changed: Optional[Call] = call
            for _, change in picked:
                changed = change(changed) if changed is not None else None
            if changed is None:
                continue
            choice = sdpa_choice.choose(changed, gpu, torch_version, cudnn)
            if choice.error is not None or "flash" in choice.refused:
                continue
            words = [name for name, _ in picked]
            if choice.backend != "flash":
                words.append(_before_flash(choice.backend))
            found.append({"changes": words})
        if found:
            wider = any("of at most 256" in word for way in found for word in way["changes"])
            return [way for way in found if not (wider and _SMALL_HEADS in way["changes"])]
    return []


def _before_flash(backend: Optional[str]) -> str:
    switch = {"efficient": "mem_efficient"}.get(str(backend), backend)
    return (
        "{} stands before flash here: switch it off, torch.backends.cuda.enable_{}_sdp(False), or ask for flash, "
        "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)".format(backend, switch)
    )


def _without_mask(call: Call) -> Optional[Call]:
    return dataclasses.replace(call, mask=None) if call.mask is not None and not call.causal else None


def _mask_dropped(call: Call) -> Optional[Call]:
    return dataclasses.replace(call, mask=None) if call.mask is not None and call.causal else None


def _all(call: Call, **new: object) -> Call:
    tensors = {name: dataclasses.replace(getattr(call, name), **new) for name in ("query", "key", "value")}
    return dataclasses.replace(call, **tensors)


def _half(call: Call) -> Optional[Call]:
    dtypes = {tensor.dtype for tensor in call.tensors}
    return _all(call, dtype="bfloat16") if dtypes not in ({"bfloat16"}, {"float16"}) else None


def _fp16(call: Call) -> Optional[Call]:
    return _all(call, dtype="float16") if {tensor.dtype for tensor in call.tensors} == {"bfloat16"} else None


def _with_dim(call: Call, dim: int) -> Call:
    tensors = {}
    for name in ("query", "key", "value"):
        tensor = getattr(call, name)
        tensors[name] = dataclasses.replace(tensor, shape=(*tensor.shape[:-1], dim), strides=None)
    return dataclasses.replace(call, **tensors)


def _same_dim(call: Call) -> Optional[Call]:
    dims = {tensor.shape[-1] for tensor in call.tensors}
    return _with_dim(call, max(dims)) if len(dims) > 1 else None


def _at_most(dim: int) -> Callable[[Call], Optional[Call]]:
    def change(call: Call) -> Optional[Call]:
        return _with_dim(call, dim) if max(tensor.shape[-1] for tensor in call.tensors) > dim else None

    return change


def _grouped(call: Call) -> Optional[Call]:
    heads = [tensor.shape[1] for tensor in call.tensors]
    fits = heads[1] == heads[2] != heads[0] and heads[0] % heads[1] == 0
    return dataclasses.replace(call, enable_gqa=True) if fits and not call.enable_gqa else None


def _square(call: Call) -> Optional[Call]:
    if not call.causal or call.query.shape[-2] == call.key.shape[-2]:
        return None
    length = call.query.shape[-2]
    shapes = {n: (*getattr(call, n).shape[:-2], length, getattr(call, n).shape[-1]) for n in ("key", "value")}
    return dataclasses.replace(call, **{n: dataclasses.replace(getattr(call, n), shape=s) for n, s in shapes.items()})


def _no_gradients(call: Call) -> Optional[Call]:
    return dataclasses.replace(_all(call, requires_grad=False), grad_mode=False) if call.trains else None


_SMALL_HEADS = "a head dimension of at most 192"
_CHANGES: Tuple[_Change, ...] = (
    ("pass no attn_mask: is_causal=True for a causal one, packed sequences in place of padding", _without_mask),
    ("pass no attn_mask beside is_causal=True", _mask_dropped),
    ("cast q, k and v to bfloat16 (or float16)", _half),
    ("cast q, k and v to float16", _fp16),
    ("enable_gqa=True, where there are fewer key-value heads", _grouped),
    ("pad v, or q and k, to one head dimension", _same_dim),
    ("as many keys as queries, or causal_lower_right of torch.nn.attention.bias", _square),
    ("a head dimension of at most 256", _at_most(256)),
    # Training with larger head dims needs a larger GPU.
    (_SMALL_HEADS, _at_most(192)),
    ("no gradients (torch.no_grad)", _no_gradients),
)
