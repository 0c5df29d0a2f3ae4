"""`attn-doctor fleet quarantine`: drains nodes for what was found on them, and resumes those that are fit again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.fleet_answer import AcceptFile
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import span
from attn_doctor.machine.printable import one_line
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.fleet.quarantine import QuarantineRequest, Result
from attn_doctor.workflows.fleet.quarantine import quarantine as run_quarantine


@guarded
def quarantine(
    sources: Annotated[
        list[str], typer.Argument(metavar="SRC...", help="Folders or files of reports, as for `fleet merge`.")
    ],
    most: Annotated[
        str | None,
        typer.Option("--max", metavar="N|N%", help="Most nodes that it keeps out at once, of all that Slurm has: 2%."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without it, only what would be done is said.")] = False,
    max_age: Annotated[
        str, typer.Option(metavar="SPAN", help="An older report neither drains nor resumes: 90s, 30m, 6h, 7d.")
    ] = "24h",
    golden: Annotated[Path | None, typer.Option(metavar="FILE", help="As in `fleet merge`.")] = None,
    accept_file: AcceptFile = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Drain nodes in Slurm for what was found on them, and resume those that are fit in a newer report.

    Says what it would do; --apply does it. A node that somebody else drained is left alone. Doing it twice changes
    nothing more. Where most nodes of an environment fail, mend the environment instead: --max keeps the others in.

    Exit status: 0 nothing is to be done, or it was done; 1 something is to be done; 2 wrong usage; 3 Slurm refused.
    """
    longest: timedelta = span(max_age, flag="--max-age")
    result = run_quarantine(
        QuarantineRequest(
            sources=tuple(sources), most=most, apply=apply, max_age=longest, golden=golden, accept=accept_file
        )
    )
    print(_as_json(result) if json_ else "\n".join(_lines(result)))  # noqa: T201
    if result.refused:
        return Status.COULD_NOT_EXAMINE
    return Status.FOUND if result.moves.todo and not apply else Status.HEALTHY


def _lines(result: Result) -> list[str]:
    done = "" if result.applied else "would be "
    refused = dict(result.refused)
    lines = []
    for move in result.moves.todo:
        what = f"{done}resumed" if move.resume else f"{done}drained: {move.reason}"
        said = f"NOT {what}: {refused[move.node]}" if move.node in refused else what
        lines.append(f"{move.node}: {said}")
    lines += [f"{node}: stays out: {reason}" for node, reason in result.moves.out]
    lines += [f"{node}: left: {why}" for node, why in result.moves.left]
    if not lines:
        lines.append("nothing to drain, nothing to resume")
    elif result.moves.todo and not result.applied:
        lines.append("nothing was changed: --apply does it")
    return [one_line(line) for line in lines]


def _as_json(result: Result) -> str:
    return json.dumps(
        {
            "applied": result.applied,
            "moves": [
                {"node": one.node, "what": "resume" if one.resume else "drain", "reason": one.reason}
                for one in result.moves.todo
            ],
            "out": [{"node": node, "reason": reason} for node, reason in result.moves.out],
            "left": [{"node": node, "why": why} for node, why in result.moves.left],
            "refused": [{"node": node, "why": why} for node, why in result.refused],
        }
    )
