"""`attn-doctor check -- COMMAND ARGS`: runs a command, and explains at once why it failed. Its exit status is ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attn_doctor.cli.shared import refuse_beside
from attn_doctor.errors import BadInput
from attn_doctor.report import picker
from attn_doctor.report.renderer import EXPLAIN, Manner
from attn_doctor.workflows.run_command import CommandRequest, run_command

#: Parameters of `check` that have an effect together with a command; `accepts` checks three of them itself.
_TAKES = ("command", "python", "gpu", "assumption", "only", "skip", "recipes", "verbose")
_FORMS = ("format_", "json_", "output", "prometheus")


def run(request: CommandRequest, *, verbose: bool) -> int:
    """Runs it; returns its exit status, 128 + N for signal N.

    Raises BadInput when the command cannot be started.
    """
    result = run_command(request)
    if result.report is not None:
        sys.stderr.write(f"\nattn-doctor: the command ended with status {result.status}\n")
        picker.pick(EXPLAIN).write(result.report, sys.stderr, Manner(verbose=verbose))
        sys.stderr.flush()
    return result.status


def accepts(command: Sequence[str], formed: bool, output: str | None, prometheus: Path | None) -> None:
    """Raises BadInput for options that request another format or place of the report: the explanation of a command goes
    to its user.
    """
    given = {"--format": formed, "--output": output is not None, "--prometheus": prometheus is not None}
    asked = [flag for flag, is_given in given.items() if is_given]
    if asked:
        raise BadInput(
            "what explains a command that failed is text on standard error",
            about=f"{' '.join(asked)} -- COMMAND",
            hint="Leave it out; or keep the command's output in a file, and run attn-doctor explain --json FILE.",
        )
    hint = "Leave it out: nothing is examined unless the command fails, and its exit status is passed on."
    # A misplaced word arrives here as well: the message names it, so that the user sees what was taken as the command.
    refuse_beside(f"the command {command[0]!r}", takes=(*_TAKES, *_FORMS), hint=hint)
