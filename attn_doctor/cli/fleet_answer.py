"""Shared by `fleet merge`, `golden` and `run`: their options, and how the answer is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.options import written_as
from attn_doctor.cli.shared import put
from attn_doctor.errors import BadInput
from attn_doctor.fleet.cohorts import COHORT_BY
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.model.fleet import FleetVerdict, State
from attn_doctor.report import picker
from attn_doctor.report.renderer import FLEET

Expect = Annotated[
    str | None,
    typer.Option(metavar="NODESET|@FILE|slurm", help="The nodes there ought to be: gpu[001-124,130]."),
]
GoldenFile = Annotated[
    Path | None, typer.Option("--golden", metavar="FILE", help="Compare with this instead of with the majority.")
]
CohortBy = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help=f"What equal nodes have in common, with commas. Default: {','.join(COHORT_BY)}"),
]
AcceptFile = Annotated[
    Path | None,
    typer.Option(
        "--accept",
        metavar="FILE",
        help="A site's policy: what gates, what is lived with, thresholds, by partition. `fleet policy` prints one.",
    ),
]
How = Annotated[str | None, written_as(FLEET)]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of to standard output.")
]
WriteLists = Annotated[
    Path | None,
    typer.Option("--write-lists", metavar="DIR", help="Write files of node names: for srun --exclude=FILE."),
]

#: Files of --write-lists, a name a line, for `srun --exclude=FILE`, `clush --hostfile=FILE` and scripts.
_LISTS: tuple[tuple[str, tuple[State, ...]], ...] = (
    ("fit_nodes.txt", (State.FIT,)),
    ("failing_nodes.txt", (State.FAILS,)),
    ("drifting_nodes.txt", (State.DRIFTS,)),
    ("missing_nodes.txt", (State.MISSING,)),
    ("unreadable_nodes.txt", (State.UNREADABLE,)),
    ("unsure_nodes.txt", (State.UNSURE,)),
    ("exclude_nodes.txt", tuple(state for state in State if state is not State.FIT)),
)


class Answer:
    """Format and place of the answer; faults in these options are reported before anything is examined."""

    def __init__(self, *, form: str | None, json: bool, output: Path | None, write_lists: Path | None) -> None:
        self._picked = picker.pick(FLEET, form, as_json=json, output=output)
        self.output = output
        self.lists = write_lists
        if output is not None:
            check_output(output)
        if write_lists is not None:
            _check_lists(write_lists)

    def write(self, verdict: FleetVerdict, *, partial: bool = False) -> int:
        """Writes it; gives the exit status. Lists that others act on are not made of a partial answer."""
        if self.lists is not None and not partial:
            _write_lists(verdict, self.lists)
        put(verdict, self._picked, output=self.output)
        return verdict.exit_status


def _check_lists(folder: Path) -> None:
    """Creates the folder.

    Raises BadInput when it cannot be written, before anything is examined.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder cannot be made: {error.strerror}", about=f"--write-lists {folder}") from None


def _write_lists(verdict: FleetVerdict, folder: Path) -> None:
    """Writes all lists, including empty ones: an outdated list would exclude nodes that are healthy again."""
    lists = {name: verdict.nodes_in(*states) for name, states in _LISTS}
    # What the queue did with a job says nothing about the node: it is not excluded for that.
    lists["exclude_nodes.txt"] = tuple(one for one in lists["exclude_nodes.txt"] if one not in verdict.not_started)
    lists["not_started_nodes.txt"] = verdict.not_started
    for name, nodes in lists.items():
        replace_file(folder / name, "".join(f"{node}\n" for node in nodes), chosen=True)
