"""torch's scaled_dot_product_attention: its contract. Autocast casts q, k and v; the chosen backend decides about the
mask. ../simulate/sdpa/choice.py predicts the backend.

Sources: pytorch aten/src/ATen/native/transformers/{attention.cpp,cuda/sdp_utils.cpp,cuda/attention.cu} (2.0 to 2.13).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from ..dtypes import C10, HALVES
from ..simulate.cuda import simulated_gpu
from ..simulate.sdpa import backends as sdpa_backends
from ..simulate.sdpa import choice as sdpa_choice
from ..simulate.sdpa.rules import Call as TorchCall
from ..simulate.sdpa.rules import Situation, Tensor
from ..simulate.triton.driver import version_of
from .contract import RAISES, SILENT, Call, Clause, Described, equal_dtypes, mended_by_autocast, release_of
from .library import Backend, Library

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

    from ..arguments import Given
    from ..kernels.cells import Cell, Place
    from ..kernels.problems import Problem

_MASK = "attn_mask is bool, or has the dtype of q"
_AFTERWARDS = "raises afterwards: "
"""Prefix of warnings in sdpa/choice.py about a defect of the chosen backend."""
BIAS = "invalid dtype for bias - should match query's dtype"

_NO_FORM = {
    "varlen": "scaled_dot_product_attention takes no packed sequences",
    "window": "scaled_dot_product_attention has no window argument; a mask does it",
    "softcap": "scaled_dot_product_attention has no softcap argument",
}
_JUDGES = {
    "sdpa-flash": sdpa_backends.flash,
    "sdpa-efficient": sdpa_backends.efficient,
    "sdpa-cudnn": sdpa_backends.cudnn,
}


def clauses(call: Call, autocast: Optional[str], choice: Optional[sdpa_choice.Choice]) -> List[Clause]:
    """The contract. The function is on autocast's list, which casts q, k and v.

    `choice` is the backend that torch would choose (sdpa/choice.py), or None when unknown.
    """
    q, k, v = call.kinds
    message = (
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and "
        "value.dtype: {} instead.".format(*(C10.get(kind, kind) for kind in (q, k, v)))
    )
    mended = mended_by_autocast(call.operands, autocast, message)
    found = mended or [equal_dtypes(call.operands, autocast, RAISES, message)]
    mask = call.operands.get("mask")
    if mask is not None and mask.kind != "bool":
        found.extend(_mask(mask.kind, q, mended is not None, call.versions["torch"], choice))
    if choice is not None:
        found.extend(_backend(choice))
    return found


def _mask(mask: str, q: str, repaired: bool, torch_version: str, choice: Optional[sdpa_choice.Choice]) -> List[Clause]:
    if mask == q or (repaired and mask in ("float16", "bfloat16", "float32", "float64")):
        return [Clause(_MASK, True)]
    if mask == "float32" and release_of(torch_version) >= (2, 4):
        # Accepted by the function itself; the rest depends on the chosen backend.
        if choice is None:
            return []
        for warning in choice.warnings:
            if not warning.startswith(_AFTERWARDS):
                return [Clause(_MASK, False, SILENT, warning, ("mask",))]
            if "dtype" in warning:
                return [Clause(_MASK, False, RAISES, warning[len(_AFTERWARDS) :], ("mask",))]
        return [Clause(_MASK + ", or the backend taken casts it", True)]
    text = "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
    names = C10.get(mask, mask), C10.get(q, q)
    message = text + "attn_mask.dtype: {} and  query.dtype: {} instead.".format(*names)
    return [Clause(_MASK, False, RAISES, message, ("mask",))]


def _backend(choice: sdpa_choice.Choice) -> List[Clause]:
    """Clauses that do not depend on dtypes: disabled backends, and a mask together with is_causal."""
    found = []
    if choice.backend is None and choice.refused:
        found.append(Clause("a backend that takes the call is switched on", False, RAISES, choice.error or ""))
    for warning in choice.warnings:
        if warning.startswith(_AFTERWARDS) and "dtype" not in warning:
            words = "not both a mask and is_causal are given"
            found.append(Clause(words, False, RAISES, warning[len(_AFTERWARDS) :]))
    return found


def laid_out(out: TorchTensor, query: TorchTensor, backend: Optional[str]) -> TorchTensor:
    """The output that the CPU computed, with the strides of that backend on a GPU.

    flash writes into a tensor like the query, padded to a multiple of 8; efficient has the heads next to the head
    dimension; cuDNN keeps the query's order; math's output is contiguous.
    """
    import torch

    from .stand_in import filled

    if query.dim() != 4 or out.dim() != 4 or query.shape[:3] != out.shape[:3]:
        return out
    batch, heads, length, dim = out.shape
    if backend == sdpa_choice.FLASH and query.shape[-1] == dim:
        like = torch.nn.functional.pad(query, [0, 8 - dim % 8]) if dim % 8 else query
        room = torch.empty_like(like, dtype=out.dtype)
    elif backend == sdpa_choice.EFFICIENT:
        room = out.new_empty((batch, length, heads, dim)).transpose(1, 2)
    elif backend == sdpa_choice.CUDNN:
        order = sorted(range(4), key=lambda one: (-query.stride(one), one))
        room = out.new_empty([out.shape[one] for one in order]).permute([order.index(one) for one in range(4)])
    else:
        room = torch.empty_like(out, memory_format=torch.contiguous_format)
    room = room[..., :dim]
    return out if room.stride() == out.stride() else filled(room, out)


def torch_call(cell: Cell, sizes: Tuple[int, int, int]) -> TorchCall:
    """The call of scaled_dot_product_attention that a cell describes. sizes: batch, heads, length."""
    from ..kernels.shapes import shapes_of

    trains = cell.direction == "train"
    shapes = shapes_of(cell, sizes)

    def tensor(one: Described) -> Tensor:
        return Tensor(shape=one.shape, dtype=one.kind, strides=one.stride, requires_grad=trains)

    return TorchCall(
        query=tensor(shapes.q),
        key=tensor(shapes.k),
        value=tensor(shapes.v),
        mask=Tensor(shapes.mask.shape, shapes.mask.kind, shapes.mask.stride) if shapes.mask is not None else None,
        causal=shapes.causal,
        enable_gqa=shapes.gqa,
        grad_mode=trains,
    )


def gpu_of(place: Place) -> simulated_gpu.Gpu:
    # Shared memory does not affect SDPA's choice, and a new capability need not be in the table.
    return simulated_gpu.Gpu(name=place.gpu_name, capability=place.capability or (0, 0), shared_memory=0)


def offered(cell: Cell, place: Place) -> Optional[str]:
    """Why a cell is not offered, by one backend or by torch's own choice; None when it is."""
    from ..kernels.shapes import no_such_call

    refused = no_such_call(cell, place) or not_for_its_arguments(cell)
    if refused is not None:
        return refused
    call = torch_call(cell, (2, 8, 512))
    version = version_of(place.torch_version)
    error = sdpa_choice.unfit(call, version)
    if error is not None:
        return error
    if place.capability is None:
        return None if cell.backend in ("sdpa-default", "sdpa-math", "sdpa-flash") else "it is a backend for GPUs"
    if cell.form == "gqa" and version < (2, 5):
        return "enable_gqa is new in torch 2.5"
    if cell.backend == "sdpa-default":
        choice = sdpa_choice.choose(call, gpu_of(place), place.torch_version, place.cudnn)
        late = [words[len(_AFTERWARDS) :] for words in choice.warnings if words.startswith(_AFTERWARDS)]
        return late[0] if late else None
    if cell.backend == "sdpa-math":
        return None
    asked = Situation(call, gpu_of(place), version, place.cudnn or sdpa_choice.wheel_cudnn(version), [])
    reason = _JUDGES[cell.backend](asked)
    if reason is None and cell.backend == "sdpa-efficient" and cell.form == "fp32-mask" and cell.dtype in HALVES:
        return BIAS
    return reason


def not_for_its_arguments(cell: Cell) -> Optional[str]:
    """Why no function with the arguments of scaled_dot_product_attention can make the call, or None."""
    if cell.form in _NO_FORM:
        return _NO_FORM[cell.form]
    return "scaled_dot_product_attention takes no float8" if cell.dtype.startswith("float8") else None


_NAMES = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-math": "MATH",
}


def restricted(name: str) -> Any:
    """A context in which torch may use only the backend `name`; any backend, for "sdpa-default"."""
    import torch

    if name not in _NAMES:
        return contextlib.nullcontext()
    if hasattr(torch.nn, "attention") and hasattr(torch.nn.attention, "sdpa_kernel"):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel([getattr(SDPBackend, _NAMES[name])])
    return torch.backends.cuda.sdp_kernel(
        enable_flash=name == "sdpa-flash",
        enable_math=name == "sdpa-math",
        enable_mem_efficient=name == "sdpa-efficient",
    )


def arguments(problem: Problem) -> Dict[str, Any]:
    given: Given = {
        "attn_mask": problem.mask,
        "dropout_p": 0.0,
        "is_causal": problem.causal,
        "scale": problem.scale,
    }
    if problem.gqa:
        given["enable_gqa"] = True
    return given


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    import torch.nn.functional as F

    given = arguments(problem)

    def compute() -> TorchTensor:
        with restricted(backend.name):
            return F.scaled_dot_product_attention(problem.q, problem.k, problem.v, **given)

    return compute


def chosen(problem: Problem) -> Optional[str]:
    """The backend that torch chooses for this call; None when torch has no API for it."""
    import torch

    ask = getattr(torch, "_fused_sdp_choice", None)
    if ask is None or problem.device.type != "cuda":
        return None
    given = arguments(problem)
    number = ask(problem.q, problem.k, problem.v, **given)
    return {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}.get(int(number))


LIBRARY = Library(
    name="sdpa",
    order=0,
    module="torch.nn.functional",
    attn_implementation="sdpa",
    refusals=(BIAS,),  # switches decide which backend torch chooses
    backends=(
        Backend(
            name="sdpa-default",
            title="SDPA, as torch picks",
            calls="sdpa",
            contract=offered,
            chooses=True,
            takes=("expanded", "sink", "columns", "narrow-v", "long-mask"),
            plans=True,
            whole=True,
        ),
        Backend(
            name="sdpa-flash",
            title="SDPA flash",
            calls="sdpa",
            contract=offered,
            promises=("forward",),
            takes=("expanded", "deterministic"),
        ),
        Backend(
            name="sdpa-efficient",
            title="SDPA memory-efficient",
            calls="sdpa",
            contract=offered,
            takes=("expanded", "sink", "narrow-v", "long-mask"),
        ),
        Backend(
            name="sdpa-cudnn",
            title="SDPA cuDNN",
            calls="sdpa",
            contract=offered,
            takes=("expanded", "sink", "narrow-v", "long-mask"),
            plans=True,
        ),
        Backend(
            name="sdpa-math",
            title="SDPA math",
            calls="sdpa",
            contract=offered,
            takes=("expanded", "sink", "columns", "narrow-v"),
        ),
    ),
)
