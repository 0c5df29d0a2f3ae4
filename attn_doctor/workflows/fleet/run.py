"""Starts `check` on every node with the site's own engine, and compares the reports with a standard."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from attn_doctor.fleet import node_job, slurm, slurm_queue
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.launch import Engine, Launch, shown
from attn_doctor.fleet.node_job import NodeJob
from attn_doctor.fleet.nodeset import fold
from attn_doctor.fleet.reading import Messages, stream
from attn_doctor.fleet.run_folder import RunFolder
from attn_doctor.fleet.sampling import Deep, representatives
from attn_doctor.machine.files import absolute
from attn_doctor.machine.streaming import Ending, streamed
from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fleet.arrivals import Arrivals
from attn_doctor.workflows.fleet.node_jobs import NodeJobs
from attn_doctor.workflows.fleet.request import Ready, RunRequest, RunResult, is_quick, prepared, quick
from attn_doctor.workflows.subject import Say, silent

#: A line of a task's standard error, as forwarded by `srun --label`.
_TASK = re.compile(r"\s*(\d{1,7}): (.*)")
#: Words of srun when it starts nothing at all.
_NO_LAUNCH = re.compile(r"Unable to (allocate resources|create step|confirm allocation)|Requested nodes are busy", re.I)
#: MB for a job: files alone, and with an import of torch and sample forward passes.
_MEMORY, _MEMORY_DEEP = 512, 4096
#: How many nodes of a fingerprint are asked in turn to be examined in depth, where Slurm starts no job on the first.
_TRIES = 3


def first_command(request: RunRequest) -> tuple[str, ...]:
    """The first command that would be started. Raises BadInput."""
    ready = prepared(request)
    if ready.launch.engine is Engine.SLURM:
        nodes = ready.launch.nodes or ("NODE",)
        job = _maker(request, ready, RunFolder(_folder(request)), "attn-doctor-RUN")(nodes[0], ready.deep is Deep.ALL)
        return (*job.command(), f"--wrap={job.script().splitlines()[-1]}")
    return ready.first().command()


def run(request: RunRequest, *, hear: Say = silent) -> RunResult:
    """Examines the nodes. `hear` receives the commands when they start, and the engine's messages.

    ^C and SIGTERM end the started programs, and the result covers the reports received until then. Raises BadInput for
    an invalid request, AttnDoctorError when the engine does not answer.
    """
    ready = prepared(request)
    return _by_jobs(request, ready, hear) if ready.launch.engine is Engine.SLURM else _at_once(ready, hear)


def submit(request: RunRequest, *, hear: Say = silent) -> tuple[Path, int]:
    """Submits a job for each node and waits for none: (folder of the run, jobs in the queue). Raises BadInput."""
    ready, gathered, heard = prepared(request), Gathered(), Messages()
    nodes = ready.launch.nodes
    # Nobody is there to let the window slide: as many as Slurm's limits allow, and the rest when the run is continued.
    jobs = _jobs(replace(request, window=len(nodes)), ready, gathered, heard, hear, stopped=lambda: False)
    count = jobs.submit_all(nodes, deep=ready.deep is Deep.ALL)
    if ready.deep is Deep.AUTO and not count and all(jobs.arrivals.came(node) for node in nodes):
        chosen = representatives(gathered, ready.standard.judged(gathered, heard))
        count = jobs.submit_all([node for node in chosen if node in nodes], deep=True)
    return jobs.arrivals.folder.folder, count


def _at_once(ready: Ready, hear: Say) -> RunResult:
    """One command for all nodes."""
    held, launch, gpus = ready.standard, ready.launch, ready.gpus_asked
    heard, gathered = Messages(), Gathered()
    heard.engine += [f"{node}: {said}" for node, said in ready.troubles.items() if said]
    if not launch.nodes:
        return RunResult(verdict=held.judged(gathered, heard, gpus_asked=gpus))
    ending = Ending()
    chosen: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    with ending.heeded():
        _start(ready.first(), gathered, heard, ending, hear)
        if launch.engine is Engine.SRUN and not gathered.reports and any(map(_NO_LAUNCH.search, heard.engine)):
            not_started = launch.nodes
        verdict = held.judged(gathered, heard, gpus_asked=gpus, not_started=not_started)
        if ready.deep is Deep.AUTO:
            chosen = tuple(node for node in representatives(gathered, verdict) if node in launch.nodes)
            if chosen and ending.signal is None:
                _start(replace(launch, nodes=chosen), gathered, heard, ending, hear)
            verdict = held.judged(gathered, heard, chosen, gpus_asked=gpus, not_started=not_started)
    if ending.signal is None:
        return RunResult(verdict=verdict)
    for node in {*verdict.missing, *verdict.not_deep} & set(launch.nodes):
        heard.nodes[node] = "interrupted"
    return RunResult(verdict=held.judged(gathered, heard, chosen, gpus_asked=gpus), ended_by=ending.signal)


def _by_jobs(request: RunRequest, ready: Ready, hear: Say) -> RunResult:
    """One small job for each node; then, in depth, for one node of each fingerprint and every odd one."""
    heard, gathered, ending = Messages(), Gathered(), Ending()
    heard.engine += [f"{node}: {said}" for node, said in ready.troubles.items() if said]
    nodes, everything = ready.launch.nodes, ready.deep is Deep.ALL
    asked: set[str] = set()
    with ending.heeded():
        jobs = _jobs(request, ready, gathered, heard, hear, stopped=lambda: ending.signal is not None)

        def judged(chosen: tuple[str, ...] = ()) -> FleetVerdict:
            return ready.standard.judged(
                gathered, heard, chosen, gpus_asked_on=frozenset(asked), not_started=tuple(jobs.not_started)
            )

        try:
            jobs.examine(nodes, deep=everything)
            asked |= {node for node in nodes if jobs.make(node, everything).gres}
            verdict = judged()
            chosen: tuple[str, ...] = ()
            for _ in range(_TRIES if ready.deep is Deep.AUTO else 0):
                # One that became busy since is replaced by another of its fingerprint.
                without = frozenset(jobs.not_started)
                more = {*representatives(gathered, verdict, without=without)} & {*nodes} - {*chosen}
                if not more or ending.signal is not None:
                    break
                hear(f"in depth: {fold(more)}")
                jobs.examine(sorted(more), deep=True)
                chosen = tuple(sorted({*chosen, *more}))
                replaced = {node for node in jobs.not_started if node in chosen}
                if not replaced:
                    break
                others = representatives(gathered, verdict, without=frozenset(jobs.not_started))
                chosen = tuple(node for node in chosen if node not in replaced or set(others) <= set(chosen))
            asked |= {node for node in chosen if jobs.make(node, True).gres}
            verdict = judged(chosen)
        finally:
            jobs.cancel()
        if ending.signal is None:
            jobs.arrivals.folder.end(jobs.arrivals.plan)
            return RunResult(verdict=verdict)
    for node in {*verdict.missing, *verdict.not_deep} & set(nodes):
        heard.nodes.setdefault(node, "interrupted")
    return RunResult(verdict=judged(), ended_by=ending.signal)


def _jobs(
    request: RunRequest, ready: Ready, gathered: Gathered, heard: Messages, hear: Say, *, stopped: Callable[[], bool]
) -> NodeJobs:
    folder = RunFolder(_folder(request))
    folder.prepare()
    plan, continued = folder.begin(ready.launch.nodes, _asked(request, ready))
    arrivals = Arrivals(folder=folder, plan=plan, gathered=gathered, heard=heard)
    if continued:
        hear(f"the run of {plan.begun} is continued")
    else:
        arrivals.leave_out_what_is_there()
    make = _maker(request, ready, folder, plan.name)
    window, why = slurm_queue.room()
    deep = ready.deep is Deep.ALL
    if ready.launch.nodes:
        hear(f"+ {shown(make(ready.launch.nodes[0], deep).command())}")
        hear(f"  and so for {len(ready.launch.nodes):,} nodes; reports: {folder.folder}")
        _tell_charges(ready, make(ready.launch.nodes[0], deep), hear)
    if window < min(request.window, len(ready.launch.nodes)):
        hear(f"at most {window:,} jobs at once: {why}")
    return NodeJobs(
        arrivals=arrivals,
        make=make,
        hear=hear,
        stopped=stopped,
        timeout=request.timeout,
        queue_timeout=ready.launch.queue_timeout,
        window=min(request.window, window),
    )


def _tell_charges(ready: Ready, job: NodeJob, hear: Say) -> None:
    """Says what an exclusive partition charges: the whole node for each job, however little that asks for."""
    used = {ready.known[node].partition for node in ready.launch.nodes if node in ready.known}
    for name, settings in slurm.partitions().items():
        if name in used and settings.get("OverSubscribe") == "EXCLUSIVE":
            count = sum(ready.known[node].partition == name for node in ready.launch.nodes if node in ready.known)
            hear(
                f"partition {name} is exclusive: each of {count:,} jobs is charged as a whole node, "
                f"for the seconds that it takes and at most {job.minutes} minutes"
            )


def _maker(request: RunRequest, ready: Ready, folder: RunFolder, name: str) -> Callable[[str, bool], NodeJob]:
    launch = ready.launch

    def make(node: str, deep: bool) -> NodeJob:
        known = ready.known.get(node)
        own = known.gpus if known is not None else ""
        wished = launch.gpus_per_node is not None or launch.gres is not None
        memory = request.memory or (_MEMORY_DEEP if deep else _MEMORY)
        args = launch.check_args if deep or is_quick(launch.check_args) else quick(launch.check_args)
        return NodeJob(
            node=node,
            name=name,
            log=folder.log_pattern,
            doctor=(*launch.doctor, "check", "--output", f"{folder.folder}/", "--exit-zero", *args),
            timeout=request.timeout,
            memory=min(memory, known.memory) if known is not None and known.memory > 1 else memory,
            cpus=request.cpus,
            partition=launch.partition or (known.partition if known is not None else ""),
            gres=node_job.gpus_for(own, gpus_per_node=launch.gpus_per_node, gres=launch.gres) if deep or wished else "",
            account=launch.account or "",
            container_image=launch.container_image or "",
            more=(*request.srun_args, *request.sbatch_args),
        )

    return make


def _folder(request: RunRequest) -> Path:
    now = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return absolute(request.reports or Path(f"attn-doctor-fleet-{now}"))


def _asked(request: RunRequest, ready: Ready) -> dict[str, Any]:
    """The options that have to be the same when a run is continued."""
    return {
        "--deep": ready.deep.value,
        "--partition": request.partition or "",
        "the options of check": list(ready.launch.check_args),
    }


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
