"""The report of a traced or guarded run: its calls judged by the recipes, beside the facts of its environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.traced import met
from attn_doctor.machine import faults
from attn_doctor.machine.target import Target
from attn_doctor.model import exit_status
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report
from attn_doctor.model.trace import Trace
from attn_doctor.probe.trace import call_facts
from attn_doctor.probe.trace.trace_facts import facts_of
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import assumed_names, examined


def report_of(
    trace: Trace,
    answer: Mapping[str, Any],
    target: Target,
    facts: FactSet,
    recipes: tuple[Recipe, ...],
    *,
    fail_on: Severity = Severity.ERROR,
    rerun: tuple[str, ...] = (),
) -> Report:
    """Judges the calls of `trace`; `answer` is the trace as its process wrote it."""
    gpu = (answer.get("rules") or {}).get("gpu") or {}
    how = f"traced {trace.words}" if trace.words else "traced"
    forms = call_facts.facts(answer.get("forms") or [], how=how, capability=gpu.get("compute_capability"))
    facts = derive(FactSet([*facts.values(), *facts_of(trace), *forms]))
    ended_early = trace.outcome in ("could not run", "raised") or bool(trace.error)
    return judged_run(
        target,
        facts,
        recipes,
        fail_on=fail_on,
        came_to_an_answer=trace.seen and not ended_early,
        assumed=assumed_names(facts),
        trace=trace,
        trace_answer=answer,
        rerun=rerun,
    )


def judged_run(
    target: Target,
    facts: FactSet,
    recipes: tuple[Recipe, ...],
    *,
    fail_on: Severity,
    came_to_an_answer: bool,
    **answers: Any,
) -> Report:
    """The report of `trace` with the answers of one of its tasks: only findings of the run are kept, as `check` reports
    problems of the rest of the environment.
    """
    diagnosis = met(judge(facts, recipes), recipes)
    own_faults = faults.met()
    status = exit_status.status_of(diagnosis, fail_on=fail_on, strict=False, own_faults=bool(own_faults))
    if not came_to_an_answer and status == exit_status.Status.HEALTHY:
        status = exit_status.Status.COULD_NOT_EXAMINE
    return Report(
        command="trace",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=examined(target),
        quick=False,
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
        own_faults=own_faults,
        **{"assumed": (), **answers},
    )
