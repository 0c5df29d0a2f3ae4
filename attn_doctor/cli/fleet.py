"""`attn-doctor fleet`: many nodes, one answer. Here: merge and golden; run and hook have files of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import fleet_hook, fleet_pairs, fleet_policy, fleet_quarantine, fleet_run, fleet_submitted
from attn_doctor.cli.fleet_answer import (
    AcceptFile,
    Answer,
    CohortBy,
    Expect,
    GoldenFile,
    How,
    Json,
    Output,
    WriteLists,
)
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Lang, span
from attn_doctor.cli.with_typer import declared
from attn_doctor.errors import BadInput
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.fleet import submitted
from attn_doctor.workflows.fleet.merge import GoldenRequest, MergeRequest
from attn_doctor.workflows.fleet.merge import golden as make_golden
from attn_doctor.workflows.fleet.merge import merge as run_merge

app = typer.Typer(
    help="Many nodes, one answer: fit or not, which nodes differ, and in what.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]})(
    declared(fleet_run.run)
)
app.command("status")(fleet_submitted.status)
app.command("cancel")(fleet_submitted.cancel)
app.command("quarantine")(fleet_quarantine.quarantine)
app.command("pairs")(fleet_pairs.pairs)
app.command("policy")(fleet_policy.policy)
app.command("hook")(fleet_hook.hook)

_Sources = Annotated[
    list[str],
    typer.Argument(metavar="SRC...", help="Folders of reports, files, or - for standard input: what is in them shows."),
]


@app.command("merge")
@declared
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
            metavar="SPAN",
            help="A node whose last report is older is not known to be fit: 6h; 7d without a policy.",
        ),
    ] = None,
    accept_file: AcceptFile = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="DIR of a submitted run: wait until every node reported or has no job left."),
    ] = False,
    format_: How = None,
    json_: Json = False,
    lang: Lang = None,
    output: Output = None,
    write_lists: WriteLists = None,
) -> int:
    """Roll reports of many nodes up into one answer.

    Takes what `attn-doctor check` writes: a folder of --output DIR, reports one a line, what `srun --label`, clush
    or pdsh pass on, and --format chunks. Which of them it is shows by itself.

    Exit status: 0 fit, 1 a node fails or differs in something critical, 2 wrong usage, 3 missing or unreadable.
    """
    answer = Answer(form=format_, json=json_, output=output, write_lists=write_lists)
    request = MergeRequest(
        sources=tuple(sources),
        expect=expect,
        golden=golden,
        cohort_by=cohort_by,
        max_age=None if max_age is None else span(max_age, flag="--max-age"),
        accept=accept_file,
        wait=wait,
    )
    if not follow:
        return answer.write(run_merge(request))
    if len(sources) != 1 or wait:
        raise BadInput("--follow takes the folder of one run", about="fleet merge --follow", hint="It waits by itself.")
    return fleet_run.told(answer, submitted.follow(Path(sources[0]), request.standard(), hear=fleet_run.hear))


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
    if output is not None:
        check_output(output)
    result = make_golden(GoldenRequest(sources=tuple(sources), cohort_by=cohort_by))
    for one in result.unreadable[:20]:
        sys.stderr.write(f"unreadable: {one.node or '?'}: {one.reason}  ({one.source})\n")
    if result.made.undecided:
        sys.stderr.write(f"without a majority, left out: {', '.join(result.made.undecided[:50])}\n")
    if not result.made.cohorts:
        sys.stderr.write("attn-doctor: none of the reports has a fingerprint\n")
        return Status.COULD_NOT_EXAMINE
    if output is not None:
        replace_file(output, result.made.text)
    else:
        sys.stdout.write(result.made.text)
    return Status.COULD_NOT_EXAMINE if result.unreadable else Status.HEALTHY
