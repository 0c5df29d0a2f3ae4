"""What `fleet merge`, `golden` and `run` share: their options, and how the answer is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.options import written_as
from attn_doctor.cli.shared import put
from attn_doctor.fleet import node_lists
from attn_doctor.fleet.verdict import COHORT_BY
from attn_doctor.machine.files import check_output
from attn_doctor.model.fleet import FleetVerdict
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
How = Annotated[str | None, written_as(FLEET)]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
Output = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write it there instead of to standard output.")
]
WriteLists = Annotated[
    Path | None,
    typer.Option("--write-lists", metavar="DIR", help="Write files of node names: for srun --exclude=FILE."),
]


class Answer:
    """How this call wants its answer: everything that can be wrong with that is said before anything is examined."""

    def __init__(self, *, form: str | None, json: bool, output: Path | None, write_lists: Path | None) -> None:
        self._picked = picker.pick(FLEET, form, as_json=json, output=output)
        self.output = output
        self.lists = write_lists
        if output is not None:
            check_output(output)
        if write_lists is not None:
            node_lists.check(write_lists)

    def write(self, verdict: FleetVerdict, *, partial: bool = False) -> int:
        """Writes it; gives the exit status. Lists that others act on are not made of a partial answer."""
        if self.lists is not None and not partial:
            node_lists.write(verdict, self.lists)
        put(verdict, self._picked, output=self.output)
        return verdict.exit_status
