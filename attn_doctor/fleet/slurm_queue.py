"""Slurm's queue, for jobs of ours: submit, look, cancel; and how many it may hold."""

from __future__ import annotations

import contextlib
import getpass
import subprocess
from collections.abc import Iterable

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fleet.node_job import NodeJob
from attn_doctor.fleet.slurm import SOON, records
from attn_doctor.machine.streaming import output_of
from attn_doctor.quick_dataclasses import dataclass

#: What Slurm takes where MaxJobCount is not set.
_USUAL_MOST = 10_000
#: At most this part of the jobs that a controller can hold: it holds those of all users.
_SHARE = 10
_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """One job in the queue."""

    job: str
    state: str
    reason: str
    node: str
    name: str

    @property
    def waits(self) -> bool:
        """It was not started yet."""
        return self.state in {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}

    @property
    def runs(self) -> bool:
        """It was started and has not ended."""
        return self.state in {"RUNNING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "STOPPED"}


def submit(job: NodeJob, *, limit: float = SOON) -> str:
    """Submits the job; gives its id.

    Raises AttnDoctorError with Slurm's words when it is refused, or when sbatch does not end in time: a controller that
    holds MaxJobCount jobs lets it wait.
    """
    try:
        done = subprocess.run(
            list(job.command()), input=job.script(), capture_output=True, timeout=limit, text=True, errors="replace"
        )
    except OSError as error:
        raise AttnDoctorError(f"cannot be started: {error.strerror}", about="sbatch") from None
    except subprocess.TimeoutExpired:
        raise AttnDoctorError(f"did not answer within {limit:.0f} s", about="sbatch") from None
    number = done.stdout.strip().partition(";")[0]  # JOB or JOB;CLUSTER
    if done.returncode != 0 or not number.isdigit():
        raise AttnDoctorError(done.stderr.strip()[-500:] or "sbatch gave no number", about="sbatch")
    return number


def queue(name: str) -> dict[str, Queued] | None:
    """The jobs of this name, by id; None when Slurm does not answer."""
    try:
        rows = output_of(["squeue", "-h", "--name", name, "-o", "%i|%T|%n|%j|%R"], timeout=SOON).splitlines()
    except AttnDoctorError:
        return None
    found = {}
    for row in rows:
        job, state, node, called, reason = (*row.split("|", 4), *("",) * 5)[:5]
        if called == name:
            found[job] = Queued(job=job, state=state, node=node, name=called, reason=reason)
    return found


def ended(job: str) -> dict[str, str]:
    """What Slurm still knows of a job; empty when it has forgotten it."""
    with contextlib.suppress(AttnDoctorError):
        return next(records(output_of(["scontrol", "show", "job", job, "-o"], timeout=SOON)), {})
    return {}


def cancel(jobs: Iterable[str], name: str) -> str:
    """Cancels jobs of ours. The name must be theirs as well, so that an id that Slurm gave to somebody else since is
    left alone. Gives what Slurm said when it refused.
    """
    numbers, said = sorted(set(jobs), key=int), ""
    for start in range(0, len(numbers), _AT_ONCE):
        try:
            output_of(["scancel", f"--name={name}", *numbers[start : start + _AT_ONCE]], timeout=SOON)
        except AttnDoctorError as error:
            said = error.what
    return said


def room() -> tuple[int, str]:
    """(how many jobs may be submitted, which limit that is): a tenth of MaxJobCount, or what the user's associations
    and QOS leave.
    """
    most, why = _USUAL_MOST // _SHARE, "a tenth of MaxJobCount"
    with contextlib.suppress(AttnDoctorError, ValueError):
        for line in output_of(["scontrol", "show", "config"], timeout=SOON).splitlines():
            if line.split("=")[0].strip() == "MaxJobCount":
                most = int(line.split("=")[1]) // _SHARE
    with contextlib.suppress(AttnDoctorError, KeyError, OSError):
        user = getpass.getuser()
        here = len(output_of(["squeue", "-h", "-u", user, "-o", "%i"], timeout=SOON).splitlines())
        for words, limit in _submit_limits(user):
            if limit - here < most:
                most, why = limit - here, f"{words} of {user}"
    return max(1, most), why


def _submit_limits(user: str) -> list[tuple[str, int]]:
    """MaxSubmitJobs of the user's associations and of their QOS; empty where there is no accounting."""
    found: list[tuple[str, int]] = []
    with contextlib.suppress(AttnDoctorError):
        qos: set[str] = set()
        line = ["sacctmgr", "-nP", "show", "assoc", "where", f"user={user}", "format=MaxSubmit,GrpSubmit,QOS"]
        for row in output_of(line, timeout=SOON).splitlines():
            own, group, names = (*row.split("|"), "", "", "")[:3]
            found += [("MaxSubmitJobs", int(own))] if own.isdigit() else []
            found += [("GrpSubmitJobs", int(group))] if group.isdigit() else []
            qos.update(one for one in names.split(",") if one)
        if qos:
            line = ["sacctmgr", "-nP", "show", "qos", "where", f"name={','.join(sorted(qos))}"]
            for row in output_of([*line, "format=MaxSubmitJobsPU,GrpSubmit"], timeout=SOON).splitlines():
                found += [("MaxSubmitJobs of a QOS", int(one)) for one in row.split("|") if one.isdigit()]
    return found
