"""The report of a guard (`attn_doctor.watch(every=…)`) on the run that it watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.formats import trace_v1
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.report import Report
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.workflows.subject import pick_recipes, silent
from attn_doctor.workflows.traced_report import report_of


def watched_run(answer: Mapping[str, Any]) -> Report:
    """Judges what the guard saw, beside the facts of this interpreter's environment, which is examined by its files."""
    with scratch() as folder:
        target = examine_target(None, as_module=True, folder=folder, timeout=60.0)
        facts = examine(target, ExaminationRequest(quick=True), folder=folder, say=silent)
    return report_of(trace_v1.read(answer), answer, target, facts, pick_recipes((), (), ()))
