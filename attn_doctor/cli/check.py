"""`attn-doctor check`: examine, judge, report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from attn_doctor.cli import started
from attn_doctor.cli.declare import Argument, Option
from attn_doctor.cli.delivery import Delivery
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.node_side import examined_once
from attn_doctor.cli.options import Assume, FailOn, Json, Lang, Only, Recipes, Skip, Strict, Timeout, written_as
from attn_doctor.cli.shared import each, names, progress, tell_aside
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import ExitStyle
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report
from attn_doctor.probe.kernels.known_kernels import FLOAT8, Mode
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report import picker
from attn_doctor.report.renderer import CHECK
from attn_doctor.workflows.check import CheckRequest
from attn_doctor.workflows.check import check as examine_and_judge


@guarded
def check(
    command: Annotated[
        list[str] | None,
        Argument(
            metavar="[-- COMMAND ARGS]",
            help="Run this command instead, and explain it when it fails. Its exit status is passed on.",
        ),
    ] = None,
    python: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="Interpreter or environment folder to examine (venv, conda, uv). Default: the active one, else the "
            "nearest .venv here or above, else python on PATH.",
        ),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Look at files only: nothing is imported or run.")] = False,
    samples: Annotated[
        bool, Option("--samples/--no-samples", help="Run tiny samples of the installed libraries.")
    ] = True,
    kernels: Annotated[
        Mode | None,
        Option(
            "--kernels",
            bare="quick",
            help="Run every attention kernel on every GPU and hold it against float64 there, by `quick` unless `full` "
            "is said; without a GPU and with --gpu, say what would run and compile it.",
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="With --kernels: this kernel only, or your own as module:function or FILE.py:function. Repeatable.",
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        Option(
            metavar="bf16|fp16|fp32|fp8",
            help=f"With --kernels: this dtype only; fp8: {', '.join(FLOAT8)}. Repeatable.",
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Run your model's own attention calls, which `trace --record` kept, by every kernel on every GPU: "
            "right or not, time and memory.",
        ),
    ] = None,
    kernels_budget: Annotated[
        float | None,
        Option(
            min=1.0,
            max=86400.0,
            metavar="SECONDS",
            help="With --kernels: time for each GPU; 20 for quick, 90 for full.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Option(min=0, max=2**31 - 1, metavar="NUMBER", help="With --kernels: seed of a run to repeat."),
    ] = None,
    explain_sdpa: Annotated[
        str | None,
        Option(
            metavar="CALL",
            help="Say which backend SDPA picks, and why not the others: 'q=2x32x4096x128:bf16 causal train'.",
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE", help="A configuration to examine as well: LLaMA-Factory, axolotl, DeepSpeed… Repeatable."
        ),
    ] = None,
    lock: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Judge what this lock file or manifest would install, without an environment: uv.lock, "
            "requirements.txt, pyproject.toml, poetry.lock, environment.yml, Dockerfile.",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        Option(metavar="NAME|sm_XY", help="Judge as if this GPU were in the node: h100, a100, rtx4090, sm_90…"),
    ] = None,
    assumption: Assume = None,
    only: Only = None,
    skip: Skip = None,
    recipes: Recipes = None,
    accept_file: Annotated[
        Path | None,
        Option(
            "--accept",
            metavar="FILE",
            help="A policy: known findings ([[accept]]) no longer gate, named warnings ([[gate]]) are errors.",
        ),
    ] = None,
    fail_on: FailOn = Severity.ERROR,
    strict: Strict = False,
    timeout: Timeout = 60.0,
    format_: Annotated[str | None, written_as(CHECK)] = None,
    json_: Json = False,
    output: Annotated[
        str | None,
        Option(
            metavar="FILE|DIR",
            help="Write the report there instead of to standard output; into a folder (DIR/ makes it) as "
            "<node>.<environment>.json.",
        ),
    ] = None,
    expect: Annotated[
        str | None,
        Option(
            metavar="NODESET|@FILE|slurm",
            help="With --output DIR: wait for the reports of these nodes, and end as `fleet merge` does.",
        ),
    ] = None,
    wait: Annotated[
        float | None,
        Option(min=1.0, max=86400.0, metavar="SECONDS", help="With --expect: wait so long for them; 60."),
    ] = None,
    prometheus: Annotated[
        Path | None, Option(metavar="FILE", help="Metrics as well, for node_exporter's textfile collector.")
    ] = None,
    verdicts: Annotated[
        Path | None,
        Option(
            "--verdicts",
            metavar="DIR",
            help="Folder for verdicts of full examinations, shared by nodes: a full check writes there, --quick and "
            "`status` read it. Default: $ATTN_DOCTOR_VERDICTS, else verdicts/ in the folder of --output.",
        ),
    ] = None,
    exit_zero: Annotated[
        bool, Option("--exit-zero", help="Exit with 0 whatever is found: the report is the verdict.")
    ] = False,
    exit_style: Annotated[
        ExitStyle, Option(help="Whose exit statuses: ours, Nagios', node-problem-detector's.")
    ] = ExitStyle.DEFAULT,
    show_names: Annotated[
        bool, Option("--show-names", help="Leave user and host names in the markdown report.")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show every fact and all evidence.")] = False,
    lang: Lang = None,
) -> int:
    """Examine one environment and this node, and say what is wrong, where, why, and how to fix it.

    With `-- COMMAND ARGS`, run the command and explain it when it fails.

    Exit status: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 could not examine.
    """
    delivery = Delivery(
        form=picker.JSON if json_ else format_,
        output=output,
        prometheus=prometheus,
        style=exit_style,
        exit_zero=exit_zero,
        verbose=verbose,
        masked=not show_names,
        fail_on=fail_on,
    )

    tried = None
    if kernels or backend or dtype or kernels_budget or seed is not None or replay is not None:
        from attn_doctor.workflows import kernels as kernel_trials

        tried = kernel_trials.asked(
            kernels, each(backend), each(dtype), kernels_budget, seed, quick=quick, replay=replay
        )
    if explain_sdpa is not None:
        from attn_doctor.cli import sdpa_command
        from attn_doctor.workflows.explain_sdpa import SdpaRequest

        return sdpa_command.run(
            SdpaRequest(call=explain_sdpa, python=python, as_module=started.as_module, gpu=gpu, timeout=timeout),
            form=delivery.form,
            output=None if output is None else Path(output),
        )

    if lock is not None:
        from attn_doctor.cli import lock_command
        from attn_doctor.workflows.check_lock import CheckLockRequest

        return lock_command.run(
            CheckLockRequest(
                file=lock,
                gpu=gpu,
                assumptions=each(assumption),
                only=names(only, "--only"),
                skip=names(skip, "--skip"),
                recipes=each(recipes),
                accept=accept_file,
                fail_on=fail_on,
            ),
            delivery,
        )

    if command:
        from attn_doctor.cli import run_command
        from attn_doctor.workflows.run_command import CommandRequest

        run_command.accepts(command, delivery.form not in (None, picker.DEFAULT), output, prometheus)
        return run_command.run(
            CommandRequest(
                command=each(command),
                python=python,
                as_module=started.as_module,
                gpu=gpu,
                assumptions=each(assumption),
                only=names(only, "--only"),
                skip=names(skip, "--skip"),
                recipes=each(recipes),
            ),
            verbose=verbose,
        )

    kept = None
    if verdicts is not None or delivery.folder is not None or "ATTN_DOCTOR_VERDICTS" in os.environ:
        from attn_doctor.workflows import full_verdicts

        kept = full_verdicts.folder_of(verdicts, delivery.folder, os.environ)
    if not quick and samples:
        delivery = replace(delivery, verdicts=kept)

    def look() -> Report:
        request = CheckRequest(
            python=python,
            as_module=started.as_module,
            quick=quick,
            samples=samples,
            timeout=timeout,
            configs=each(config),
            gpu=gpu,
            assumptions=each(assumption),
            only=names(only, "--only"),
            skip=names(skip, "--skip"),
            recipes=each(recipes),
            accept=accept_file,
            fail_on=fail_on,
            strict=strict,
            kernels=tried,
            verdicts=kept,
        )
        with progress() as say:
            return examine_and_judge(request, say=say, warn=tell_aside)

    if wait is not None and expect is None:
        raise BadInput("whose reports?", about=f"--wait {wait:g}", hint="Name the nodes with --expect.")
    gate = None
    if expect is not None:
        from attn_doctor.cli import gate as gates

        gate = gates.gate(expect, wait or 60.0, delivery, accept=accept_file)
    delivery.prepare()
    return examined_once(look, delivery, python=python, quick=quick, timeout=timeout, gate=gate)
