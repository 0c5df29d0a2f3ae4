"""The attention calls of examined steps: backend, rows that are not finite, gradients, and sampled rows in float64.

Everything that is computed stays on its device until `read()`, which waits for it once.
"""

from __future__ import annotations

import functools
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch

from ..libraries import flash_attn_2, flash_attn_3, flash_attn_4
from ..libraries import sdpa as sdpa_library
from ..libraries.contract import Call
from ..trace.meet import sdpa_backend
from ..trace.meet.attention import Attention, Conditions, Record
from ..trace.meet.operands import kind_of
from ..trace.meet.sdpa_backend import Choices
from ..trace.record import modes
from . import shadow

if TYPE_CHECKING:
    from types import FrameType

_SDPA = "scaled_dot_product_attention"
_CHOSEN = ("math", "flash", "efficient", "cudnn", "overrideable")
_FLASH = tuple(one.LIBRARY.module for one in (flash_attn_2, flash_attn_3, flash_attn_4))
_MOST_CALLS = 4096
"""Calls examined in one step: more mean that nobody says when a step ends."""
_MOST_KINDS = 64
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Quiet:
    """In the place of the tracer's recorder: no operation is recorded."""

    def __init__(self, device: str) -> None:
        self.paused = 0
        self.module: Optional[str] = None
        self.device = device

    def autocast_on(self) -> bool:
        return bool(modes.is_autocast_enabled(self.device))

    def node(self, _tensor: torch.Tensor) -> None:
        return None

    def link(self, *_: object) -> None:
        return None


class Seen:
    """What was seen of calls alike: numbers, and values that are still on their device."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.examined = 0
        self.first_step = self.last_step = 0
        self.rows = 0
        self.nonfinite_rows = self.spoiled_calls = self.nan_gradients = self.shadowed_rows = self.wrong_rows = 0
        self.nonfinite_step: Optional[int] = None
        self.nan_gradient_step: Optional[int] = None
        self.worst: Optional[float] = None
        self.limit: Optional[float] = None
        self.worst_step: Optional[int] = None
        self.worst_row: Optional[Tuple[int, ...]] = None
        self.not_shadowed: Optional[str] = None
        self.outputs: List[torch.Tensor] = []
        """(rows that are not finite, 1 where q, k and v were finite), each a tensor of two numbers."""
        self.gradients: List[torch.Tensor] = []
        self.shadows: List[shadow.Row] = []

    def as_json(self) -> Dict[str, Any]:
        names = ("examined", "first_step", "last_step", "rows", "nonfinite_rows", "nonfinite_step", "spoiled_calls",
                 "nan_gradients", "nan_gradient_step", "shadowed_rows", "worst", "limit", "worst_step", "worst_row",
                 "wrong_rows", "not_shadowed")  # fmt: skip
        return {name: getattr(self, name) for name in names}


class GuardedAttention(Attention):
    """Runs each call as it is, and looks at what went in and came out. Nothing of ours is ever raised."""

    def __init__(self, conditions: Conditions, device: str, rows: int, calls: int) -> None:
        super().__init__(Quiet(device), conditions)  # type: ignore[arg-type]
        self.choices = Choices(conditions.gpu)
        self.sampled_rows = rows
        self.sampled_calls = calls
        self.step = 0
        self.trouble: Optional[str] = None
        self.seen: Dict[int, Seen] = {}
        self._paths: Dict[int, str] = {}
        self._taken: Dict[Any, Any] = {}
        self._passed_on = False
        self._in_step = 0
        self._last_step_had = 0
        self._turn = 0

    @property
    def begun(self) -> bool:
        """Calls of this step were met."""
        return not self.recorder.paused and self._in_step > 0

    def meet_sdpa(
        self, tensors: Dict[str, object], given: Dict[str, Any], run: Callable[[], Any], frame: FrameType
    ) -> object:
        """One call of torch's scaled_dot_product_attention."""
        chosen: Any = None

        def backend(autocast: Optional[torch.dtype]) -> Any:
            nonlocal chosen
            found = self._backend(given, autocast)
            if found is None:
                return None
            chosen, taken = found
            return taken

        def contract(operands: Any, autocast: Optional[torch.dtype]) -> Any:
            if not {"q", "k", "v"} <= set(operands):
                return []
            call = Call(operands, self.conditions.capability, {"torch": str(torch.__version__)})
            return sdpa_library.clauses(call, kind_of(autocast), chosen)

        return self.attend(_SDPA, "torch", tensors, contract, run, frame=frame, backend=backend, given=given)

    def attend(  # type: ignore[override]
        self, name: str, library: str, tensors: Any, contract: Any, run: Any, **more: Any
    ) -> object:
        """Runs one call and looks at it; `given`: its arguments by name, where `run` does not say them."""
        given = more.pop("given", None)
        if self.depth or not self._may_look(tensors):
            return run()
        kept: List[Any] = []

        def ran() -> Any:
            kept.append(run())
            return kept[0]

        self._closed: Optional[Record] = None
        try:
            out = super().attend(name, library, tensors, contract, ran, **more)
        except Exception:
            if kept:  # it ran: the error is ours
                self.trouble = traceback.format_exc()
                return kept[0]
            raise
        try:
            if self._closed is not None:
                options = given if given is not None else _given(run)
                self._look(self._closed, library, tensors, options, out, more.get("frame"))
        except Exception:
            self.trouble = traceback.format_exc()
        return out

    def _may_look(self, tensors: Dict[str, Any]) -> bool:
        self._in_step += 1
        if self._in_step > _MOST_CALLS or len(self.records) >= _MOST_KINDS:
            return False
        values = [one for one in tensors.values() if isinstance(one, torch.Tensor)]
        if not values or any(type(one) not in PLAIN for one in values):
            return False  # of a subclass, or not real: DTensor, FakeTensor, functorch
        return not (values[0].is_cuda and torch.cuda.is_current_stream_capturing())

    def _close(self, record: Record) -> None:
        super()._close(record)
        self._closed = self._by_key[record.key()]

    def _backend(self, given: Dict[str, Any], autocast: Optional[torch.dtype]) -> Any:
        """torch's choice as torch itself makes it for this call, and what is foreseen of the others; asked once for
        calls of one form."""
        form = sdpa_backend.form_of(given, autocast)
        if form not in self._taken:
            with warnings.catch_warnings():  # torch explains each refusal where no kernel is left
                warnings.simplefilter("ignore")
                self._taken[form] = self._choice(given, autocast)
        return self._taken[form]

    def _choice(self, given: Dict[str, Any], autocast: Optional[torch.dtype]) -> Any:
        choose = getattr(torch, "_fused_sdp_choice", None)
        q, k, v = (given[name] for name in ("query", "key", "value"))
        mask = given.get("attn_mask")
        if autocast is not None:
            q, k, v = (one.to(autocast) if one.is_floating_point() else one for one in (q, k, v))
            mask = mask.to(autocast) if mask is not None and mask.is_floating_point() else mask
        taken = None
        if choose is not None:
            options = {"scale": given.get("scale"), "enable_gqa": bool(given.get("enable_gqa"))}
            number = choose(
                q, k, v, mask, float(given.get("dropout_p") or 0.0), bool(given.get("is_causal")), **options
            )
            taken = _CHOSEN[number] if 0 <= number < len(_CHOSEN) else None
        choice = self.choices.of((), given, autocast)
        if choice is not None and taken in (None, choice.backend):
            return choice, self.choices.as_json(choice)
        if taken is None:
            return None
        where = "this GPU" if q.is_cuda else "this CPU"
        return None, {"taken": taken, "refused": {}, "certain": True, "doubts": [], "warnings": [], "error": None,
                      "gpu": where, "torch": str(torch.__version__), "math": None}  # fmt: skip

    def _look(self, record: Record, library: str, tensors: Any, given: Any, out: Any, frame: Any) -> None:
        result = out[0] if isinstance(out, (list, tuple)) else out
        seen = self.seen.setdefault(id(record), Seen(record))
        seen.first_step = seen.first_step if seen.examined else self.step
        seen.examined, seen.last_step = seen.examined + 1, self.step
        path = self._path_of(frame)
        if path and path not in record.modules:
            record.modules.append(path)
        if not isinstance(result, torch.Tensor) or not result.dim() or type(result) not in PLAIN:
            return
        q, k, v = (tensors[role] for role in "qkv")
        with torch.no_grad():
            bad = result.isfinite().all(-1).logical_not().sum()
            sound = torch.stack([one.isfinite().all() for one in (q, k, v)]).all()
            seen.outputs.append(torch.stack([bad, sound.to(bad.dtype)]))
            seen.rows += result.numel() // max(int(result.shape[-1]), 1)
            if self._is_turn(seen):
                self._shadow(seen, record, library, tensors, given, result)
        # A scaler makes gradients overflow on purpose: in float16 NaN is its everyday business.
        if result.requires_grad and result.dtype is not torch.float16:
            _watch_gradients(seen, result, [one for one in (q, k, v) if one.requires_grad])

    def _is_turn(self, seen: Seen) -> bool:
        """The first call of each kind, and then other calls in each examined step."""
        if seen.examined == 1:
            return True
        total = max(self._last_step_had, 1)
        turns = {(self._turn * self.sampled_calls + one * max(total // self.sampled_calls, 1)) % total + 1
                 for one in range(self.sampled_calls)}  # fmt: skip
        return self._in_step in turns

    def _shadow(self, seen: Seen, record: Record, library: str, tensors: Any, given: Any, out: torch.Tensor) -> None:
        try:
            if record.name == _SDPA:
                call = shadow.of_sdpa(tensors, given, out)
            elif library in _FLASH and "with_kvcache" not in record.name:
                call = shadow.of_flash(tensors, given, out)
            else:
                raise shadow.CannotShadow("what {} computes is not known here".format(record.name))
            if record.autocast is not None and record.name == _SDPA:
                call = call._replace(rounded=record.autocast)
            seen.shadows += shadow.rows(call, self.sampled_rows, self.step * 1009 + self._in_step)
        except shadow.CannotShadow as error:
            seen.not_shadowed = str(error)
        except (RuntimeError, ValueError, IndexError, KeyError) as error:  # out of memory among them
            seen.not_shadowed = "{}: {}".format(type(error).__name__, str(error).strip()[:120])

    def _path_of(self, frame: Optional[FrameType]) -> Optional[str]:
        """The module whose forward made the call, by its path in the outermost module that is running."""
        inner: Optional[torch.nn.Module] = None
        outer: Optional[torch.nn.Module] = None
        while frame is not None:
            own = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
            if isinstance(own, torch.nn.Module):
                inner, outer = inner or own, own
            frame = frame.f_back
        if inner is None:
            return None
        if id(inner) not in self._paths and outer is not None:
            self._paths.update((id(one), name) for name, one in outer.named_modules())
        return self._paths.get(id(inner)) or type(inner).__name__

    def read(self) -> List[Tuple[str, Seen]]:
        """Ends a step: waits for what was computed, and gives what is new and wrong: "not finite" | "passed on" |
        "gradient" | "wrong" | "mixed", each once for each kind of call, "passed on" once in all."""
        new: List[Tuple[str, Seen]] = []
        everything = list(self.seen.values())
        values = [one for seen in everything for one in seen.outputs + [g.reshape(1) for g in seen.gradients]]
        values += [torch.stack([row.error, row.limit]) for seen in everything for row in seen.shadows]
        numbers = iter(_numbers(values))
        for seen in everything:
            before = (seen.nonfinite_rows, seen.nan_gradients)
            for _ in seen.outputs:
                bad, sound = int(next(numbers)), bool(next(numbers))
                seen.nonfinite_rows += bad if sound else 0
                seen.spoiled_calls += int(not sound)
            for _ in seen.gradients:
                seen.nan_gradients += int(next(numbers))
            if seen.nonfinite_rows > before[0] and seen.nonfinite_step is None:
                seen.nonfinite_step = self.step
                new.append(("not finite", seen))
            if seen.spoiled_calls and not self._passed_on:
                self._passed_on = True
                new.append(("passed on", seen))
            if seen.nan_gradients > before[1] and seen.nan_gradient_step is None:
                seen.nan_gradient_step = self.step
                new.append(("gradient", seen))
            if seen.record.broken and seen.examined and seen.first_step == self.step == seen.last_step:
                new.append(("mixed", seen))
            seen.outputs, seen.gradients = [], []
        for seen in everything:
            wrong = seen.wrong_rows
            for row in seen.shadows:
                self._judge(seen, row, next(numbers), next(numbers))
            if seen.wrong_rows and not wrong:
                new.append(("wrong", seen))
            seen.shadows = []
        self._last_step_had, self._in_step = self._in_step, 0
        self._turn += 1
        return new

    def _judge(self, seen: Seen, row: shadow.Row, error: float, limit: float) -> None:
        seen.shadowed_rows += 1
        # NaN is told by the rows that are not finite, and by whose they are.
        if error != error or limit != limit:
            return
        seen.wrong_rows += int(error > limit)
        if seen.worst is None or error / limit > seen.worst / (seen.limit or 1.0):
            seen.worst, seen.limit, seen.worst_step, seen.worst_row = error, limit, self.step, row.place


def _numbers(values: List[torch.Tensor]) -> List[float]:
    """All of them in one transfer a device, in their order."""
    found: Dict[int, List[float]] = {}
    for device in {one.device for one in values}:
        own = [(number, one) for number, one in enumerate(values) if one.device == device]
        flat = torch.cat([one.detach().double().reshape(-1) for _, one in own]).tolist()
        for number, one in own:
            found[number], flat = flat[: one.numel()], flat[one.numel() :]
    return [value for number in range(len(values)) for value in found[number]]


def _watch_gradients(seen: Seen, out: torch.Tensor, operands: List[torch.Tensor]) -> None:
    """Notes where the backward pass of one call turns numbers into NaN."""
    sound: List[torch.Tensor] = []

    def given(gradient: torch.Tensor) -> None:
        sound.append(gradient.detach().isfinite().all())

    def made(gradient: torch.Tensor) -> None:
        if sound:
            seen.gradients.append(gradient.detach().isnan().any() & sound[-1])

    out.register_hook(given)
    for one in operands:
        one.register_hook(made)


def _given(run: Any) -> Dict[str, Any]:
    """The arguments of a library's function, by name."""
    if not isinstance(run, functools.partial):
        return {}
    import inspect

    try:
        return dict(inspect.signature(run.func).bind_partial(*run.args, **run.keywords).arguments)
    except (TypeError, ValueError):
        return dict(run.keywords)
