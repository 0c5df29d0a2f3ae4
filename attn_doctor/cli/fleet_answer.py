"""What `fleet merge`, `golden` and `run` share: their options, and how the answer is written."""

from __future__ import annotations

import io
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import guard
from attn_doctor.fleet import node_lists
from attn_doctor.fleet.nodeset import fold
from attn_doctor.fleet.verdict import COHORT_BY
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.version import __version__


class FleetFormat(str, Enum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    PROMETHEUS = "prometheus"


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
How = Annotated[FleetFormat, typer.Option("--format", help="How the answer is written.")]
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

    def __init__(self, *, form: FleetFormat, json: bool, output: Path | None, write_lists: Path | None) -> None:
        self.form = FleetFormat.JSON if json else form
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
        text = io.StringIO()
        self._render(verdict, sys.stdout if self.form is FleetFormat.TEXT and self.output is None else text)
        if self.output is not None:
            replace_file(self.output, text.getvalue())
        else:
            try:
                sys.stdout.write(text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8"))
                sys.stdout.flush()
            except BrokenPipeError:
                guard.close_stdout()
        return verdict.exit_status

    def _render(self, verdict: FleetVerdict, stream: object) -> None:
        # Each writer is imported only when it is wanted.
        out: io.StringIO = stream  # type: ignore[assignment]
        if self.form is FleetFormat.JSON:
            from attn_doctor.formats import fleet_v1

            out.write(fleet_v1.dumps(verdict, doctor_version=__version__))
        elif self.form is FleetFormat.HTML:
            from attn_doctor.report import fleet_html

            fleet_html.write(verdict, out, doctor_version=__version__, fold=fold)
        elif self.form is FleetFormat.PROMETHEUS:
            from attn_doctor.report import fleet_prometheus

            fleet_prometheus.write(verdict, out, doctor_version=__version__)
        else:
            from attn_doctor.report import fleet_text

            try:
                fleet_text.write(verdict, out, doctor_version=__version__, fold=fold)
            except BrokenPipeError:
                guard.close_stdout()
