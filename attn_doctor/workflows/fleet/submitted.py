"""Runs that were submitted: how far one is, its answer when it is there, and what waits taken back."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import node_job, slurm, slurm_queue
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.reading import Messages
from attn_doctor.fleet.run_folder import Entry, Plan, RunFolder
from attn_doctor.fleet.slurm_queue import Queued
from attn_doctor.machine.streaming import Ending
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.workflows.fleet.arrivals import Arrivals
from attn_doctor.workflows.fleet.request import RunResult
from attn_doctor.workflows.fleet.standard import Standard
from attn_doctor.workflows.subject import Say, silent

#: Seconds in which the report of a job that ended may still appear.
_GRACE = 15.0
_FASTEST, _SLOWEST = 0.5, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    begun: str
    nodes: int
    reported: tuple[str, ...]
    waiting: tuple[tuple[str, tuple[str, ...]], ...]
    """(what its jobs wait for or do, nodes)"""
    without: tuple[tuple[str, tuple[str, ...]], ...]
    """(why no report will come, nodes)"""

    @property
    def complete(self) -> bool:
        """Every node reported."""
        return not (self.waiting or self.without)


def progress(folder: Path) -> Progress:
    """How far the run in this folder is. Raises BadInput when there is none."""
    run, plan = _run_in(folder)
    arrivals = _arrivals(run, plan)
    arrivals.look()
    reported = tuple(node for node in plan.nodes if arrivals.came(node))
    queued, words = _words(run, plan, [node for node in plan.nodes if not arrivals.came(node)])
    waiting: dict[str, list[str]] = defaultdict(list)
    without: dict[str, list[str]] = defaultdict(list)
    for node, said in words.items():
        (waiting if node in queued else without)[said].append(node)
    return Progress(
        begun=plan.begun,
        nodes=len(plan.nodes),
        reported=reported,
        waiting=tuple((said, tuple(nodes)) for said, nodes in waiting.items()),
        without=tuple((said, tuple(nodes)) for said, nodes in without.items()),
    )


def cancel(folder: Path) -> tuple[int, str]:
    """Cancels the jobs of the run that are in the queue: (how many, what Slurm said when it refused).

    Raises BadInput when there is no run, AttnDoctorError when Slurm does not answer.
    """
    run, plan = _run_in(folder)
    queued = slurm_queue.queue(plan.name)
    if queued is None:
        raise AttnDoctorError("squeue does not answer", about=str(folder), hint="Nothing was cancelled.")
    said = slurm_queue.cancel(queued, plan.name)
    run.end(plan)
    return len(queued), said


def follow(folder: Path, held: Standard, *, hear: Say = silent) -> RunResult:
    """The verdict when every node reported or has no job left. `hear` receives the progress.

    ^C and SIGTERM end the waiting, and the result covers what had come; jobs stay in the queue. Raises BadInput.
    """
    run, plan = _run_in(folder)
    arrivals, ending = _arrivals(run, plan), Ending()
    told, over, begun = -1, 0.0, time.monotonic()
    grace = _FASTEST
    missing: list[str] = list(plan.nodes)
    with ending.heeded():
        while ending.signal is None:
            arrivals.look()
            missing = [node for node in plan.nodes if not arrivals.came(node)]
            jobs = slurm_queue.queue(plan.name) if missing else {}
            now = time.monotonic()
            over = 0.0 if jobs or jobs is None else over or now
            grace = _GRACE if jobs else grace
            if len(missing) != told:
                told = len(missing)
                hear(f"{len(plan.nodes) - told:,} of {len(plan.nodes):,} nodes reported")
            if not missing or (over and now - over > grace):
                break
            time.sleep(min(_SLOWEST, max(_FASTEST, (now - begun) / 20)))
    queued, words = _words(run, plan, missing)
    arrivals.heard.nodes.update(words)
    started = {one.node for one in run.entries() if one.job}
    not_started = tuple(node for node in missing if node in queued or node not in started)
    expected = replace(held, expected=held.expected or plan.nodes)
    verdict = expected.judged(arrivals.gathered, arrivals.heard, not_started=not_started)
    if ending.signal is None and not queued:
        run.end(plan)
    return RunResult(verdict=verdict, ended_by=ending.signal)


def _run_in(folder: Path) -> tuple[RunFolder, Plan]:
    run = RunFolder(folder)
    plan = run.plan()
    if plan is None:
        raise BadInput(
            "no run was submitted into that folder",
            about=str(folder),
            hint="Name the DIR of `fleet run --reports DIR`; reports alone are read by `fleet merge DIR`.",
        )
    return run, plan


def _arrivals(run: RunFolder, plan: Plan) -> Arrivals:
    return Arrivals(folder=run, plan=plan, gathered=Gathered(), heard=Messages())


def _words(run: RunFolder, plan: Plan, nodes: list[str]) -> tuple[dict[str, Queued], dict[str, str]]:
    """(node -> its job in the queue, node -> why there is no report of it) for these nodes."""
    if not nodes:
        return {}, {}
    latest: dict[str, Entry] = {one.node: one for one in run.entries()}
    jobs = slurm_queue.queue(plan.name)
    queued = {node: jobs[entry.job] for node, entry in latest.items() if jobs and entry.job in jobs and node in nodes}
    occupied = slurm.occupied(node for node, one in queued.items() if one.waits)
    found = {}
    for node in nodes:
        entry, there = latest.get(node), queued.get(node)
        if entry is None:
            found[node] = "no job was submitted for it yet: the same `fleet run` continues"
        elif not entry.job:
            found[node] = entry.words
        elif there is not None:
            found[node] = (
                node_job.waiting_words(there.reason, occupied.get(node, "")) if there.waits else "its job runs"
            )
        elif jobs is None:
            found[node] = "Slurm does not answer"
        else:
            found[node] = node_job.ended_words(entry.job, slurm_queue.ended(entry.job), run.log(entry.job) or "")
    return queued, found
