"""One attention call: its operands, its contract, and how it ended. Equal calls fold into one record."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Protocol, Tuple

import torch

from ... import outcomes
from ...libraries import flash_attn_2
from ...libraries import stand_in as stand_in_core
from ..record import backward_pass, frames, ops
from ..record.recorder import Recorder
from .forms import Forms, flags_of
from .operands import RAISES, REPAIRED, SILENT, Clause, Operand

if TYPE_CHECKING:
    from types import FrameType

    from ...arguments import Function, Given
    from ...simulate.cuda.simulated_gpu import Gpu
    from ..answer import Backend, Within
    from ..record.frames import Site


class StopTrace(BaseException):
    """Ends the traced program when enough was seen; not an Exception, so that no program catches it."""


class Conditions:
    """The GPU and versions for which calls are judged."""

    def __init__(
        self,
        capability: Tuple[int, int] = (9, 0),
        simulated: bool = True,
        flash_attn_version: str = flash_attn_2.LIBRARY.newest,
        backward: bool = False,
        stand_ins: Tuple[str, ...] = (flash_attn_2.LIBRARY.key,),
    ) -> None:
        self.stand_ins = tuple(stand_ins)
        """Libraries that get a stand-in although they are not installed here."""
        self.capability = capability
        self.simulated = simulated
        """The GPU is simulated: an error that a kernel would raise is raised here instead."""
        self.flash_attn_version = flash_attn_version
        self.backward = backward
        self.missing: Tuple[str, ...] = ()
        """Libraries that get a stand-in on a real GPU too, because they cannot be imported there."""
        self.gpu: Optional[Gpu] = None
        """The GPU of `capability`, or None when unknown."""


class Record:
    """One attention call, or several equal ones."""

    def __init__(self, name: str, library: str) -> None:
        self.name = name
        self.library = library
        self.stand_in: Optional[str] = None
        """What ran in place of the kernel, in words; None when the kernel itself ran."""
        self.needs_gpu = False
        """The kernel is installed; a stand-in runs only because there is no GPU."""
        self.operands: Dict[str, Operand] = {}
        self.clauses: List[Clause] = []
        self.autocast: Optional[torch.dtype] = None
        self.error: Optional[BaseException] = None
        self.predicted = False
        """The error follows from the kernel's rules, and was not raised by a kernel."""
        self.verdict = outcomes.CLEAN
        self.site: Optional[Site] = None
        self.stack: List[Site] = []
        self.modules: List[str] = []
        self.count = 1
        self.first = True
        """The first call of its kind."""
        self.number = 0
        self.backward = False
        self.written_out = False
        """No kernel was called: the model computes attention with its own operations (eager.py)."""
        self.backend: Optional[Backend] = None
        """Only for SDPA: the backend that torch chooses on that GPU, and why not the others (sdpa_backend.py)."""
        self.flags: Optional[Dict[str, Any]] = None
        """causal, window and so on (forms.py); None when not known."""
        self.trains = False
        """q, k or v require gradients, and gradients are on."""
        self.claimed = False
        """No kernel was reached: code that had q, k and v refused them (raising_frame.py)."""
        self.other_trouble = False
        """It raised for a reason that would remain with correct dtypes: its dtypes are not reported as the cause."""
        self.inside: List[Within] = []
        """Kernels that ran inside the call: name, and the dtype of each operand."""

    @property
    def broken(self) -> bool:
        return self.verdict in outcomes.BROKEN

    @property
    def doubtful(self) -> bool:
        """True when it raised and no rule of its kernel attributes that to its dtypes."""
        ruled = any(not one.kept and one.effect == RAISES and one.blamed for one in self.clauses)
        return self.error is not None and (self.claimed or not ruled)

    def key(self) -> Tuple[object, ...]:
        return (
            self.name,
            self.site,
            self.verdict,
            self.autocast,
            self.backward,
            str(self.error) if self.error else "",
            self.backend["taken"] if self.backend else None,
            tuple((role, o.dtype, o.head_dim) for role, o in sorted(self.operands.items())),
        )


class Attending(Protocol):
    """Receives attention calls: the Attention of a recording, or a switch to the one that is active."""

    @property
    def recorder(self) -> Recorder: ...

    @property
    def conditions(self) -> Conditions: ...

    @property
    def attend(self) -> Function: ...


class Attention:
    """The attention calls of one recording."""

    def __init__(self, recorder: Recorder, conditions: Conditions) -> None:
        self.recorder = recorder
        self.conditions = conditions
        self.records: List[Record] = []
        self.total = 0
        self.depth = 0
        self.current: Optional[Record] = None
        self.on_record: Optional[Callable[[Record], None]] = None
        self._by_key: Dict[Tuple[object, ...], Record] = {}
        self.forms = Forms()

    def autocast_dtype(self, on: Optional[bool] = None) -> Optional[torch.dtype]:
        """`on`: whether autocast is active, when it cannot be queried (below the dispatcher)."""
        if not (self.recorder.autocast_on() if on is None else on):
            return None
        return (
            torch.get_autocast_dtype("cuda")
            if hasattr(torch, "get_autocast_dtype")
            else (torch.get_autocast_gpu_dtype())
        )

    def attend(
        self,
        name: str,
        library: str,
        tensors: Dict[str, object],
        contract: Callable[[Dict[str, Operand], Optional[torch.dtype]], List[Clause]],
        run: Callable[[], Any],
        stand_in: Optional[str] = None,
        frame: Optional[FrameType] = None,
        backend: Optional[Callable[[Optional[torch.dtype]], Optional[Backend]]] = None,
        returned: Callable[[object], object] = lambda out: out,
        given: Optional[Given] = None,
    ) -> object:
        """Runs one attention call and records it. A call inside another attention call is only mentioned there.

        `returned` makes the return value from the attention output, when a stand-in runs. `given`: its arguments by
        name, where they are known."""
        rec = self.recorder
        if rec.paused:
            return run()
        if self.depth:
            self.mention(name, tensors)
            return run()
        record = self.opened(name, library, tensors, frame or frames.caller(1))
        record.stand_in = stand_in
        record.flags = flags_of(given) if given is not None else None
        record.backend = backend(record.autocast) if backend is not None else None
        record.clauses = contract(record.operands, record.autocast)
        refusal = self._refusal(record)
        self.depth += 1
        self.current = record
        try:
            if stand_in is not None and refusal is not None:
                raise refusal
            out = self._run(run, record, tensors, returned)
            if refusal is not None:
                raise refusal
        except Exception as error:
            if not backward_pass.ends_early(error):
                record.error = error
                record.predicted = error is refusal
            raise
        finally:
            self.depth -= 1
            self.current = None
            self._close(record)
        rec.link(out, [t for t in tensors.values() if isinstance(t, torch.Tensor)], name, record.site)
        return out

    def _run(
        self, run: Any, record: Record, tensors: Dict[str, object], returned: Callable[[object], object]
    ) -> object:
        if not self.conditions.simulated or record.stand_in is not None:
            return run()
        try:
            return run()
        except Exception as error:
            if not _needs_a_gpu(error) or not all(isinstance(tensors.get(r), torch.Tensor) for r in "qkv"):
                raise
            record.stand_in = (
                "without a GPU it does not run ({}): zeros of the shape of q, with the head dimension of v, took its "
                "place".format(str(error).strip().splitlines()[0][:200])
            )
            record.needs_gpu = True
            qkv = [tensors[r] for r in "qkv"]
            return stand_in_core.quietly(self.recorder, lambda: returned(stand_in_core.zeros(*qkv)))

    def opened(self, name: str, library: str, tensors: Dict[str, object], frame: FrameType) -> Record:
        rec = self.recorder
        record = Record(name, library)
        record.stack = frames.stack_of(frame)
        record.site = record.stack[0] if record.stack else None
        record.autocast = self.autocast_dtype()
        record.backward = torch._C._current_autograd_node() is not None
        if rec.module is not None:
            record.modules.append(rec.module)
        with torch._C.DisableTorchFunction():
            for role, tensor in tensors.items():
                if isinstance(tensor, torch.Tensor):
                    node = rec.node(tensor) if tensor.dtype in ops.FLOATS else None
                    record.operands[role] = Operand(role, tensor, node)
                    record.trains |= role in ("q", "k", "v") and tensor.requires_grad and torch.is_grad_enabled()
        self.total += 1
        record.number = self.total
        return record

    def mention(self, name: str, tensors: Dict[str, object]) -> None:
        """Adds a kernel that ran inside the current attention call."""
        record = self.current
        if record is None or name == record.name or len(record.inside) >= 64:
            return
        dtypes = {role: ops.short(t.dtype) for role, t in tensors.items() if isinstance(t, torch.Tensor)}
        entry: Within = {"name": name, "dtypes": dtypes}
        if entry not in record.inside:
            record.inside.append(entry)

    def add(self, record: Record) -> None:
        """Adds a record made elsewhere, such as one read from a raising frame."""
        self._close(record)

    def withdraw(self, record: Record) -> None:
        """Removes a record: it was not an attention call after all."""
        self.records.remove(record)
        self._by_key.pop(record.key(), None)
        self.total -= record.count

    def _refusal(self, record: Record) -> Optional[Exception]:
        """The error that the kernel would raise; only when the kernel itself cannot run."""
        if not self.conditions.simulated and record.stand_in is None:
            return None
        for clause in record.clauses:
            if not clause.kept and clause.effect == RAISES:
                kind = getattr(builtins, clause.error)
                refusal: Exception = kind(clause.message or "the kernel refuses: " + clause.words)
                return refusal
        return None

    def _close(self, record: Record) -> None:
        record.verdict = judged(record)
        self.forms.note(record)
        known = self._by_key.get(record.key())
        if known is None:
            self._by_key[record.key()] = record
            self.records.append(record)
        else:
            record.first = False
            known.count += 1
            known.modules.extend(m for m in record.modules if m not in known.modules)
        if self.on_record is not None:
            self.on_record(record)


ABOUT_DTYPES = re.compile(
    r"dtype|float16|bfloat16|float32|\bHalf\b|BFloat16|fp16|bf16|fp32|same type|data type|scalar type", re.IGNORECASE
)
"""Words in error messages about dtypes."""

_OF_THE_PROGRAM = re.compile(r"same device|at least two devices|expected device|is on cpu|out of memory", re.IGNORECASE)
"""Errors that mention CUDA and would occur on a GPU as well."""

_NEEDS_A_GPU = re.compile(
    r"not support\w* .*\bCPU\b|on CPU|no fake impl|not implemented for|\bCUDA\b|\bcuda\b|meta kernel|fake tensor",
    re.IGNORECASE,
)


def _needs_a_gpu(error: BaseException) -> bool:
    """True when a kernel failed for lack of its device, and not because of its operands."""
    if _OF_THE_PROGRAM.search(str(error)):
        return False
    return isinstance(error, NotImplementedError) or (
        isinstance(error, (RuntimeError, AssertionError, ValueError)) and bool(_NEEDS_A_GPU.search(str(error)))
    )


def judged(record: Record) -> str:
    """The verdict of one call: first from how it ended, then from its contract."""
    if record.error is not None:
        return outcomes.RAISES
    effects = {clause.effect for clause in record.clauses if not clause.kept}
    if effects & {SILENT, RAISES}:
        # A kernel that ran although its contract was broken used the operands as they were.
        return outcomes.MIXED
    return outcomes.REPAIRED if REPAIRED in effects else outcomes.CLEAN


__all__ = ["Attention", "Conditions", "Record", "StopTrace", "judged"]
