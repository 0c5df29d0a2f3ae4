"""Runs a model once and finds the operation and line that changed the dtype of q, k or v before the kernel."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.dtypes import dtype_named
from attn_doctor.model.facts import FactSet
from attn_doctor.model.libraries import libraries
from attn_doctor.model.report import Report
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.trace.tracing import check_input, run_trace
from attn_doctor.quick_dataclasses import asdict
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.workflows.subject import Say, as_if, pick_recipes, silent
from attn_doctor.workflows.traced_program import TraceRequest, entry_request, program
from attn_doctor.workflows.traced_report import report_of

#: attn_implementation of a config -> library that gets a stand-in when it is not installed.
_STAND_INS = {one.attn_implementation: one.key for one in libraries() if one.newest and one.attn_implementation}
_USUAL = next(iter(_STAND_INS.values()))
_RULES = frozenset({"cpu", "fake", "gpu", "auto"})


def trace(request: TraceRequest, *, say: Say = silent) -> Report:
    """Traces the program and diagnoses the run. `say` receives progress messages.

    Raises BadInput for an invalid request, TargetUnusable when the interpreter does not answer.
    """
    if request.semantics or request.compile:
        from attn_doctor.workflows.small_copy import small_copy  # records that a trace does not need

        return small_copy(request, say=say)
    what, python = program(list(request.what), request.python)
    asked = entry_request(what, request.hf, request.arguments)
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    gpu = named_gpu(request.gpu) if request.gpu is not None else None
    if request.rules not in _RULES:
        raise BadInput(
            f"there are no rules {request.rules!r}", about=f"--rules {request.rules}", hint="auto, gpu, cpu or fake."
        )
    asked |= {
        "dtype": dtype_named(request.dtype, "--dtype"),
        "autocast": dtype_named(request.autocast, "--autocast"),
        "attn": request.attn,
        "stand_ins": list(dict.fromkeys((_USUAL, _STAND_INS.get(request.attn or "", _USUAL)))),
        "backward": request.backward,
        "calls": request.calls,
        "gpu": None if gpu is None else {k: v for k, v in asdict(gpu).items() if v is not None},
        "trust_remote_code": request.trust_remote_code,
        "compile_kernels": request.kernels,
        "cwd": str(Path.cwd()),
        "sys_path": [str(Path.cwd())],
    }
    about = f"trace {' '.join(what)}{f' --hf {request.hf}' if request.hf else ''}"
    with scratch() as folder:
        target = examine_target(python, as_module=request.as_module, folder=folder, timeout=60.0)
        facts = examine(target, ExaminationRequest(quick=True), folder=folder, say=say)
        asked["rules"] = _rules(request.rules, facts, assumed=gpu is not None)
        traced = run_trace(target, asked, timeout=request.timeout, folder=folder, say=say)
    check_input(traced.trace, about)
    if request.record is not None:
        from attn_doctor.formats import calls_v1

        replace_file(request.record, calls_v1.text_of(traced.answer))
    return report_of(
        traced.trace,
        traced.answer,
        target,
        as_if(facts, gpu, ()),
        recipes,
        fail_on=request.fail_on,
        rerun=_rerun(request),
    )


def _rerun(request: TraceRequest) -> tuple[str, ...]:
    """The options with which `fix` traces the same; it takes a factory, and autocast alone."""
    other = (request.hf, request.arguments, request.dtype, request.attn, request.backward, request.calls)
    if len(request.what) != 1 or ":" not in request.what[0] or any(other):
        return ()
    return ("--trace", request.what[0], *(("--autocast", request.autocast) if request.autocast else ()))


def _rules(asked: str, facts: FactSet, *, assumed: bool) -> str:
    """The rules: a real GPU is used if it is present, unless another one was named."""
    here = facts.value("listed.gpu")
    real = isinstance(here, int) and here > 0 and facts.value("torch.cuda") is not None
    return "gpu" if asked == "auto" and real and not assumed else asked
