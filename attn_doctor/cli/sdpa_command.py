"""`check --explain-sdpa`: which backend SDPA picks for one call, and why not the others."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from attn_doctor.cli import started
from attn_doctor.cli.shared import refuse_beside
from attn_doctor.cookbook.gpus import NamedGpu
from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.machine.harmless import json_text
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.probe import sdpa_spec
from attn_doctor.report.exit_status import Status

#: Parameters of `check` that say something here.
_TAKES = ("explain_sdpa", "python", "gpu", "timeout", "format_", "json_", "output")


def accepts(context: typer.Context) -> None:
    """Raises BadInput for what this would pass over: there is no report, and nothing that gates."""
    hint = "Leave it out: one call is explained, as text or with --json, and nothing else is examined."
    refuse_beside(context, "--explain-sdpa", takes=_TAKES, hint=hint)
    form = context.params.get("format_")
    if form is not None and form.value not in ("text", "json"):
        raise BadInput("a call is explained as text or as JSON", about=f"--format {form.value}", hint=hint)


def run(
    text: str, *, python: str | None, gpu: NamedGpu | None, as_json: bool, output: Path | None, timeout: float
) -> Status:
    """Explains it on standard output, or in the file `output`.

    Raises BadInput for a call that cannot be read, TargetUnusable where torch cannot be asked.
    """
    call = sdpa_spec.parse(text)
    if output is not None:
        check_output(output)
    with scratch() as folder:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=timeout)
        running, answers = target.start_inside(
            "kernels.explain", {"call": call, "gpu": asdict(gpu) if gpu else None}, folder=folder
        )
        completed = running.wait(timeout + 30.0)
        try:
            answer: dict[str, Any] = json.loads((answers / "explanation.json").read_text())
        except (OSError, ValueError):
            last = completed.stderr.strip().splitlines()[-1:]
            raise TargetUnusable(
                f"the question to torch {completed.ended()}",
                about="\n".join([str(target.python), *last]),
                hint="`attn-doctor check` says what is wrong with this environment.",
            ) from None
    if answer.get("error"):
        raise _cannot(answer["error"], target, asked_here=gpu is None)
    told = io.StringIO()
    if as_json:
        told.write(json_text({"call": text, **answer}, indent=2) + "\n")
    else:
        from attn_doctor.report import sdpa_text

        sdpa_text.write(text, answer, told if output is not None else sys.stdout)
    if output is not None:
        replace_file(output, told.getvalue())
    else:
        sys.stdout.write(told.getvalue())
    return Status.HEALTHY


def _cannot(error: str, target: Target, *, asked_here: bool) -> TargetUnusable:
    hint = "Name a GPU to have it predicted: --gpu h100." if asked_here else "`attn-doctor check` says what is wrong."
    return TargetUnusable(f"torch cannot be asked: {error}", about=str(target.python), hint=hint)
