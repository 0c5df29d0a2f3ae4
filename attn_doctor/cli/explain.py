"""`attn-doctor explain`: what an error in a log is, why it happens, how sure that is, and how to fix it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.explain_named import read_names
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Assume, FailOn, Json, Lang, Only, OutputFile, Recipes, Skip, Strict, written_as
from attn_doctor.cli.shared import each, names, progress, put, refuse_beside
from attn_doctor.machine.files import check_output
from attn_doctor.model.exit_status import Status
from attn_doctor.model.findings import Severity
from attn_doctor.report import picker, recipes_json
from attn_doctor.report.renderer import EXPLAIN, Manner
from attn_doctor.workflows.explain import ExplainRequest
from attn_doctor.workflows.explain import explain as explain_logs

#: Options that say something to the explanation of a recipe.
_OF_A_RECIPE = frozenset({"named", "recipes", "json_", "verbose"})


@guarded
def explain(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG|TEXT|ID...",
            help="Log files, folders of them, or - for standard input; the words of an error; or the id of a recipe.",
        ),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="The log is of this node: judge by its facts (looks at files only).")
    ] = False,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The log is of this interpreter or environment, on this node: as --here."),
    ] = None,
    facts_file: Annotated[
        Path | None,
        typer.Option("--facts", metavar="REPORT", help="Judge by the facts of a report: `check --json` of that node."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME|sm_XY", help="Judge as if the log came from this GPU.")
    ] = None,
    assumption: Assume = None,
    only: Only = None,
    skip: Skip = None,
    recipes: Recipes = None,
    fail_on: FailOn = Severity.ERROR,
    strict: Strict = False,
    format_: Annotated[str | None, written_as(EXPLAIN)] = None,
    json_: Json = False,
    output: OutputFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All evidence, and what was looked for.")] = False,
    lang: Lang = None,
) -> int:
    """Explain the errors in logs: what it is, why, how sure, and how to fix it.

    The words of an error are explained as a log is; the id of a recipe is explained as the recipe has it. Without an
    argument, a log that is piped in is read, and a terminal is asked to paste.
    Nothing of this machine is looked at unless --here or --python says that the log is from it.
    Exit status: 0 nothing known at or above --fail-on, 1 something known, 2 wrong usage, 3 nothing known in a log
    that could not be read to its end.
    """
    picked = picker.pick(EXPLAIN, format_, as_json=json_, output=output)
    if output is not None:
        check_output(output)
    what = read_names(each(named), each(recipes))
    if what.recipe is not None:
        refuse_beside("the explanation of a recipe", takes=_OF_A_RECIPE, hint="Leave it out.")
        if json_:
            sys.stdout.write(recipes_json.dumps((what.recipe,)))
        else:
            from attn_doctor.report.terminal import recipe as recipe_page  # rich, which --json does without

            recipe_page.write(what.recipe, sys.stdout)
        return Status.HEALTHY
    request = ExplainRequest(
        logs=what.logs,
        texts=what.texts,
        here=here,
        python=python,
        as_module=started.as_module,
        facts_file=facts_file,
        gpu=gpu,
        assumptions=each(assumption),
        only=names(only, "--only"),
        skip=names(skip, "--skip"),
        recipes=each(recipes),
        fail_on=fail_on,
        strict=strict,
    )
    with progress() as say:
        report = explain_logs(request, say=say)
    put(report, picked, output=output, manner=Manner(verbose=verbose, fail_on=fail_on))
    return report.exit_status
