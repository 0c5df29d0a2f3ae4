"""What `fleet merge`, `golden` and `run` share: their options, and how the answer is written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import guard
from attn_doctor.cli.span import span
from attn_doctor.errors import BadInput
from attn_doctor.fleet import golden as goldens
from attn_doctor.fleet import node_lists, slurm
from attn_doctor.fleet.gather import Gathered, moment
from attn_doctor.fleet.nodeset import fold, unfold
from attn_doctor.fleet.reading import Messages, watch
from attn_doctor.fleet.verdict import COHORT_BY, Question
from attn_doctor.fleet.verdict import verdict as judge
from attn_doctor.machine.files import check_output, read_input, replace_file
from attn_doctor.model.fleet import FleetVerdict, NodeReport, Unreadable
from attn_doctor.version import __version__

#: Bytes of a file of node names: a million nodes, which is the most of them, fit.
_MOST_NAMES = 64 << 20


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


def cohort_by(written: str | None, golden: goldens.Golden | None) -> tuple[str, ...]:
    """The names; a golden file brings its own.

    Raises BadInput.
    """
    known = (*COHORT_BY, "gpu_count")
    asked = tuple(name.strip() for name in (written or "").split(",") if name.strip())
    wrong = [name for name in asked if name not in known]
    if wrong:
        raise BadInput(
            "no cohort has that", about=f"--cohort-by {wrong[0]}", hint=f"One or more of {', '.join(known)}."
        )
    if golden is not None and asked and asked != golden.cohort_by:
        raise BadInput(
            "the golden file was made by other cohorts",
            about=f"--cohort-by {written}; the file has {','.join(golden.cohort_by)}",
            hint="Leave --cohort-by out, or make the file again with it.",
        )
    return golden.cohort_by if golden is not None else asked or COHORT_BY


def expected(written: str | None) -> tuple[str, ...] | None:
    """The nodes of --expect, each once, in the order written.

    Raises BadInput.
    """
    if written is None:
        return None
    if written == "slurm":
        return slurm.expected(os.environ)
    if written.startswith("@") and "/" in written and not Path(written[1:]).exists():
        raise BadInput("there is no such file", about=f"--expect {written[:200]}", hint="Node names, one a line.")
    if not written.startswith("@") or "[" in written or not Path(written[1:]).exists():
        return unfold(written, about=f"--expect {written[:200]}")
    try:
        text = read_input(Path(written[1:]), most=_MOST_NAMES).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(
            f"the file cannot be read: {said}", about=f"--expect {written}", hint="It holds node names, one a line."
        ) from None
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return unfold(",".join(line for line in lines if line), about=f"--expect {written}")


class Answer:
    """How this call wants its answer: everything that can be wrong with that is said before anything is examined."""

    def __init__(
        self,
        *,
        golden: Path | None,
        cohorts: str | None,
        form: FleetFormat,
        json: bool,
        output: Path | None,
        write_lists: Path | None,
        max_age: str | None = None,
    ) -> None:
        self.golden = goldens.read(golden) if golden is not None else None
        self.cohort_by = cohort_by(cohorts, self.golden)
        self.cohorts_as_given = cohorts is not None
        self.form = FleetFormat.JSON if json else form
        self.output = output
        self.lists = write_lists
        self.max_age = span(max_age, flag="--max-age") if max_age is not None else None
        if output is not None:
            check_output(output)
        if write_lists is not None:
            node_lists.check(write_lists)

    def judged(
        self,
        gathered: Gathered,
        heard: Messages,
        expected: tuple[str, ...] | None,
        deep: tuple[str, ...] = (),
        *,
        gpus_asked: bool = False,
    ) -> FleetVerdict:
        """What the reports come to, now."""
        return judge(
            gathered,
            Question(
                now=datetime.now(timezone.utc),
                expected=expected,
                deep_expected=deep,
                gpus_asked=gpus_asked,
                cohort_by=self.cohort_by,
                cohorts_as_given=self.cohorts_as_given,
                golden=None if self.golden is None else self.golden.cohorts,
                max_age=self.max_age,
                engine_said=heard.engine,
                node_said=heard.nodes,
            ),
        )

    def awaited(
        self,
        folders: Sequence[Path],
        heard: Messages,
        expected: tuple[str, ...] | None,
        wait: float,
        *,
        since: datetime | None = None,
    ) -> FleetVerdict:
        """The verdict as soon as no expected node is missing, or after `wait` seconds. Reports from before `since`
        do not count."""
        gathered = Gathered()
        damaged: dict[str, Unreadable] = {}
        for arrival in watch(folders, heard, seconds=wait):
            if isinstance(arrival, Unreadable):
                damaged[arrival.source] = arrival  # it may be whole at the next look
            elif arrival is not None:
                if since is not None and _before(arrival, since):
                    heard.nodes[arrival.node] = f"its report is of {arrival.created}, from before this run"
                    continue
                damaged = {source: one for source, one in damaged.items() if one.node != arrival.node}
                gathered.add(arrival)
            elif not damaged:
                verdict = self.judged(gathered, heard, expected)
                # With --max-age an earlier report is not what is waited for.
                if not verdict.missing and not (verdict.age_decides and verdict.old):
                    return verdict
        gathered.unreadable += damaged.values()
        return self.judged(gathered, heard, expected)

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


def _before(report: NodeReport, since: datetime) -> bool:
    try:
        return moment(report.created) < since
    except ValueError:
        return False  # a time that is none: the verdict names it
