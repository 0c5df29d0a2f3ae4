"""`attn-doctor fleet run`: the site's own engine starts `check` on every node, its output goes into the merge."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.check_args import readable
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
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import each
from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import on_ray, slurm
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.launch import Engine, Launch, shown
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.fleet.reading import Messages, stream
from attn_doctor.fleet.sampling import Deep, representatives
from attn_doctor.machine.candidates import candidates, environment_of
from attn_doctor.machine.files import absolute
from attn_doctor.machine.streaming import Ending, streamed
from attn_doctor.model.exit_status import Status

#: Options of `check` that decide what arrives here.
_OURS = frozenset({"--format", "--json", "--output", "--exit-style", "--exit-zero"})
#: Standard error of a task, as `srun --label` passes it on.
_TASK = re.compile(r"\s*(\d{1,7}): (.*)")


class WhichEngine(str, Enum):
    """What starts the doctor on the nodes."""

    AUTO = "auto"
    SLURM = "slurm"
    CLUSH = "clush"
    RAY = "ray"


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
    format_: How = FleetFormat.TEXT,
    json_: Json = False,
    output: Output = None,
    write_lists: WriteLists = None,
) -> int:
    """Examine every node with the engine that the site already has, and roll the reports up.

    Prints the command that it starts. In a Slurm job the nodes are the job's.

    Exit status: 0 fit, 1 a node fails or differs in something critical, 2 wrong usage, 3 missing or unreadable.
    Interrupted, it tells what had come, and ends with 130 (^C) or 143 (SIGTERM).
    """
    answer = Answer(golden=golden, cohorts=cohort_by, form=format_, json=json_, output=output, write_lists=write_lists)
    picked = _picked(engine)
    job = slurm.nodes_of_job(os.environ) if picked is Engine.SLURM else None
    asking = on_ray.head(address, os.environ) if picked is Engine.RAY else ()
    every = expected(expect)
    wanted, troubles = _on_ray(asking, nodes, every) if asking else _wanted(picked, nodes, partition, job)
    every = every or wanted
    launch = Launch(
        engine=picked,
        nodes=tuple(node for node in wanted if not troubles.get(node)),
        doctor=doctor_words(doctor, container_image),
        check_args=_check_args(check_args, picked),
        timeout=timeout,
        queue_timeout=queue_timeout,
        partition=partition,
        gpus_per_node=gpus_per_node or (None if gres else os.environ.get("SLURM_GPUS_PER_NODE")),
        gres=gres,
        account=account,
        container_image=container_image,
        engine_args=each(srun_arg if picked is Engine.SLURM else clush_arg),
        in_job=job is not None,
        asking=asking,
    )
    gpus = _gpus_asked(launch)
    quick = replace(launch, check_args=_quick(launch.check_args))
    if dry_run:
        print(shown((launch if deep is Deep.ALL else quick).command()))  # noqa: T201
        return Status.HEALTHY
    heard, gathered = Messages(), Gathered()
    heard.engine += [f"{node}: {said}" for node, said in troubles.items() if said]
    if not launch.nodes:
        return answer.write(answer.judged(gathered, heard, every, gpus_asked=gpus))
    ending = Ending()
    chosen: tuple[str, ...] = ()
    with ending.heeded():
        _start(launch if deep is Deep.ALL else quick, gathered, heard, ending)
        verdict = answer.judged(gathered, heard, every, gpus_asked=gpus)
        if deep is Deep.AUTO and not _is_quick(launch.check_args):
            chosen = tuple(node for node in representatives(gathered, verdict) if node in launch.nodes)
            if chosen and ending.signal is None:
                _start(replace(launch, nodes=chosen), gathered, heard, ending)
            verdict = answer.judged(gathered, heard, every, chosen, gpus_asked=gpus)
    if ending.signal is None:
        return answer.write(verdict)
    sys.stderr.write("attn-doctor: interrupted; this is what had come\n")
    for node in {*verdict.missing, *verdict.not_deep} & set(launch.nodes):
        heard.nodes[node] = "interrupted"
    answer.write(answer.judged(gathered, heard, every, chosen, gpus_asked=gpus), partial=True)
    return Status.INTERRUPTED if ending.signal == signal.SIGINT else Status.TERMINATED


def _start(launch: Launch, gathered: Gathered, heard: Messages, ending: Ending) -> None:
    command = launch.command()
    sys.stderr.write(f"+ {shown(command)}\n")
    sys.stderr.flush()

    def hear(line: str) -> None:
        heard.engine.append(line)
        sys.stderr.write(f"{line}\n")

    with streamed(command, limit=launch.limit, hear=hear, ending=ending) as lines:
        gathered.add_all(stream(lines, launch.engine.value, heard))
    # A second round numbers its tasks anew: a number tells the node within one round alone.
    places = gathered.close_round(launch.nodes)
    heard.engine[:] = [
        f"{places[int(match[1])]}: {match[2]}" if (match := _TASK.match(line)) and int(match[1]) in places else line
        for line in heard.engine
    ]


def _picked(engine: WhichEngine) -> Engine:
    if engine is not WhichEngine.AUTO:
        return Engine(engine.value)
    for program, found in (("srun", Engine.SLURM), ("clush", Engine.CLUSH)):
        if shutil.which(program):
            return found
    if os.environ.get("RAY_ADDRESS"):
        return Engine.RAY
    raise BadInput(
        "neither srun nor clush is on PATH",
        about="fleet run --engine auto",
        hint="Start `attn-doctor check --output DIR` on each node in your own way, and `fleet merge DIR`.",
    )


def _wanted(
    engine: Engine, nodes: str | None, partition: str | None, job: tuple[str, ...] | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The nodes, and what is in the way of those that cannot be asked."""
    named = unfold(nodes, about=f"--nodes {nodes}") if nodes is not None else None
    if engine is Engine.CLUSH:
        if named is None:
            raise BadInput("clush has to be told the nodes", about="fleet run", hint="Name them: -w 'gpu[001-016]'.")
        return named, {}
    if named is None and job is None and partition is None:
        raise BadInput(
            "which nodes?", about="fleet run", hint="Name nodes with -w or a partition with -p, or run it in a job."
        )
    among = named if named is not None or partition is not None else job
    try:
        states = slurm.nodes(partition=partition, among=among)
    except AttnDoctorError as error:
        if among is None:
            raise BadInput(f"Slurm does not say which nodes there are: {error.what}", about=error.about) from None
        return among, {}
    if not states:
        raise BadInput("Slurm has no such nodes", about=f"--partition {partition}" if partition else f"--nodes {nodes}")
    return among or tuple(states), states


def _on_ray(
    asking: tuple[str, ...], nodes: str | None, expect: tuple[str, ...] | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """All that are alive, unless some are named; of those named or expected, why one cannot be asked."""
    named = unfold(nodes, about=f"--nodes {nodes}") if nodes is not None else None
    states = on_ray.nodes(asking, among=named, expected=expect or ())
    if not states:
        raise BadInput("no node of the Ray cluster is alive", about=f"--address {asking[-1]}")
    return tuple(states), states


def doctor_words(named: str | None, image: str | None) -> tuple[str, ...]:
    """What starts attn-doctor on a node: a path, the one in the image, or where this one lies."""
    if named is not None:
        # A bare name is looked up on each node; a path is the same one there, wherever that starts.
        return (str(absolute(Path(named))) if "/" in named and image is None else named,)
    if image is not None:
        return ("attn-doctor",)
    script = Path(sys.argv[0])
    if not started.as_module and script.name == "attn-doctor" and script.exists():
        return (str(script.absolute()),)
    return (sys.executable, "-m", "attn_doctor")


def _check_args(written: list[str] | None, engine: Engine) -> tuple[str, ...]:
    args = tuple(written or ())
    ours = [word for word in args if word.split("=")[0] in _OURS]
    if ours:
        raise BadInput("fleet run needs the reports itself", about=f"-- {ours[0]}", hint="Leave that option out.")
    args = readable(args)
    if engine is Engine.CLUSH and not any(word.split("=")[0] == "--python" for word in args):
        here = active()
        if here is not None:
            return ("--python", str(here), *args)  # ssh takes neither variables nor the current folder along
    return args


def active() -> Path | None:
    """The environment that a check from here would examine, where it is not the doctor's own."""
    first = candidates(None, as_module=started.as_module).first
    return None if first.python == Path(sys.executable) else environment_of(first.python)


def _gpus_asked(launch: Launch) -> bool:
    """Whether Slurm was to give each node a GPU, on the command line or by the job."""
    by_gres = [part.removeprefix("gres/").split(":") for part in (launch.gres or "").split(",")]
    if launch.gpus_per_node or launch.gres:
        counted = (launch.gpus_per_node or "").split(":")
        return counted[-1] not in {"", "0"} or any(one[0] == "gpu" and one[-1] != "0" for one in by_gres)
    return launch.in_job and os.environ.get("SLURM_GPUS_ON_NODE", "0") not in {"", "0"}


def _is_quick(args: tuple[str, ...]) -> bool:
    return "--quick" in args


def _quick(args: tuple[str, ...]) -> tuple[str, ...]:
    return args if _is_quick(args) else (*args, "--quick")
