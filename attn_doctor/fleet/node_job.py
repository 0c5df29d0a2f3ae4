"""One small Slurm job for one node: its command, what Slurm's refusals and queue mean for the node. Pure.

Placement, waiting and failure are the scheduler's work: a node that is busy, reserved or dead costs its own job alone.
https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from attn_doctor.quick_dataclasses import dataclass

#: Seconds between SIGTERM and SIGKILL when attn-doctor hangs, and seconds for the job around it.
KILL = 5
_AROUND = 30
#: Refusals that pass: limits of the controller, the association or the QOS, and a controller that does not answer.
# https://github.com/SchedMD/slurm/blob/master/src/common/slurm_errno.c
_LATER = re.compile(
    r"temporarily unable|Resource temporarily unavailable|job submit limit|violates accounting/QOS policy"
    r"|maximum number of jobs|MaxJobCount|Socket timed out|Unable to contact slurm controller"
    r"|Connection (refused|timed)|Zero Bytes were transmitted|try again|did not answer within"
    r"|in standby mode|Rate limit",
    re.I,
)
#: Reasons of `squeue` for which a job of one node is never started, however long it waits.
# https://slurm.schedmd.com/job_reason_codes.html
_NEVER = re.compile(
    r"PartitionNodeLimit|PartitionTimeLimit|PartitionInactive|QOSMin|MinNodes|QOSNotAllowed|AccountNotAllowed"
    r"|InvalidAccount|InvalidQOS|BadConstraints|AssocMaxNodePerJob|QOSMaxNodePerJob|QOSMaxWallDurationPerJob"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJob:
    """A job that examines one node."""

    node: str
    name: str
    """The same for all jobs of a run: they are found by it."""
    log: str
    """File for what the job prints."""
    doctor: tuple[str, ...]
    """attn-doctor and its arguments."""
    timeout: int
    memory: int
    """MB. Always said: without it a job may be given the whole node."""
    cpus: int
    partition: str = ""
    gres: str = ""
    account: str = ""
    container_image: str = ""
    more: tuple[str, ...] = ()
    """More arguments of sbatch."""

    @property
    def minutes(self) -> int:
        """The job's time limit."""
        return -(-(self.timeout + KILL + _AROUND) // 60)

    def command(self) -> tuple[str, ...]:
        """The command; the script is its standard input."""
        words = ["sbatch", "--parsable", f"--job-name={self.name}", f"--nodelist={self.node}", "--nodes=1"]
        words += ["--ntasks=1", f"--cpus-per-task={self.cpus}", f"--mem={self.memory}M", f"--time={self.minutes}"]
        words += ["--no-requeue", f"--output={self.log}"]
        for option, value in (("--partition", self.partition), ("--account", self.account), ("--gres", self.gres)):
            if value:
                words.append(f"{option}={value}")
        return (*words, *self.more)

    def script(self) -> str:
        """The batch script."""
        # An outer limit: none of our own would end a process that blocks Python itself (a dead file server).
        words = ["timeout", "-k", str(KILL), str(self.timeout), *self.doctor]
        if self.container_image:  # pyxis starts containers for steps
            words = ["srun", "--ntasks=1", f"--container-image={self.container_image}", *words]
        return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def gpus_for(of_node: str, *, gpus_per_node: str | None, gres: str | None) -> str:
    """--gres for one node: what was asked for, as far as the node has it. `of_node`: its own GPUs, written alike.

    Without a wish it is all of the node's own. A node without GPUs is asked for none: its job would never start.
    """
    if not of_node or not (gpus_per_node or gres):
        return of_node
    if gres is not None:
        return gres
    kind, _, count = (gpus_per_node or "").rpartition(":")
    name, _, there = of_node.split(",")[0].rpartition(":")
    if not (count.isdigit() and there.isdigit()):
        return of_node
    return f"{f'gpu:{kind}' if kind else name}:{min(int(count), int(there))}" if int(count) else ""


def passes(refusal: str) -> bool:
    """True for a refusal of sbatch that is over later: a limit, or a controller that does not answer.

    A QOS that denies on limits says which one: of a least size no waiting helps.
    """
    return _LATER.search(refusal) is not None and _NEVER.search(refusal) is None


def refused(refusal: str, partition: str) -> str:
    """A refusal of sbatch in words."""
    lines = [line.removeprefix("sbatch: error: ").removeprefix("sbatch: ") for line in refusal.splitlines()]
    words = " / ".join(line.removeprefix("Batch job submission failed: ").strip() for line in lines if line.strip())
    where = f"partition {partition}" if partition else "Slurm"
    return f"{where} refuses a job on this node alone: {words[:300] or 'no reason given'}"


def never_starts(reason: str) -> bool:
    """True when the queue's reason says that a job of one node will not be started."""
    return _NEVER.search(reason) is not None


def waiting_words(reason: str, occupied: str) -> str:
    """Why a job did not start in time: who has the node, else the queue's reason."""
    plain = reason.strip().strip("()")
    return f"not examined, its job did not start: {occupied or plain or 'no reason given'}"


def ended_words(job: str, record: Mapping[str, str], last_line: str) -> str:
    """How a job ended that left no report."""
    state = record.get("JobState", "")
    status = record.get("ExitCode", "").partition(":")[0]
    if status == "124" and state != "TIMEOUT":
        how = "the examination did not end within --timeout"
    elif state in {"", "COMPLETED", "COMPLETING", "FAILED"}:
        how = f"its job {job} ended with status {status}" if status else f"its job {job} ended"
    else:
        how = f"its job {job} ended: {state}"
        reason = record.get("Reason", "")
        how += f" ({reason})" if reason not in {"", "None"} else ""
    return f"{how}{f': {last_line}' if last_line else ''}"
