"""`attn-doctor fleet status` and `fleet cancel`: a run of `fleet run --no-wait`, or one that was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.guard import guarded
from attn_doctor.errors import AttnDoctorError
from attn_doctor.fleet.nodeset import fold
from attn_doctor.machine.printable import one_line
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.fleet.submitted import Progress, progress
from attn_doctor.workflows.fleet.submitted import cancel as cancel_jobs

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of `fleet run --reports DIR`.")]


@guarded
def status(folder: _Folder, json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False) -> int:
    """Say how far a submitted run is: who reported, what each job waits for, why no report will come.

    Exit status: 0 every node reported, 3 some have not, 2 wrong usage.
    """
    found = progress(folder)
    print(_as_json(found) if json_ else "\n".join(_lines(found)))  # noqa: T201
    return Status.HEALTHY if found.complete else Status.COULD_NOT_EXAMINE


def _lines(found: Progress) -> list[str]:
    lines = [f"{len(found.reported):,} of {found.nodes:,} nodes reported; begun {found.begun}"]
    for title, rows in (("in the queue", found.waiting), ("no report", found.without)):
        if rows:
            lines += ["", title, *(f"  {fold(nodes)}  {one_line(words)}" for words, nodes in rows)]
    return lines


def _as_json(found: Progress) -> str:
    return json.dumps(
        {
            "begun": found.begun,
            "nodes": found.nodes,
            "reported": list(found.reported),
            "in_the_queue": [{"what": words, "nodes": list(nodes)} for words, nodes in found.waiting],
            "no_report": [{"why": words, "nodes": list(nodes)} for words, nodes in found.without],
        }
    )


@guarded
def cancel(folder: _Folder) -> int:
    """Take the jobs of a submitted run out of the queue; those of anybody else stay.

    Exit status: 0 done, 2 wrong usage, 3 Slurm did not take them all.
    """
    count, said = cancel_jobs(folder)
    print(f"{count:,} jobs cancelled; reports that came stay in {folder}")  # noqa: T201
    if said:
        raise AttnDoctorError(one_line(said), about="scancel", hint="`fleet status DIR` says what is left.")
    return Status.HEALTHY
