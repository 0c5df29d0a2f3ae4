"""`trace --semantics`: checks which token reaches which in a small copy of a model, and diagnoses what is broken."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.traced import met
from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model import exit_status
from attn_doctor.model.facts import FactSet
from attn_doctor.model.report import Report
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.trace.semantics import facts_of, run_semantics
from attn_doctor.probe.trace.tracing import check_entry
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import Say, examined, pick_recipes, silent
from attn_doctor.workflows.traced_program import TraceRequest, entry_request, program

#: Options of a trace that mean nothing here.
_NOT_HERE = ("dtype", "autocast", "calls", "gpu", "kernels", "backward")


def semantics(request: TraceRequest, *, say: Say = silent) -> Report:
    """Makes the checks and diagnoses them. `say` receives progress messages.

    Raises BadInput for an invalid request, TargetUnusable when the interpreter does not answer.
    """
    for name in _NOT_HERE:
        if getattr(request, name):
            raise BadInput(
                f"--{name} is about a traced run",
                about=f"--semantics --{name}",
                hint="Leave it out: a small copy of the model runs in float32, forward and backward.",
            )
    if request.rules not in ("auto", "cpu", "gpu"):
        raise BadInput("tokens need values", about=f"--rules {request.rules}", hint="auto, cpu or gpu.")
    what, python = program(list(request.what), request.python)
    asked = entry_request(what, request.hf, request.arguments)
    about = f"trace --semantics {' '.join(what)}{f' --hf {request.hf}' if request.hf else ''}"
    if asked["kind"] == "script":
        raise BadInput(
            "the tokens of a program cannot be changed",
            about=about,
            hint="Name `file.py:factory`, which returns the model with example inputs, or a config with --hf.",
        )
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    asked |= {
        "attn": request.attn,
        "trust_remote_code": request.trust_remote_code,
        "device": "cuda" if request.rules == "gpu" else "cpu",
        "budget": min(60.0, request.timeout * 0.8),
        "cwd": str(Path.cwd()),
        "sys_path": [str(Path.cwd())],
    }
    with scratch() as folder:
        target = examine_target(python, as_module=request.as_module, folder=folder, timeout=60.0)
        facts = examine(target, ExaminationRequest(quick=True), folder=folder, say=say)
        found = run_semantics(target, asked, timeout=request.timeout, folder=folder, say=say)
    check_entry(found.semantics.error_kind, found.semantics.error, about)
    facts = derive(FactSet([*facts.values(), *facts_of(found.semantics)]))
    diagnosis = met(judge(facts, recipes), recipes)
    own_faults = faults.met()
    status = exit_status.status_of(diagnosis, fail_on=request.fail_on, strict=False, own_faults=bool(own_faults))
    if (found.semantics.error or not found.semantics.seen) and status == exit_status.Status.HEALTHY:
        status = exit_status.Status.COULD_NOT_EXAMINE
    return Report(
        command="trace",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=examined(target),
        quick=False,
        assumed=(),
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
        semantics=found.semantics,
        semantics_answer=found.answer,
        own_faults=own_faults,
    )
