"""One small Slurm job for each node, in a sliding window: submits, waits for reports, and says why a row has none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fleet import node_job, slurm, slurm_queue
from attn_doctor.fleet.node_job import NodeJob
from attn_doctor.fleet.run_folder import Entry
from attn_doctor.fleet.slurm_queue import Queued
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.workflows.fleet.arrivals import Arrivals
from attn_doctor.workflows.subject import Say

#: Seconds in which a report of a job that ended may still appear: file servers cache folders.
_GRACE, _GRACE_WITH_LOG = 15.0, 3.0
#: Seconds that a job may run longer than its own limits before its node counts as frozen.
_SILENT = 30
#: Jobs in a row that leave nothing behind before the folder counts as not shared, while none left anything.
_BLIND = 3
_FASTEST, _SLOWEST = 0.25, 5.0
_STATES_EVERY = 5.0


@dataclass(slots=True, kw_only=True)
class _Row:
    """A node with a job in the queue."""

    job: str
    since: float
    """When it was submitted, by the monotonic clock."""
    started: float | None = None
    gone: float | None = None
    """When it was found to have ended."""


@dataclass(slots=True, kw_only=True)
class NodeJobs:
    """The jobs of one run. `stopped` is asked between any two steps; `make` gives the job of (node, in depth)."""

    arrivals: Arrivals
    make: Callable[[str, bool], NodeJob]
    hear: Say
    stopped: Callable[[], bool]
    timeout: int
    queue_timeout: float
    window: int
    not_started: dict[str, str] = field(default_factory=dict)
    """Node -> why no job of ours ran on it: that says nothing about the node."""
    _rows: dict[str, _Row] = field(default_factory=dict)
    _later: tuple[str, float] = ("", 0.0)
    """Why nothing is submitted now, and until when."""
    _refusing_since: float | None = None
    _blind: list[str] = field(default_factory=list)
    _logged: bool = False
    """The log of a job was seen in the folder."""
    _states_at: float = 0.0

    def examine(self, nodes: Iterable[str], *, deep: bool) -> None:
        """Returns when each node sent its report, or there is a reason why it does not."""
        waiting = self._continued(nodes, deep)
        begun = time.monotonic()
        while (waiting or self._rows) and not self.stopped():
            self.arrivals.look()
            for node in [node for node in self._rows if self.arrivals.came(node, deep=deep)]:
                del self._rows[node]
            self._judge(slurm_queue.queue(self.arrivals.plan.name), waiting, deep)
            self._submit(waiting, deep)
            if self._rows or waiting:
                time.sleep(min(_SLOWEST, max(_FASTEST, (time.monotonic() - begun) / 20)))

    def submit_all(self, nodes: Iterable[str], *, deep: bool) -> int:
        """Submits without waiting; gives how many jobs are in the queue."""
        waiting = self._continued(nodes, deep)
        while waiting and len(self._rows) < self.window and not self.stopped():
            before = len(waiting)
            self._submit(waiting, deep)
            if len(waiting) == before:
                self.hear(f"not submitted for now: {self._later[0]}")
                break
        return len(self._rows)

    def cancel(self) -> None:
        """Takes back what is still in the queue."""
        if self._rows:
            said = slurm_queue.cancel([row.job for row in self._rows.values()], self.arrivals.plan.name)
            if said:
                self.hear(f"attn-doctor: {said}")
            self._rows.clear()

    def _continued(self, nodes: Iterable[str], deep: bool) -> deque[str]:
        """The nodes that need a job: of a run that is continued some have reported, and some have one."""
        mine = {one.job: one.node for one in self.arrivals.folder.entries() if one.job and one.deep == deep}
        queued = slurm_queue.queue(self.arrivals.plan.name) or {} if mine else {}
        self.arrivals.look()  # after the queue: a job that ended in between left its report
        wanted = [node for node in nodes if not self.arrivals.came(node, deep=deep)]
        with_jobs = {node: job for job, node in mine.items() if job in queued}
        self._rows.update(
            {node: _Row(job=with_jobs[node], since=time.monotonic()) for node in wanted if node in with_jobs}
        )
        return deque(node for node in wanted if node not in self._rows)

    def _submit(self, waiting: deque[str], deep: bool) -> None:
        now = time.monotonic()
        while waiting and len(self._rows) < self.window and now >= self._later[1] and not self.stopped():
            if self._blind and not self._shared():
                return  # the first jobs left nothing in the folder: no more of them until one does
            node = waiting.popleft()
            job = self.make(node, deep)
            try:
                number = slurm_queue.submit(job)
            except AttnDoctorError as error:
                if self.stopped():
                    return
                self._refused(error.what, job, waiting, deep)
                continue
            self._later, self._refusing_since = ("", 0.0), None
            self._rows[node] = _Row(job=number, since=time.monotonic())
            self.arrivals.folder.note(Entry(node=node, deep=deep, job=number))

    def _refused(self, words: str, job: NodeJob, waiting: deque[str], deep: bool) -> None:
        if not node_job.passes(words):
            said = node_job.refused(words, job.partition)
            self._without(job.node, f"{said}; in an allocation of your own: --engine srun", started=False)
            self.arrivals.folder.note(Entry(node=job.node, deep=deep, words=said))
            return
        waiting.appendleft(job.node)
        now = time.monotonic()
        self._refusing_since = self._refusing_since or now
        pause = min(60.0, max(2.0, (now - self._refusing_since) / 2))
        self._later = (words.replace("sbatch: error: ", "").replace("\n", " / ")[:300], now + pause)
        if not self._rows and now - self._refusing_since >= self.queue_timeout:
            self._give_up(waiting, f"not examined, Slurm takes no job now: {self._later[0]}")

    def _give_up(self, waiting: deque[str], words: str) -> None:
        while waiting:
            self._without(waiting.popleft(), words, started=False)

    def _judge(self, queued: Mapping[str, Queued] | None, waiting: deque[str], deep: bool) -> None:
        """Ends the rows that will send no report."""
        if queued is None:
            return  # Slurm does not answer now
        now = time.monotonic()
        self._adopt(queued, waiting, deep)
        stuck: dict[str, str] = {}
        for node, row in list(self._rows.items()):
            there = queued.get(row.job)
            if node not in self._rows:
                break  # given up together, below
            if there is not None and there.waits:
                if node_job.never_starts(there.reason):
                    self._take_back(node, node_job.refused(there.reason, self.make(node, deep).partition))
                elif now - row.since > self.queue_timeout:
                    stuck[node] = there.reason
            elif there is not None and there.runs:
                row.started = row.started or now
                if now - row.started > self.timeout + node_job.KILL + _SILENT:
                    self._take_back(node, f"its job {row.job} runs and sends no report: the node does not answer",
                                    started=True)  # fmt: skip
            else:
                row.gone = row.gone or now
                self._ended(node, row, waiting)
        if stuck:
            self._did_not_start(stuck)
        if now - self._states_at > _STATES_EVERY:
            self._states_at = now
            self._silent_nodes([node for node, row in self._rows.items() if row.started and now - row.started > 5])

    def _adopt(self, queued: Mapping[str, Queued], waiting: deque[str], deep: bool) -> None:
        """Takes over a job whose sbatch was ended before it gave the number."""
        known = {row.job for row in self._rows.values()}
        for number, one in queued.items():
            if number not in known and one.node in waiting:
                waiting.remove(one.node)
                self._rows[one.node] = _Row(job=number, since=time.monotonic())
                self.arrivals.folder.note(Entry(node=one.node, deep=deep, job=number))

    def _shared(self) -> bool:
        """Something that a node wrote was seen in the folder."""
        return self.arrivals.any or self._logged

    def _ended(self, node: str, row: _Row, waiting: deque[str]) -> None:
        log = self.arrivals.folder.log(row.job)
        self._logged = self._logged or log is not None
        waited = time.monotonic() - (row.gone or 0.0)
        if waited < (_GRACE if log is None else _GRACE_WITH_LOG):
            return
        words = node_job.ended_words(row.job, slurm_queue.ended(row.job), log or "")
        if log is None and "NODE_FAIL" not in words:
            words += f"; it left nothing in {self.arrivals.folder.folder}: is that folder shared with the node?"
            self._blind.append(node)
        del self._rows[node]
        self._without(node, words, started=True)
        if not self._shared() and (len(self._blind) >= _BLIND or not self._rows):
            where = self.arrivals.folder.folder
            said = f"not examined: the jobs of {', '.join(self._blind[:_BLIND])} left nothing in {where}"
            waiting.extend(self._rows)
            self.cancel()
            self._give_up(waiting, f"{said}; name a folder that all nodes share: --reports DIR")

    def _did_not_start(self, stuck: Mapping[str, str]) -> None:
        occupied = slurm.occupied(stuck)
        try:
            troubles = slurm.nodes(among=tuple(stuck))
        except AttnDoctorError:
            troubles = {}
        for node, reason in stuck.items():
            words = node_job.waiting_words(reason, troubles.get(node) or occupied.get(node, ""))
            self._take_back(node, words, started=bool(troubles.get(node)))

    def _silent_nodes(self, nodes: list[str]) -> None:
        """Ends the rows of nodes that Slurm found to be dead: their jobs seem to run until it gives them up."""
        if not nodes:
            return
        try:
            troubles = slurm.nodes(among=tuple(nodes))
        except AttnDoctorError:
            return
        for node, said in troubles.items():
            row, state = self._rows.get(node), said.partition(":")[0]
            if row is not None and ("*" in state or " down" in state) and not self.arrivals.folder.log(row.job):
                self._take_back(node, f"{said}; its job {row.job} sends no report", started=True)

    def _take_back(self, node: str, words: str, *, started: bool = False) -> None:
        slurm_queue.cancel([self._rows.pop(node).job], self.arrivals.plan.name)
        self._without(node, words, started=started)

    def _without(self, node: str, words: str, *, started: bool) -> None:
        self.arrivals.heard.nodes[node] = words
        if not started:
            self.not_started[node] = words
        self.hear(f"{node}: {words}")
