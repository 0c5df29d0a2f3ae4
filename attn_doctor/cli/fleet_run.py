"""`attn-doctor fleet run`: the site's own engine starts `check` on every node, its output goes into the merge."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.fleet_answer import (
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
from attn_doctor.cli.shared import each
from attn_doctor.cli.with_typer import readable
from attn_doctor.errors import BadInput
from attn_doctor.fleet.launch import shown
from attn_doctor.fleet.sampling import Deep
from attn_doctor.machine.own_command import words_on_a_node
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.fleet.run import RunRequest, WhichEngine, first_command
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
        typer.Option(help="auto: srun where there is one, else clush, else Ray where RAY_ADDRESS is set."),
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
        int, typer.Option(min=1, max=86400, metavar="SECONDS", help="Limit for Slurm or Ray to start on the nodes.")
    ] = 30,
    gpus_per_node: Annotated[
        str | None, typer.Option(metavar="[TYPE:]N", help="GPUs to ask Slurm for. Default: as the job has them.")
    ] = None,
    gres: Annotated[str | None, typer.Option(metavar="LIST", help="The same in Slurm's other words: gpu:8.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Slurm account.")] = None,
    container_image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Examine inside this image (pyxis), with its attn-doctor.")
    ] = None,
    srun_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="One more argument of srun. Repeatable.")
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
    format_: How = None,
    json_: Json = False,
    output: Output = None,
    write_lists: WriteLists = None,
) -> int:
    """Examine every node with the engine that the site already has, and roll the reports up.

    Prints the command that it starts. In a Slurm job the nodes are the job's.

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
    )
    if dry_run:
        print(shown(first_command(request)))  # noqa: T201
        return Status.HEALTHY
    result = run_engine(request, hear=_hear)
    if result.ended_by is None:
        return answer.write(result.verdict)
    sys.stderr.write("attn-doctor: interrupted; this is what had come\n")
    answer.write(result.verdict, partial=True)
    return Status.INTERRUPTED if result.ended_by == signal.SIGINT else Status.TERMINATED


def _hear(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _check_args(written: tuple[str, ...]) -> tuple[str, ...]:
    ours = [word for word in written if word.split("=")[0] in _OURS]
    if ours:
        raise BadInput("fleet run needs the reports itself", about=f"-- {ours[0]}", hint="Leave that option out.")
    return readable(written)
