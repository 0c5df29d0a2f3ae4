"""What `fleet run` is asked, and what is known before anything is started: engine, nodes, their troubles."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import on_ray, slurm
from attn_doctor.fleet.launch import Engine, Launch
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.fleet.sampling import Deep
from attn_doctor.fleet.slurm import SlurmNode
from attn_doctor.machine.candidates import active_environment
from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.quick_dataclasses import dataclass, field, replace
from attn_doctor.workflows.fleet.standard import Standard, standard

#: Seconds for an engine to start the tasks, where nobody says another number. A job waits for the scheduler's rounds,
#: which many sites hold once in a minute.
_QUEUE = {Engine.SLURM: 120, Engine.SRUN: 30, Engine.CLUSH: 30, Engine.RAY: 30}


class WhichEngine(str, Enum):
    """The engine that starts attn-doctor on the nodes."""

    AUTO = "auto"
    SLURM = "slurm"
    """One small job a node."""
    SRUN = "srun"
    """One wide step, in an allocation that one already has."""
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
    queue_timeout: int | None = None
    """Seconds for Slurm or Ray to start the tasks; None: as the engine needs."""
    reports: Path | None = None
    """With jobs: the folder that all nodes share, for reports and the state of the run."""
    window: int = 64
    """Jobs in the queue at once."""
    memory: int | None = None
    """MB for each job."""
    cpus: int = 1
    """CPUs for each job."""
    sbatch_args: tuple[str, ...] = ()
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
    accept: Path | None = None
    """A site's policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result for all nodes."""

    verdict: FleetVerdict
    ended_by: int | None = None
    """The signal that ended it early: the verdict covers the reports received until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """All information known before anything is started."""

    standard: Standard
    launch: Launch
    troubles: dict[str, str]
    """Node -> why it cannot be used."""
    deep: Deep
    gpus_asked: bool
    known: Mapping[str, SlurmNode] = field(default_factory=dict)
    """What Slurm says of the nodes."""

    def first(self) -> Launch:
        """The first launch: examines files on all nodes, unless all are examined in depth."""
        return self.launch if self.deep is Deep.ALL else replace(self.launch, check_args=quick(self.launch.check_args))


def prepared(request: RunRequest) -> Ready:
    """Looks at the nodes and the standard; starts nothing there. Raises BadInput."""
    held = standard(expect=request.expect, golden=request.golden, cohort_by=request.cohort_by, accept=request.accept)
    engine = _picked(request.engine, os.environ)
    by_slurm = engine in (Engine.SLURM, Engine.SRUN)
    job = slurm.nodes_of_job(os.environ) if by_slurm else None
    asking = on_ray.head(request.address, os.environ) if engine is Engine.RAY else ()
    known: dict[str, SlurmNode] = {}
    if asking:
        wanted, troubles = _on_ray(asking, request.nodes, held.expected)
    elif by_slurm:
        wanted, known = _of_slurm(request.nodes, request.partition, job)
        troubles = {name: node.trouble for name, node in known.items()}
    else:
        wanted, troubles = _by_name(request.nodes), {}
    launch = Launch(
        engine=engine,
        nodes=tuple(node for node in wanted if not troubles.get(node)),
        doctor=request.doctor,
        check_args=_check_args(request, engine),
        timeout=request.timeout,
        queue_timeout=request.queue_timeout or _QUEUE[engine],
        partition=request.partition,
        gpus_per_node=request.gpus_per_node or (None if request.gres else os.environ.get("SLURM_GPUS_PER_NODE")),
        gres=request.gres,
        account=request.account,
        container_image=request.container_image,
        engine_args=request.clush_args if engine is Engine.CLUSH else request.srun_args,
        in_job=job is not None,
        asking=asking,
    )
    # Kernels are tried on each node's own GPUs: no other node can stand for it.
    tried = any(word.split("=")[0] == "--kernels" for word in launch.check_args)
    return Ready(
        standard=replace(held, expected=held.expected or wanted),
        launch=launch,
        troubles=troubles,
        deep=Deep.ALL if tried else Deep.NONE if is_quick(launch.check_args) else request.deep,
        gpus_asked=_gpus_asked(launch),
        known=known,
    )


def _picked(engine: WhichEngine, environment: Mapping[str, str]) -> Engine:
    if engine is not WhichEngine.AUTO:
        return Engine(engine.value)
    if "SLURM_JOB_ID" in environment and shutil.which("srun"):
        return Engine.SRUN
    for program, found in (("sbatch", Engine.SLURM), ("srun", Engine.SRUN), ("clush", Engine.CLUSH)):
        if shutil.which(program):
            return found
    if environment.get("RAY_ADDRESS"):
        return Engine.RAY
    raise BadInput(
        "neither sbatch nor clush is on PATH",
        about="fleet run --engine auto",
        hint="Start `attn-doctor check --output DIR` on each node in your own way, and `fleet merge DIR`.",
    )


def _by_name(nodes: str | None) -> tuple[str, ...]:
    if nodes is None:
        raise BadInput("clush needs the names of the nodes", about="fleet run", hint="Name them: -w 'gpu[001-016]'.")
    return unfold(nodes, about=f"--nodes {nodes}")


def _of_slurm(
    nodes: str | None, partition: str | None, job: tuple[str, ...] | None
) -> tuple[tuple[str, ...], dict[str, SlurmNode]]:
    """The nodes to use, and what Slurm says of them."""
    named = unfold(nodes, about=f"--nodes {nodes}") if nodes is not None else None
    if named is None and job is None and partition is None:
        raise BadInput(
            "which nodes?", about="fleet run", hint="Name nodes with -w or a partition with -p, or run it in a job."
        )
    among = named if named is not None or partition is not None else job
    try:
        known = slurm.described(partition=partition, among=among)
    except AttnDoctorError as error:
        if among is None:
            raise BadInput(f"Slurm does not say which nodes there are: {error.what}", about=error.about) from None
        return among, {}
    if not known:
        raise BadInput("Slurm has no such nodes", about=f"--partition {partition}" if partition else f"--nodes {nodes}")
    return among or tuple(known), known


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


def is_quick(args: tuple[str, ...]) -> bool:
    """True when `check` looks at files only."""
    return "--quick" in args


def quick(args: tuple[str, ...]) -> tuple[str, ...]:
    """The same options, for files only."""
    return args if is_quick(args) else (*args, "--quick")
