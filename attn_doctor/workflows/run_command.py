"""Runs a command and, if it fails, explains why."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine import passthrough
from attn_doctor.machine.files import absolute
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.report import Examined, Report
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.logs import Held
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.workflows.explain import as_if_partly, explained
from attn_doctor.workflows.subject import NOBODY, examined, pick_recipes, refuse_unreadable, silent

#: Bytes kept from the end of the command's output, which shows why it ended.
_KEPT = 16 << 20
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """The command, and the recipes for its failure."""

    command: tuple[str, ...]
    python: str | None = None
    """The interpreter whose facts are used; None: the one that the command starts with."""
    as_module: bool = False
    """If the command starts with no interpreter: use the one that this code runs in."""
    gpu: str | None = None
    assumptions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Result of the command."""

    status: int
    """Its exit status; 128 + N for signal N."""
    report: Report | None = None
    """Why it failed; None if it did not."""


def run_command(request: CommandRequest) -> CommandResult:
    """Runs the command; its output goes to our standard output and error.

    Raises BadInput for an invalid request, and when the command cannot be started.
    """
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    refuse_unreadable(request.assumptions)
    passed = passthrough.run(request.command, keep=_KEPT)
    if passed.status == 0:
        return CommandResult(status=0)
    base, whose = _here(request.python or _interpreter(request.command[0]), as_module=request.as_module)
    typed = " ".join(request.command)
    log = Held(f"the output of `{typed if len(typed) < 60 else typed[:57] + '…'}`", passed.tail)
    report = explained([log], recipes, as_if_partly(base, request.gpu, request.assumptions), whose)
    return CommandResult(status=passed.status, report=report)


def _interpreter(program: str) -> str | None:
    """The interpreter that the command starts with, if any."""
    found = shutil.which(program)
    return str(absolute(Path(found))) if found and _PYTHON.match(Path(program).name) else None


def _here(python: str | None, *, as_module: bool) -> tuple[FactSet, Examined]:
    """This node's facts, since the command ran on it; empty when it cannot be examined: then the output alone is
    used.
    """
    try:
        with scratch() as folder:
            target = examine_target(python, as_module=as_module, folder=folder, timeout=20.0, isolated=True)
            facts = examine(target, ExaminationRequest(quick=True, timeout=20.0), folder=folder, say=silent)
            return facts, examined(target)
    except AttnDoctorError:
        return FactSet(), NOBODY
