"""`attn-doctor check -- COMMAND ARGS`: runs a command, and explains at once why it failed. Its exit status is ours."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from attn_doctor.cli import started
from attn_doctor.cli.shared import refuse_beside
from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.machine import passthrough
from attn_doctor.machine.files import absolute
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.report import Examined
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.logs import Held
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.report import picker
from attn_doctor.report.renderer import EXPLAIN, Manner
from attn_doctor.workflows.explain import as_if_partly, explained
from attn_doctor.workflows.subject import NOBODY, examined, silent

#: What is kept of the command's output: the end of a run tells why it ended.
_KEPT = 16 << 20
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")


def run(
    command: Sequence[str],
    recipes: tuple[Recipe, ...],
    *,
    python: str | None,
    gpu: str | None,
    assumptions: tuple[str, ...],
    verbose: bool,
) -> int:
    """Runs it; returns its exit status, 128 + N for signal N.

    Raises BadInput when the command cannot be started.
    """
    passed = passthrough.run(command, keep=_KEPT)
    if passed.status == 0:
        return 0
    base, whose = _here(python or _interpreter(command[0]))
    typed = " ".join(command)
    log = Held(f"the output of `{typed if len(typed) < 60 else typed[:57] + '…'}`", passed.tail)
    report = explained([log], recipes, as_if_partly(base, gpu, assumptions), whose)
    sys.stderr.write(f"\nattn-doctor: the command ended with status {passed.status}\n")
    picker.pick(EXPLAIN).write(report, sys.stderr, Manner(verbose=verbose))
    sys.stderr.flush()
    return passed.status


#: Parameters of `check` that say something beside a command; `accepts` has its own words for three of them.
_TAKES = ("command", "python", "gpu", "assumption", "only", "skip", "recipes", "verbose")
_FORMS = ("format_", "json_", "output", "prometheus")


def accepts(command: Sequence[str], formed: bool, output: str | None, prometheus: Path | None) -> None:
    """Raises BadInput for what asks for a report in another form or place: what explains a command goes to its user."""
    given = {"--format": formed, "--output": output is not None, "--prometheus": prometheus is not None}
    asked = [flag for flag, is_given in given.items() if is_given]
    if asked:
        raise BadInput(
            "what explains a command that failed is text on standard error",
            about=f"{' '.join(asked)} -- COMMAND",
            hint="Leave it out; or keep the command's output in a file, and run attn-doctor explain --json FILE.",
        )
    hint = "Leave it out: nothing is examined unless the command fails, and its exit status is passed on."
    # A word too many arrives here as well: named, so that its owner sees what was taken for a command.
    refuse_beside(f"the command {command[0]!r}", takes=(*_TAKES, *_FORMS), hint=hint)


def _interpreter(program: str) -> str | None:
    """The interpreter that the command starts with, if it is one."""
    found = shutil.which(program)
    return str(absolute(Path(found))) if found and _PYTHON.match(Path(program).name) else None


def _here(python: str | None) -> tuple[FactSet, Examined]:
    """This node's facts, since the command ran on it; none where it cannot be examined: the text still tells."""
    try:
        with scratch() as folder:
            target = examine_target(python, as_module=started.as_module, folder=folder, timeout=20.0, isolated=True)
            return examine(target, ExaminationRequest(quick=True, timeout=20.0), folder=folder, say=silent), examined(
                target
            )
    except AttnDoctorError:
        return FactSet(), NOBODY
