"""`attn-doctor fleet`: many nodes, one answer. Here: merge and golden; run and hook have files of their own."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import fleet_hook, fleet_run
from attn_doctor.cli.fleet_answer import (
    Answer,
    CohortBy,
    Expect,
    FleetFormat,
    GoldenFile,
    How,
    Json,
    Output,
    WriteLists,
    expected,
)
from attn_doctor.cli.fleet_answer import cohort_by as cohorts_of
from attn_doctor.cli.guard import guarded
from attn_doctor.errors import BadInput
from attn_doctor.fleet import golden as goldens
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.reading import Messages, check_sources, read
from attn_doctor.machine.files import check_output, replace_file

app = typer.Typer(
    help="Many nodes, one answer: fit or not, which nodes differ, and in what.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]})(
    fleet_run.run
)
app.command("hook")(fleet_hook.hook)

_Sources = Annotated[
    list[str],
    typer.Argument(metavar="SRC...", help="Folders of reports, files, or - for standard input: what is in them shows."),
]


@app.command("merge")
@guarded
def merge(
    sources: _Sources,
    expect: Expect = None,
    golden: GoldenFile = None,
    cohort_by: CohortBy = None,
    wait: Annotated[
        float,
        typer.Option(min=0.0, max=86400.0, metavar="SECONDS", help="Wait so long for reports of expected nodes."),
    ] = 0.0,
    max_age: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN", help="A node whose last report is older is not known to be fit: 90s, 30m, 6h, 7d."
        ),
    ] = None,
    format_: How = FleetFormat.TEXT,
    json_: Json = False,
    output: Output = None,
    write_lists: WriteLists = None,
) -> int:
    """Roll reports of many nodes up into one answer.

    Takes what `attn-doctor check` writes: a folder of --output DIR, reports one a line, what `srun --label`, clush
    or pdsh pass on, and --format chunks. Which of them it is shows by itself.

    Exit status: 0 fit, 1 a node fails or differs in something critical, 2 wrong usage, 3 missing or unreadable.
    """
    check_sources(sources)
    answer = Answer(
        golden=golden, cohorts=cohort_by, form=format_, json=json_, output=output, write_lists=write_lists,
        max_age=max_age,
    )  # fmt: skip
    nodes = expected(expect)
    folders = [Path(source) for source in sources if Path(source).is_dir()]
    if wait and (nodes is None or len(folders) != len(sources)):
        raise BadInput(
            "only folders can be waited for, and for nodes that somebody expects",
            about=f"--wait {wait:g}",
            hint="Name folders of reports, and the nodes with --expect.",
        )
    heard = Messages()
    if not wait:
        gathered = Gathered()
        gathered.add_all(read(sources, heard))
        return answer.write(answer.judged(gathered, heard, nodes))
    return answer.write(answer.awaited(folders, heard, nodes, wait))


@app.command("golden")
@guarded
def golden(
    sources: _Sources,
    cohort_by: CohortBy = None,
    output: Output = None,
) -> int:
    """Write down what most nodes agree in, for `fleet merge --golden FILE`.

    Facts without a majority are left out and named on standard error.

    Exit status: 0 written, 2 wrong usage, 3 no report to make it of, or something unreadable among them.
    """
    check_sources(sources)
    if output is not None:
        check_output(output)
    heard, gathered = Messages(), Gathered()
    gathered.add_all(read(sources, heard))
    made = goldens.make_golden(
        gathered,
        cohort_by=cohorts_of(cohort_by, None),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    for one in gathered.unreadable[:20]:
        sys.stderr.write(f"unreadable: {one.node or '?'}: {one.reason}  ({one.source})\n")
    if made.undecided:
        sys.stderr.write(f"without a majority, left out: {', '.join(made.undecided[:50])}\n")
    if not made.cohorts:
        sys.stderr.write("attn-doctor: none of the reports has a fingerprint\n")
        return 3
    if output is not None:
        replace_file(output, made.text)
    else:
        sys.stdout.write(made.text)
    return 3 if gathered.unreadable else 0
