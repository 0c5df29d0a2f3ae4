"""`trace --semantics` and `trace --compile`: examine a small copy of a model, and diagnose what is broken in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attn_doctor.diagnose.derived import derive
from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.formats import compiled_v1, semantics_v1
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.compiled_regions import CompiledRegions
from attn_doctor.model.facts import FactSet
from attn_doctor.model.report import Report
from attn_doctor.model.semantics import Semantics
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.trace import compiled_regions
from attn_doctor.probe.trace import semantics as tokens
from attn_doctor.probe.trace.small_copy import run_task
from attn_doctor.probe.trace.tracing import check_entry
from attn_doctor.workflows.subject import Say, pick_recipes, silent
from attn_doctor.workflows.traced_program import TraceRequest, entry_request, program
from attn_doctor.workflows.traced_report import judged_run

#: Options of a trace that mean nothing here.
_NOT_HERE = ("dtype", "autocast", "calls", "gpu", "kernels", "backward")


def small_copy(request: TraceRequest, *, say: Say = silent) -> Report:
    """Examines the copy and diagnoses it. `say` receives progress messages.

    Raises BadInput for an invalid request, TargetUnusable when the interpreter does not answer.
    """
    about = _about(request)
    _check_options(request, about)
    what, python = program(list(request.what), request.python)
    asked = entry_request(what, request.hf, request.arguments)
    if asked["kind"] == "script":
        raise BadInput(
            "a program cannot be called with other tokens",
            about=about,
            hint="Name `file.py:factory`, which returns the model with example inputs, or a config with --hf.",
        )
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    asked |= {
        "attn": request.attn,
        "trust_remote_code": request.trust_remote_code,
        "device": "cuda" if request.rules == "gpu" else "cpu",
        "budget": request.timeout * 0.7,
        "cwd": str(Path.cwd()),
        "sys_path": [str(Path.cwd())],
    }
    task, name = ("semantics_run", "semantics") if request.semantics else ("compiled_run", "compiled")
    with scratch() as folder:
        target = examine_target(python, as_module=request.as_module, folder=folder, timeout=60.0)
        facts = examine(target, ExaminationRequest(quick=True), folder=folder, say=say)
        answer = run_task(target, task, name, asked, timeout=request.timeout, folder=folder, say=say)
    found = _read(answer, target, semantics=request.semantics)
    check_entry(found.error_kind, found.error, about)
    own = tokens.facts_of(found) if isinstance(found, Semantics) else compiled_regions.facts_of(found)
    facts = derive(FactSet([*facts.values(), *own]))
    return judged_run(
        target,
        facts,
        recipes,
        fail_on=request.fail_on,
        came_to_an_answer=bool(found.seen and not found.error),
        semantics=found if isinstance(found, Semantics) else None,
        semantics_answer=answer if request.semantics else None,
        compiled_regions=found if isinstance(found, CompiledRegions) else None,
        compiled_answer=None if request.semantics else answer,
    )


def _about(request: TraceRequest) -> str:
    flag = "--semantics" if request.semantics else "--compile"
    named = f" --hf {request.hf}" if request.hf else ""
    return f"trace {flag} {' '.join(request.what)}{named}"


def _check_options(request: TraceRequest, about: str) -> None:
    """Raises BadInput for options that mean nothing here."""
    if request.semantics and request.compile:
        raise BadInput("two questions at once", about=about, hint="Ask --semantics and --compile one after the other.")
    for name in _NOT_HERE:
        if getattr(request, name):
            raise BadInput(
                f"--{name} is about a traced run",
                about=f"{about} --{name}",
                hint="Leave it out: a small copy of the model runs in float32, forward and backward.",
            )
    if request.rules not in ("auto", "cpu", "gpu"):
        raise BadInput("tokens need values", about=f"--rules {request.rules}", hint="auto, cpu or gpu.")


def _read(answer: dict[str, Any], target: Target, *, semantics: bool) -> Semantics | CompiledRegions:
    try:
        return semantics_v1.read(answer) if semantics else compiled_v1.read(answer)
    except (KeyError, TypeError) as error:
        raise TargetUnusable(
            f"the answer cannot be read: {type(error).__name__}: {error}", about=str(target.python)
        ) from None
