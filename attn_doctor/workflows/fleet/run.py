"""Starts `check` on every node with the site's own engine, and compares the reports with a standard."""

from __future__ import annotations

import os
import re
import shutil
import sys
from enum import Enum
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import on_ray, slurm
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.launch import Engine, Launch, shown
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.fleet.reading import Messages, stream
from attn_doctor.fleet.sampling import Deep, representatives
from attn_doctor.machine.candidates import active_environment
from attn_doctor.machine.streaming import Ending, streamed
from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.workflows.fleet.standard import Standard, standard
from attn_doctor.workflows.subject import Say, silent

#: A line of a task's standard error, as forwarded by `srun --label`.
_TASK = re.compile(r"\s*(\d{1,7}): (.*)")


class WhichEngine(str, Enum):
    """The engine that starts attn-doctor on the nodes."""

    AUTO = "auto"
    SLURM = "slurm"
    CLUSH = "clush"
    RAY = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The nodes, the engine, and the standard for the reports."""

    doctor: tuple[str, ...] = (sys.executable, "-m", "attn_doctor")
    """The words that start attn-doctor on a node."""
    check_args: tuple[str, ...] = ()
    """Options of `check` for every node, with absolute paths."""
    as_module: bool = False
    """Over ssh, without a named environment: use the environment of this code instead of the active one."""
    engine: WhichEngine = WhichEngine.AUTO
    nodes: str | None = None
    """A node set."""
    partition: str | None = None
    deep: Deep = Deep.AUTO
    timeout: int = 300
    """Seconds for one node."""
    queue_timeout: int = 30
    """Seconds for Slurm or Ray to start the tasks."""
    gpus_per_node: str | None = None
    gres: str | None = None
    account: str | None = None
    container_image: str | None = None
    srun_args: tuple[str, ...] = ()
    clush_args: tuple[str, ...] = ()
    address: str | None = None
    """Address of the running Ray cluster."""
    expect: str | None = None
    golden: Path | None = None
    cohort_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result for all nodes."""

    verdict: FleetVerdict
    ended_by: int | None = None
    """The signal that ended it early: the verdict covers the reports received until then."""


def first_command(request: RunRequest) -> tuple[str, ...]:
    """The first command that would be started. Raises BadInput."""
    return _prepared(request).first().command()


def run(request: RunRequest, *, hear: Say = silent) -> RunResult:
    """Examines the nodes. `hear` receives the commands when they start, and the engine's messages.

    ^C and SIGTERM end the started programs, and the result covers the reports received until then. Raises BadInput for
    an invalid request, AttnDoctorError when the engine does not answer.
    """
    ready = _prepared(request)
    held, launch, gpus = ready.standard, ready.launch, ready.gpus_asked
    heard, gathered = Messages(), Gathered()
    heard.engine += [f"{node}: {said}" for node, said in ready.troubles.items() if said]
    if not launch.nodes:
        return RunResult(verdict=held.judged(gathered, heard, gpus_asked=gpus))
    ending = Ending()
    chosen: tuple[str, ...] = ()
    with ending.heeded():
        _start(ready.first(), gathered, heard, ending, hear)
        verdict = held.judged(gathered, heard, gpus_asked=gpus)
        if request.deep is Deep.AUTO and not _is_quick(launch.check_args):
            chosen = tuple(node for node in representatives(gathered, verdict) if node in launch.nodes)
            if chosen and ending.signal is None:
                _start(replace(launch, nodes=chosen), gathered, heard, ending, hear)
            verdict = held.judged(gathered, heard, chosen, gpus_asked=gpus)
    if ending.signal is None:
        return RunResult(verdict=verdict)
    for node in {*verdict.missing, *verdict.not_deep} & set(launch.nodes):
        heard.nodes[node] = "interrupted"
    return RunResult(verdict=held.judged(gathered, heard, chosen, gpus_asked=gpus), ended_by=ending.signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """All information known before anything is started."""

    standard: Standard
    launch: Launch
    troubles: dict[str, str]
    """Node -> why it cannot be used."""
    deep: Deep
    gpus_asked: bool

    def first(self) -> Launch:
        """The first launch: examines files on all nodes, unless all are examined in depth."""
        return self.launch if self.deep is Deep.ALL else replace(self.launch, check_args=_quick(self.launch.check_args))


def _prepared(request: RunRequest) -> _Ready:
    held = standard(expect=request.expect, golden=request.golden, cohort_by=request.cohort_by)
    engine = _picked(request.engine)
    job = slurm.nodes_of_job(os.environ) if engine is Engine.SLURM else None
    asking = on_ray.head(request.address, os.environ) if engine is Engine.RAY else ()
    if asking:
        wanted, troubles = _on_ray(asking, request.nodes, held.expected)
    else:
        wanted, troubles = _wanted(engine, request.nodes, request.partition, job)
    launch = Launch(
        engine=engine,
        nodes=tuple(node for node in wanted if not troubles.get(node)),
        doctor=request.doctor,
        check_args=_check_args(request, engine),
        timeout=request.timeout,
        queue_timeout=request.queue_timeout,
        partition=request.partition,
        gpus_per_node=request.gpus_per_node or (None if request.gres else os.environ.get("SLURM_GPUS_PER_NODE")),
        gres=request.gres,
        account=request.account,
        container_image=request.container_image,
        engine_args=request.srun_args if engine is Engine.SLURM else request.clush_args,
        in_job=job is not None,
        asking=asking,
    )
    return _Ready(
        standard=replace(held, expected=held.expected or wanted),
        launch=launch,
        troubles=troubles,
        deep=request.deep,
        gpus_asked=_gpus_asked(launch),
    )


def _start(launch: Launch, gathered: Gathered, heard: Messages, ending: Ending, hear: Say) -> None:
    command = launch.command()
    hear(f"+ {shown(command)}")

    def engine_said(line: str) -> None:
        heard.engine.append(line)
        hear(line)

    with streamed(command, limit=launch.limit, hear=engine_said, ending=ending) as lines:
        gathered.add_all(stream(lines, launch.engine.value, heard))
    # A second round numbers its tasks again: a number identifies a node only within one round.
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
    """The nodes to use, and for others the reason why they cannot be used."""
    named = unfold(nodes, about=f"--nodes {nodes}") if nodes is not None else None
    if engine is Engine.CLUSH:
        if named is None:
            raise BadInput(
                "clush needs the names of the nodes", about="fleet run", hint="Name them: -w 'gpu[001-016]'."
            )
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
    """All live nodes, or the named ones; for named or expected nodes, why one cannot be used."""
    named = unfold(nodes, about=f"--nodes {nodes}") if nodes is not None else None
    states = on_ray.nodes(asking, among=named, expected=expect or ())
    if not states:
        raise BadInput("no node of the Ray cluster is alive", about=f"--address {asking[-1]}")
    return tuple(states), states


def _check_args(request: RunRequest, engine: Engine) -> tuple[str, ...]:
    args = request.check_args
    if engine is Engine.CLUSH and not any(word.split("=")[0] == "--python" for word in args):
        here = active_environment(as_module=request.as_module)
        if here is not None:
            return ("--python", str(here), *args)  # ssh forwards neither variables nor the current folder
    return args


def _gpus_asked(launch: Launch) -> bool:
    """True when Slurm was to allocate GPUs on each node, by the command line or the job."""
    by_gres = [part.removeprefix("gres/").split(":") for part in (launch.gres or "").split(",")]
    if launch.gpus_per_node or launch.gres:
        counted = (launch.gpus_per_node or "").split(":")
        return counted[-1] not in {"", "0"} or any(one[0] == "gpu" and one[-1] != "0" for one in by_gres)
    return launch.in_job and os.environ.get("SLURM_GPUS_ON_NODE", "0") not in {"", "0"}


def _is_quick(args: tuple[str, ...]) -> bool:
    return "--quick" in args


def _quick(args: tuple[str, ...]) -> tuple[str, ...]:
    return args if _is_quick(args) else (*args, "--quick")
