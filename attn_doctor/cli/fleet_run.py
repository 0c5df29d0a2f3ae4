"""`attn-doctor fleet run`: the site's own engine starts `check` on every node, its output goes into the merge."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
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
from attn_doctor.cli.options import Lang
from attn_doctor.cli.shared import each
from attn_doctor.cli.with_typer import readable
from attn_doctor.errors import BadInput
from attn_doctor.fleet.launch import shown
from attn_doctor.fleet.sampling import Deep
from attn_doctor.machine.own_command import own_name, words_on_a_node
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.fleet.request import RunRequest, RunResult, WhichEngine
from attn_doctor.workflows.fleet.run import first_command, submit
from attn_doctor.workflows.fleet.run import run as run_engine

#: Options of `check` that decide the form in which reports arrive here.
_OURS = frozenset({"--format", "--json", "--output", "--exit-style", "--exit-zero"})


@guarded
def run(
    check_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CHECK-ARGS]", help="Options of `check`, for every node.")
    ] = None,
    engine: Annotated[
        WhichEngine,
        typer.Option(
            help="slurm: one small job a node; srun: one wide step in an allocation that one has. auto: srun in a job, "
            "else slurm, else clush, else Ray where RAY_ADDRESS is set."
        ),
    ] = WhichEngine.AUTO,
    nodes: Annotated[
        str | None, typer.Option("--nodes", "-w", metavar="NODESET", help="The nodes: gpu[001-124,130].")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="NAME", help="All nodes of a Slurm partition.")
    ] = None,
    deep: Annotated[
        Deep,
        typer.Option(
            help="Files are examined on all nodes; auto: then one node of each fingerprint and every odd one in depth."
        ),
    ] = Deep.AUTO,
    timeout: Annotated[int, typer.Option(min=1, max=86400, metavar="SECONDS", help="Limit for one node.")] = 300,
    queue_timeout: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=604800,
            metavar="SECONDS",
            help="Limit for Slurm or Ray to start on the nodes; then the queue's state is the answer. Default: 120 for "
            "a job, 30 for a step.",
        ),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="slurm: the folder for the reports, shared by all nodes; the same again continues a run. Default: a "
            "new one here.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="slurm: wait for the reports, and cancel what is left of the jobs in the end; or submit and return: "
            "`fleet status`, `merge --follow` and `cancel` take DIR.",
        ),
    ] = True,
    window: Annotated[
        int, typer.Option(min=1, max=100000, metavar="N", help="slurm: most jobs in the queue at once.")
    ] = 64,
    mem: Annotated[
        int | None,
        typer.Option(min=1, metavar="MB", help="slurm: memory of a job. Default: 512, in depth 4096."),
    ] = None,
    cpus_per_task: Annotated[int, typer.Option(min=1, metavar="N", help="slurm: CPUs of a job.")] = 1,
    gpus_per_node: Annotated[
        str | None,
        typer.Option(
            metavar="[TYPE:]N",
            help="GPUs to ask Slurm for. Default: as the job has them; a job of its own: those of its node, where "
            "GPUs are needed (--deep, --kernels).",
        ),
    ] = None,
    gres: Annotated[str | None, typer.Option(metavar="LIST", help="The same in Slurm's other words: gpu:8.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Slurm account.")] = None,
    container_image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Examine inside this image (pyxis), with its attn-doctor.")
    ] = None,
    srun_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="One more argument of srun or sbatch. Repeatable.")
    ] = None,
    sbatch_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="One more argument of sbatch: --qos=X. Repeatable.")
    ] = None,
    clush_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="One more argument of clush. Repeatable.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT|auto", help="The running Ray cluster. Default: RAY_ADDRESS, else auto."),
    ] = None,
    doctor: Annotated[
        str | None, typer.Option(metavar="PATH", help="attn-doctor on the nodes. Default: where this one lies.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the first command; start nothing.")] = False,
    expect: Expect = None,
    golden: GoldenFile = None,
    cohort_by: CohortBy = None,
    accept_file: AcceptFile = None,
    format_: How = None,
    json_: Json = False,
    lang: Lang = None,
    output: Output = None,
    write_lists: WriteLists = None,
) -> int:
    """Examine every node with the engine that the site already has, and roll the reports up.

    Prints the command that it starts. In a Slurm job the nodes are the job's; outside, each node gets a small job
    of its own, so that a node that is busy, reserved or dead costs its own row alone.

    Exit status: 0 fit, 1 a node fails or differs in something critical, 2 wrong usage, 3 missing or unreadable.
    Interrupted, it tells what had come, and ends with 130 (^C) or 143 (SIGTERM).
    """
    answer = Answer(form=format_, json=json_, output=output, write_lists=write_lists)
    request = RunRequest(
        doctor=words_on_a_node(doctor, in_image=container_image is not None, as_module=started.as_module),
        check_args=_check_args(each(check_args)),
        as_module=started.as_module,
        engine=engine,
        nodes=nodes,
        partition=partition,
        deep=deep,
        timeout=timeout,
        queue_timeout=queue_timeout,
        reports=reports,
        window=window,
        memory=mem,
        cpus=cpus_per_task,
        sbatch_args=each(sbatch_arg),
        gpus_per_node=gpus_per_node,
        gres=gres,
        account=account,
        container_image=container_image,
        srun_args=each(srun_arg),
        clush_args=each(clush_arg),
        address=address,
        expect=expect,
        golden=golden,
        cohort_by=cohort_by,
        accept=accept_file,
    )
    if dry_run:
        print(shown(first_command(request)))  # noqa: T201
        return Status.HEALTHY
    if not wait:
        return _submitted(request)
    return told(answer, run_engine(request, hear=hear))


def told(answer: Answer, result: RunResult) -> int:
    """Writes the answer, also of a run that was interrupted; gives the exit status."""
    if result.ended_by is None:
        return answer.write(result.verdict)
    sys.stderr.write("attn-doctor: interrupted; this is what had come\n")
    answer.write(result.verdict, partial=True)
    return Status.INTERRUPTED if result.ended_by == signal.SIGINT else Status.TERMINATED


def _submitted(request: RunRequest) -> int:
    folder, count = submit(request, hear=hear)
    asked = shlex.quote(str(folder))
    print(f"{count:,} jobs of this run are in the queue; reports and job ids: {folder}")  # noqa: T201
    for words, about in (
        (f"fleet status {asked}", "how far it is"),
        (f"fleet merge {asked} --follow", "the answer, when all reports are there"),
        (f"fleet cancel {asked}", "takes back what waits"),
    ):
        print(f"  {own_name()} {words}    # {about}")  # noqa: T201
    return Status.HEALTHY


def hear(line: str) -> None:
    """Writes a line on standard error, at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _check_args(written: tuple[str, ...]) -> tuple[str, ...]:
    ours = [word for word in written if word.split("=")[0] in _OURS]
    if ours:
        raise BadInput("fleet run needs the reports itself", about=f"-- {ours[0]}", hint="Leave that option out.")
    return readable(written)
