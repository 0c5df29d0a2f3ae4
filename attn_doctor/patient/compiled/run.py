"""Answers one request: each attention region, eager against compiled. Never raises because of the model."""

from __future__ import annotations

import inspect
import time
import traceback
from typing import Any, Callable, Dict, List, Optional

import torch
import torch._dynamo

from ..semantics import run as semantics_run
from ..semantics import small, subject
from ..trace.record import frames
from ..trace.run import config_entry, entries
from . import ALIKE, COULD_NOT_LOOK, RAISES, WRONG, breaks, judge, minimise, regions, unanswered

_BUDGET = 180.0


def examine(request: Dict[str, Any], on_region: Optional[Callable[[Dict[str, Any]], None]] = None) -> Dict[str, Any]:
    """The answer (schema in ../__init__); `on_region` receives it as far as it is."""
    started = time.perf_counter()
    until = started + float(request.get("budget") or _BUDGET)
    answer = {**unanswered(), "versions": semantics_run.versions()}
    try:
        one, answer["cut"] = semantics_run.subject_of(request)
        answer.update(subject.described(one))
        if one.module is None:
            raise subject.CannotCall("a factory that returns no module has no regions to compile")
        for region in regions.find(one):
            answer["regions"].append(_region(region, until))
            if on_region is not None:
                on_region(answer)
    except (config_entry.Unusable, entries.EntryError) as error:
        answer["error"] = {"kind": error.kind, "message": str(error), "traceback": None}
    except (small.CannotCut, subject.CannotCall) as error:
        answer["error"] = {"kind": "not built", "message": str(error), "traceback": None}
    except (Exception, SystemExit) as error:  # noqa: BLE001
        words = "{}: {}".format(type(error).__name__, str(error).strip()[:1000])
        answer["error"] = {"kind": "model raised", "message": words, "traceback": traceback.format_exc()[-4000:]}
    answer["seconds"] = round(time.perf_counter() - started, 2)
    return answer


def _region(region: regions.Region, until: float) -> Dict[str, Any]:
    found: Dict[str, Any] = {
        "module": region.path,
        "type": type(region.module).__name__,
        "layer": region.layer,
        "at": _forward_of(region.module),
        "same": region.same,
        "outcome": COULD_NOT_LOOK,
        "layouts": [],
        "stage": None,
        "fused": None,
        "script": None,
        "shown": None,
        "graphs": 0,
        "breaks": breaks.breaks(region.module, region.calls[0][1]),
        "recompilations": [],
    }
    torch._dynamo.reset()
    graphs = breaks.Graphs()
    compiled = torch.compile(region.module, backend=graphs, dynamic=False)
    with breaks.recompilations() as again:
        for name, taken in region.calls:
            if time.perf_counter() > until:
                found["layouts"].append(_layout(name, COULD_NOT_LOOK, "the time was up"))
                continue
            found["layouts"].append(_judged(region.module, compiled, name, taken))
    found["graphs"], found["recompilations"] = graphs.number, list(dict.fromkeys(again))
    outcomes = [one["outcome"] for one in found["layouts"]]
    found["outcome"] = next((one for one in (WRONG, RAISES, ALIKE) if one in outcomes), COULD_NOT_LOOK)
    if found["outcome"] == WRONG:
        at = outcomes.index(WRONG)
        _explain(found, region.module, region.calls[at][1], until)
    return found


def _forward_of(module: torch.nn.Module) -> Optional[Dict[str, Any]]:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or not frames.is_user(code.co_filename):
        return None
    return dict(frames.described((code.co_filename, code.co_firstlineno, code.co_name)) or {})


def _layout(name: str, outcome: str, words: str, parts: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    return {"name": name, "outcome": outcome, "words": words, "parts": parts or {}}


def _judged(module: torch.nn.Module, compiled: Any, name: str, taken: regions.Arguments) -> Dict[str, Any]:
    try:
        eager = judge.run(module, module, taken)
        truth = judge.in_float64(module, taken)
    except Exception as error:  # noqa: BLE001
        return _layout(name, COULD_NOT_LOOK, "it does not run by itself: {}".format(_said(error)))
    try:
        other = judge.run(compiled, module, taken)
    except Exception as error:  # noqa: BLE001
        return _layout(name, _of_compiler(error), "under torch.compile alone: {}".format(_said(error)))
    good, parts = judge.compare(truth, eager, other)
    if good:
        return _layout(name, ALIKE, "compiled within the error of eager")
    worst = max(parts, key=lambda part: parts[part]["compiled"])
    words = "{}: off by {:.2g} of its largest value, eager by {:.2g}".format(
        worst, parts[worst]["compiled"], parts[worst]["eager"]
    )
    return _layout(name, WRONG, words, parts)


def _of_compiler(error: BaseException) -> str:
    """Without a C++ compiler Inductor compiles nothing for the CPU: that says nothing of the model."""
    text = "{} {}".format(type(error).__name__, error)
    missing = ("InvalidCxxCompiler", "No working C++ compiler", "Compiler: ", "Cannot find a working triton")
    return COULD_NOT_LOOK if any(one in text for one in missing) else RAISES


def _said(error: BaseException) -> str:
    lines: List[str] = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    # The compiler's own wrapper says only that something was raised; what, stands below.
    told = [line for line in lines if not line.endswith("raised:")]
    return "{}: {}".format(type(error).__name__, told[0][:200] if told else "")


def _explain(found: Dict[str, Any], module: torch.nn.Module, taken: regions.Arguments, until: float) -> None:
    truth, eager = judge.in_float64(module, taken), judge.run(module, module, taken)

    def right(**options: Any) -> bool:
        torch._dynamo.reset()
        try:
            return judge.compare(
                truth, eager, judge.run(torch.compile(module, dynamic=False, **options), module, taken)
            )[0]
        except Exception:  # noqa: BLE001
            return False

    found["stage"] = next((stage for stage in minimise.STAGES if not right(backend=stage)), None)
    if found["stage"] == "inductor":
        from torch._inductor import config

        with config.patch(pattern_matcher=False):
            found["fused"] = right()
    try:
        small_one = minimise.minimise(module, taken, until)
    except Exception:  # noqa: BLE001
        small_one = None
    if small_one is not None:
        found["script"], found["shown"] = small_one
