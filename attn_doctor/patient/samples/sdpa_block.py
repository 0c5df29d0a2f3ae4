"""Sample: an attention block with qk-norm through scaled_dot_product_attention, forward and backward.

float16 and bfloat16, each plain (weights and input in that dtype) and under `torch.autocast("cuda")` (weights and input
in float32). On a real GPU; without one on CPU tensors under CUDA's autocast rules. Shows the dtypes of q, k and v in
the block's call, and those that reached the operator below.

Not examined: accuracy, speed, and the backend on a GPU that is not present.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Callable, ContextManager, List, Optional, Sequence, Tuple, TypedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from .. import outcomes
from ..simulate.autocast.rules import cuda_autocast_rules  # noqa: TID252

# Relative: in the patient this package has another name.
from ..torch_facts import last_line  # noqa: TID252

if TYPE_CHECKING:
    from ..arguments import Keywords, Positional
    from ..forked import Tell
    from ..imports import Outcome
    from ..simulate.cuda.simulated_gpu import Described
    from ..torch_facts import Device

BATCH, HEADS, SEQUENCE, HEAD_DIM = 2, 4, 64, 64

CELLS: Tuple[Tuple[str, str], ...] = (
    ("float16", "plain"),
    ("float16", "autocast"),
    ("bfloat16", "plain"),
    ("bfloat16", "autocast"),
)
"""(dtype, mode) of each forward and backward pass, in the order in which they run."""


class Block(nn.Module):
    """x (BATCH, SEQUENCE, HEADS * HEAD_DIM) -> same; `attend` gets (BATCH, HEADS, SEQUENCE, HEAD_DIM)."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.attend = attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        qkv = self.qkv(x).view(batch, sequence, 3, HEADS, HEAD_DIM).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attended = self.attend(q, k, v)
        return self.out(attended.transpose(1, 2).reshape(batch, sequence, width))


class Watch(TorchDispatchMode):
    """Records the operator that scaled_dot_product_attention becomes below autocast, with its q, k, v."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: Optional[List[str]] = None
        self.kernel: Optional[str] = None
        self.dtypes: Optional[List[str]] = None
        self._products: Optional[List[Sequence[torch.Tensor]]] = None

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self.handed = _dtypes((q, k, v))
        self._products = []
        try:
            return F.scaled_dot_product_attention(q, k, v)
        finally:
            if self.kernel is None and len(self._products) > 1:
                # The math backend is not one operator but two matrix products: q with k, and the weights with v.
                (q, k), (_, v) = self._products[0], self._products[-1]
                self.kernel, self.dtypes = "math", _dtypes((q, k, v))
            self._products = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch wraps __torch_dispatch__ so that torch.compile ignores it, and imports torch._dynamo for that: 1.6 s
        # here, several times the whole sample. Nothing is compiled here.
        return False

    def __torch_dispatch__(
        self, func: Any, types: object, args: Positional = (), kwargs: Optional[Keywords] = None
    ) -> object:
        if self._products is not None:
            name = func._schema.name
            if "attention" in name and self.kernel is None:
                self.kernel, self.dtypes = name, _dtypes(args[:3])
            elif name in ("aten::bmm", "aten::matmul"):
                self._products.append(args[:2])
        return func(*args, **(kwargs or {}))


class Passed(TypedDict, total=False):
    """How a forward and backward pass ended."""

    outcome: str
    """ran | raised | crashed | hung | failed | unasked"""
    error: Optional[str]
    where: Optional[str]
    output_finite: Optional[bool]
    gradients_finite: Optional[bool]
    handed_dtypes: Optional[List[str]]
    kernel_dtypes: Optional[List[str]]
    kernel: Optional[str]
    seconds: float


class SampledCell(Passed):
    """One pass and where it ran."""

    sample: str
    dtype: str
    mode: str
    device: str
    rules: str
    assumed_gpu: Optional[Described]


class BlockCell(SampledCell, total=False):
    """The same; the rest stands there where it applies."""

    bf16_emulated: Optional[bool]
    rules_source: Optional[str]


class Line(TypedDict, total=False):
    """A message from the child: a cell is begun, or finished."""

    started: List[str]
    cell: BlockCell


def run(device: Optional[Device], simulated_gpu: Optional[Described], tell: Tell) -> None:
    """Runs in a forked child: every cell on `device` (from torch_facts), or on the CPU under CUDA's rules."""
    if device is not None:
        torch.cuda.set_device(device["index"])
    with contextlib.ExitStack() as stack:
        source: Optional[str] = None
        if device is None:
            source = stack.enter_context(cuda_autocast_rules()).source
        for dtype, mode in CELLS:
            tell({"started": [dtype, mode]})
            cell = _blank(device, simulated_gpu, dtype, mode)
            if device is None:
                cell["rules_source"] = source
            tell({"cell": {**cell, **_outcome(cell["device"], getattr(torch, dtype), mode)}})


def cells(
    device: Optional[Device],
    simulated_gpu: Optional[Described],
    told: List[Line],
    ending: Optional[Outcome],
    reason: str,
) -> List[BlockCell]:
    """Runs in the parent: every cell, including those without an answer.

    `told`: the values that `run` sent; `ending`: how the child ended, unless normally (outcome `crashed`, `hung`,
    `failed`, `unasked`); `reason`: the same in words.
    """
    found = {(cell["dtype"], cell["mode"]): cell for cell in (line["cell"] for line in told if "cell" in line)}
    last = [tuple(line["started"]) for line in told if "started" in line][-1:]
    for dtype, mode in CELLS:
        if (dtype, mode) in found:
            continue
        cell = _blank(device, simulated_gpu, dtype, mode)
        kind = ending["outcome"] if ending else outcomes.UNASKED
        # A cell that the child never reached did not crash itself: its result is unknown.
        reached = (dtype, mode) in last and kind in (outcomes.CRASHED, outcomes.HUNG)
        cell["outcome"] = kind if reached else outcomes.UNASKED
        cell["error"] = reason
        if reached and ending and ending.get("where"):
            cell["where"] = ending["where"]
        found[(dtype, mode)] = cell
    return [found[key] for key in CELLS]


def _blank(device: Optional[Device], simulated_gpu: Optional[Described], dtype: str, mode: str) -> BlockCell:
    capability: Optional[str] = None
    if device is not None:
        rules = "ran on GPU {} ({})".format(device["index"], device.get("name"))
        capability = device.get("compute_capability") if "gcnArchName" not in device else None
    else:
        rules = "CUDA rules, no GPU"
        capability = simulated_gpu.get("compute_capability") if simulated_gpu else None
    cell: BlockCell = {
        "sample": "sdpa_block",
        "dtype": dtype,
        "mode": mode,
        "device": "cpu" if device is None else "cuda:{}".format(device["index"]),
        "rules": rules,
        "assumed_gpu": simulated_gpu if device is None else None,
    }
    if dtype == "bfloat16":
        # CUDA computes in bfloat16 from compute capability 8.0 on; below, torch emulates it in float32.
        major = int(str(capability).partition(".")[0]) if capability else None
        cell["bf16_emulated"] = None if major is None else major < 8
    return cell


def _outcome(device: str, dtype: torch.dtype, mode: str) -> Passed:
    started = time.monotonic()
    watch = Watch()
    found: Passed = {"outcome": outcomes.RAN, "error": None, "output_finite": None, "gradients_finite": None}
    try:
        found.update(_pass(watch, device, dtype, mode))
    except Exception as error:  # noqa: BLE001
        found["outcome"], found["error"] = "raised", last_line(error)
    found["handed_dtypes"], found["kernel_dtypes"], found["kernel"] = watch.handed, watch.dtypes, watch.kernel
    found["seconds"] = round(time.monotonic() - started, 4)
    return found


def _pass(watch: Watch, device: str, dtype: torch.dtype, mode: str) -> Passed:
    """Runs one forward and backward pass; returns whether output and gradients are finite."""
    torch.manual_seed(0)
    block = Block(watch.attend).to(device)
    x = torch.randn(BATCH, SEQUENCE, HEADS * HEAD_DIM, device=device)
    autocast: ContextManager[object] = contextlib.nullcontext()
    if mode == "plain":
        block, x = block.to(dtype), x.to(dtype)
    else:
        autocast = torch.autocast("cuda", dtype=dtype)
    with watch, autocast:
        output = block(x)
    output.float().square().mean().backward()
    gradients = [parameter.grad for parameter in block.parameters()]
    return {
        "output_finite": bool(
            output.isfinite().all()
        ),  # waits for the GPU: an error in a kernel is raised here at the latest
        "gradients_finite": all(g is not None and bool(g.isfinite().all()) for g in gradients),
    }


def _dtypes(tensors: Sequence[torch.Tensor]) -> List[str]:
    return [str(tensor.dtype).replace("torch.", "") for tensor in tensors]
