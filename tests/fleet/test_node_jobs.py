"""One small job a node, against a Slurm that is played here: windows, limits, refusals, nodes that leave nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import node_job, slurm, slurm_queue
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.node_job import NodeJob, passes
from attn_doctor.fleet.reading import Messages
from attn_doctor.fleet.run_folder import RunFolder
from attn_doctor.fleet.slurm import SlurmNode
from attn_doctor.fleet.slurm_queue import Queued
from attn_doctor.workflows.fleet import node_jobs
from attn_doctor.workflows.fleet.arrivals import Arrivals
from attn_doctor.workflows.fleet.node_jobs import NodeJobs
from tests.fleet.reports import report

NOW = "2126-01-01T00:00:00+00:00"


class Slurm:
    """Jobs run for two looks at the queue; `refuses` and `behaves` say otherwise for a node."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.clock = 0.0
        self.jobs: dict[str, list[object]] = {}
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.most = 0
        self.refuses: Callable[[str], str] = lambda _node: ""
        self.behaves: dict[str, str] = {}
        """node -> `waits`, `hangs`, `silent` (leaves nothing), `logs` (a log and no report)."""

    def submit(self, job: NodeJob, *, limit: float = 0.0) -> str:
        said = self.refuses(job.node)
        if said:
            raise AttnDoctorError(said, about="sbatch")
        number = str(len(self.submitted) + 1)
        self.submitted.append(job.node)
        self.jobs[number] = [job.node, 0]
        self.most = max(self.most, len(self.jobs))
        return number

    def queue(self, name: str) -> dict[str, Queued]:
        found = {}
        for number, (node, looks) in list(self.jobs.items()):
            how = self.behaves.get(str(node), "")
            assert isinstance(looks, int)
            self.jobs[number][1] = looks + 1
            state = "PENDING" if how == "waits" else "RUNNING"
            if looks >= 2 and how not in ("waits", "hangs"):
                del self.jobs[number]
                if how != "silent":
                    (self.folder.own / f"{number}.out").write_text("words of the job\n")
                if not how:
                    written = json.dumps({**report(str(node), created=NOW), "quick": True})
                    (self.folder.folder / f"{node}.9f2c.json").write_text(written)
                continue
            found[number] = Queued(job=number, state=state, node=str(node), name=name, reason="(Resources)")
        return found

    def cancel(self, jobs: object, name: str) -> str:
        for number in list(jobs):  # type: ignore[call-overload]
            self.cancelled += [str(one[0]) for one in [self.jobs.pop(number, None)] if one]
        return ""

    def sleep(self, seconds: float) -> None:
        self.clock += max(seconds, 0.5)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[NodeJobs, Slurm]:
    """Jobs into a folder of this test."""
    folder = RunFolder(tmp_path / "run")
    folder.prepare()
    played = Slurm(folder)
    for name in ("submit", "queue", "cancel"):
        monkeypatch.setattr(slurm_queue, name, getattr(played, name))
    monkeypatch.setattr(slurm_queue, "ended", lambda _job: {"JobState": "COMPLETED", "ExitCode": "0:0"})
    monkeypatch.setattr(slurm, "occupied", lambda nodes: dict.fromkeys(nodes, "busy until tomorrow"))
    monkeypatch.setattr(slurm, "nodes", lambda **_: {})
    monkeypatch.setattr(node_jobs, "time", SimpleNamespace(monotonic=lambda: played.clock, sleep=played.sleep))
    plan, _ = folder.begin(("n1",), {})

    def make(node: str, deep: bool) -> NodeJob:
        return NodeJob(
            node=node, name=plan.name, log=folder.log_pattern, doctor=("attn-doctor",), timeout=10, memory=1, cpus=1,
            partition="gpu",
        )  # fmt: skip

    jobs = NodeJobs(
        arrivals=Arrivals(folder=folder, plan=plan, gathered=Gathered(), heard=Messages()),
        make=make,
        hear=lambda _words: None,
        stopped=lambda: False,
        timeout=10,
        queue_timeout=30.0,
        window=64,
    )
    return jobs, played


def names(count: int) -> list[str]:
    """n001, n002, …"""
    return [f"n{number:03d}" for number in range(1, count + 1)]


def test_the_window_slides(place: tuple[NodeJobs, Slurm]) -> None:
    """Never more jobs in the queue than the window has; all nodes come to their turn."""
    jobs, played = place
    jobs.window = 8
    jobs.examine(names(50), deep=False)

    assert jobs.arrivals.gathered.reports == 50
    assert played.most == 8
    assert not jobs.arrivals.heard.nodes


def test_busy_nodes_do_not_stop_the_window(place: tuple[NodeJobs, Slurm]) -> None:
    """Each is taken back after its own wait, and told."""
    jobs, played = place
    jobs.window = 4
    busy = names(20)[:6]
    played.behaves = dict.fromkeys(busy, "waits")
    jobs.examine(names(20), deep=False)

    assert jobs.arrivals.gathered.reports == 14
    assert played.cancelled == busy
    assert sorted(jobs.not_started) == busy
    assert "busy until tomorrow" in jobs.arrivals.heard.nodes["n001"]


@pytest.mark.parametrize(
    "words",
    [
        "sbatch: error: AssocMaxSubmitJobLimit / Job violates accounting/QOS policy (job submit limit, user's size)",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "did not answer within 30 s",
    ],
)
def test_a_limit_means_later(place: tuple[NodeJobs, Slurm], words: str) -> None:
    """Twice refused, then taken: every node comes to its turn."""
    jobs, played = place
    times = itertools.count()
    played.refuses = lambda _node: words if next(times) in (3, 4) else ""
    jobs.examine(names(10), deep=False)

    assert jobs.arrivals.gathered.reports == 10
    assert not jobs.not_started


def test_a_limit_that_stays(place: tuple[NodeJobs, Slurm]) -> None:
    """After the time for the queue the rows say so; nothing is known of the nodes."""
    jobs, played = place
    played.refuses = lambda _node: "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
    jobs.examine(names(3), deep=False)

    assert sorted(jobs.not_started) == names(3)
    assert 30 <= played.clock < 200
    assert "takes no job now" in jobs.not_started["n001"]


def test_a_refusal_is_the_row(place: tuple[NodeJobs, Slurm]) -> None:
    """Of one node alone; the others go on."""
    jobs, played = place
    words = "sbatch: error: Batch job submission failed: Node count specification invalid"
    played.refuses = lambda node: words if node == "n002" else ""
    jobs.examine(names(4), deep=False)

    assert jobs.arrivals.gathered.reports == 3
    assert jobs.not_started["n002"].startswith(
        "partition gpu refuses a job on this node alone: Node count specification invalid"
    )


_LIMIT = (
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
)


@pytest.mark.parametrize(
    ("reason", "later"),
    [("", True), ("AssocMaxSubmitJobLimit", True), ("QOSMaxSubmitJobPerUserLimit", True), ("QOSMinNode", False)],
)
def test_a_limit_passes_and_a_least_size_does_not(reason: str, later: bool) -> None:
    """The words of a Slurm with slurmdbd, whose QOS may deny on limits: it names the limit before its refusal."""
    assert passes(f"sbatch: error: {reason}\nsbatch: error: {_LIMIT}") is later


def test_a_folder_that_no_node_shares(place: tuple[NodeJobs, Slurm]) -> None:
    """The first jobs show it, and no more are submitted."""
    jobs, played = place
    jobs.window = 4
    played.behaves = dict.fromkeys(names(200), "silent")
    jobs.examine(names(200), deep=False)

    assert len(played.submitted) <= 8
    assert len(jobs.arrivals.heard.nodes) == 200
    assert "name a folder that all nodes share" in jobs.arrivals.heard.nodes["n200"]
    assert "n200" in jobs.not_started


@pytest.mark.parametrize(
    ("how", "words"),
    [("silent", "is that folder shared with the node?"), ("logs", "words of the job"), ("hangs", "does not answer")],
)
def test_one_node_costs_its_own_row(place: tuple[NodeJobs, Slurm], how: str, words: str) -> None:
    """The node that leaves nothing, the one that only prints, and the one that never ends."""
    jobs, played = place
    jobs.window = 3
    played.behaves = {"n001": how}
    jobs.examine(names(20), deep=False)

    assert jobs.arrivals.gathered.reports == 19
    assert list(jobs.arrivals.heard.nodes) == ["n001"]
    assert words in jobs.arrivals.heard.nodes["n001"]
    assert "n001" not in jobs.not_started


def test_an_end_takes_back_what_was_submitted(place: tuple[NodeJobs, Slurm]) -> None:
    """^C after a while."""
    jobs, played = place
    played.behaves = dict.fromkeys(names(5), "waits")
    jobs.stopped = lambda: played.clock > 3
    jobs.examine(names(5), deep=False)
    jobs.cancel()

    assert sorted(played.cancelled) == names(5)


def test_a_run_is_continued(place: tuple[NodeJobs, Slurm]) -> None:
    """Nodes that reported, and those whose job is in the queue, are not asked again."""
    jobs, played = place
    jobs.window = 4
    played.behaves = {"n003": "waits"}
    jobs.submit_all(names(4), deep=False)
    for _ in range(3):
        played.queue("")
    again = NodeJobs(
        arrivals=Arrivals(
            folder=jobs.arrivals.folder, plan=jobs.arrivals.plan, gathered=Gathered(), heard=Messages()
        ),
        make=jobs.make, hear=jobs.hear, stopped=jobs.stopped, timeout=10, queue_timeout=30.0, window=64,
    )  # fmt: skip
    played.behaves = {}
    again.examine(names(6), deep=False)

    assert sorted(played.submitted) == names(6)
    assert again.arrivals.gathered.reports == 6


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    """Other options in the folder of a run that has not ended are refused; when it ended, they begin anew."""
    folder = RunFolder(tmp_path / "run")
    folder.prepare()
    plan, continued = folder.begin(("n1", "n2"), {"--deep": "auto"})
    assert not continued
    assert folder.begin(("n1", "n2"), {"--deep": "auto"}) == (plan, True)
    with pytest.raises(BadInput, match="--deep differs"):
        folder.begin(("n1", "n2"), {"--deep": "all"})
    folder.end(plan)
    other, continued = folder.begin(("n1", "n2"), {"--deep": "all"})
    assert (continued, other.name != plan.name) == (False, True)


@pytest.mark.parametrize(
    ("own", "asked", "gres", "given"),
    [
        ("gpu:h100:8", None, None, "gpu:h100:8"),
        ("", "8", None, ""),
        ("gpu:8", "8", None, "gpu:8"),
        ("gpu:h100:4", "8", None, "gpu:h100:4"),
        ("gpu:h100:8", "2", None, "gpu:h100:2"),
        ("gpu:h100:8", "h200:2", None, "gpu:h200:2"),
        ("gpu:8", "0", None, ""),
        ("gpu:8", None, "gpu:3,craynetwork:1", "gpu:3,craynetwork:1"),
        ("", None, "gpu:3", ""),
    ],
)
def test_gpus_are_those_of_the_node(own: str, asked: str | None, gres: str | None, given: str) -> None:
    """As many as it has, at most as many as somebody wished."""
    assert node_job.gpus_for(own, gpus_per_node=asked, gres=gres) == given


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:h100:8(S:0-1)", "gpu:h100:8"),
        ("gpu:a:4(S:0,2),gpu:b:2(S:1),craynetwork:4", "gpu:a:4,gpu:b:2"),
        ("", ""),
        ("gpu:0", ""),
        ("shard:8", ""),
    ],
)
def test_gres_of_a_node(gres: str, gpus: str) -> None:
    """As sinfo writes them, with sockets and other resources."""
    assert SlurmNode(name="n", gres=gres).gpus == gpus


def test_the_words_of_scontrol() -> None:
    """A value may contain spaces and equals signs."""
    text = "JobId=7 JobName=a b Reason=None Command=/x/y --z=1 ExitCode=0:9 TRES=cpu=8,node=1\n"

    assert list(slurm.records(text)) == [
        {
            "JobId": "7", "JobName": "a b", "Reason": "None", "Command": "/x/y --z=1", "ExitCode": "0:9",
            "TRES": "cpu=8,node=1",
        }
    ]  # fmt: skip
