"""Runs each job in a forked child of its own, with a deadline: a crash or a hang costs one job.

Forked rather than started anew, so that a job may use what lives only in this process (kernels, closures,
imported packages) and costs milliseconds, not an import of torch. Knows nothing of Triton or GPUs.
"""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import glob
import json
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

_SIGNALS = tuple(
    getattr(signal, name) for name in ["SIGINT", "SIGTERM", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"]
)
_TAIL = 20_000  # characters of a child's output that are kept: an LLVM stack dump fits


@dataclasses.dataclass(frozen=True)
class Ended:
    """How one job ended."""

    how: str
    """"answered" | "failed" (ended without an answer) | "killed" (by a signal) | "hung" (its timeout came) |
    "stopped" (the deadline of all came) | "not started"."""
    answer: Optional[Dict[str, Any]] = None
    signal: Optional[str] = None
    """Name of the signal that ended it, as in SIGABRT."""
    output: str = ""
    """The last of what it wrote to stdout and stderr, C++ code included."""
    seconds: float = 0.0
    computed: float = 0.0
    """Processor seconds of the job and of what it started, where it had to be ended: on a busy machine, or while it
    waits for something, these are fewer than `seconds`."""


@dataclasses.dataclass
class _Running:
    index: int
    pid: int
    started: float
    answer: str
    output: str


def run_each(
    jobs: Sequence[Callable[[], Mapping[str, object]]],
    *,
    scratch: str,
    timeout: float,
    at_once: Optional[int] = None,
    deadline: Optional[float] = None,
) -> List[Ended]:
    """How every job ended, in the order given; `at_once` children run side by side (default: one a CPU).

    timeout: seconds for each job. deadline: a time.monotonic() after which no further job is started and the
    running ones are stopped; jobs never started say so. `scratch` is an existing folder for the children's
    files; they are removed again. Never raises for what a job does; raises OSError where `scratch` is no folder that
    can be written to.
    """
    with tempfile.TemporaryFile(dir=scratch):
        pass
    at_once = max(1, at_once or usable_cpus())
    ended: List[Ended] = [Ended(how="not started") for _ in jobs]
    waiting = list(range(len(jobs)))[::-1]
    running: List[_Running] = []
    try:
        while waiting or running:
            late = deadline is not None and time.monotonic() > deadline
            while waiting and len(running) < at_once and not late:
                index = waiting.pop()
                running.append(_start(jobs[index], index, scratch, timeout))
            if late and not running:
                break
            for child in list(running):
                result = _look(child, timeout, late)
                if result is not None:
                    ended[child.index] = result
                    running.remove(child)
            if running:
                time.sleep(0.005)
    finally:
        for child in running:
            _kill(child)
            _read(child)
    return ended


def usable_cpus() -> int:
    """CPUs that this process may run on, which in a container or a Slurm job are fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _start(job: Callable[[], Mapping[str, object]], index: int, scratch: str, timeout: float) -> _Running:
    stem = os.path.join(scratch, f"child-{os.getpid()}-{index}-{time.monotonic_ns()}")
    answer, output = stem + ".json", stem + ".txt"
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # or the child would carry the unwritten half of it
        except (AttributeError, ValueError, OSError):
            pass
    with warnings.catch_warnings():
        # Python 3.12 warns that a fork beside threads may deadlock: that is what the timeout is for.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_the_child(job, answer, output, timeout)
    return _Running(index=index, pid=pid, started=time.monotonic(), answer=answer, output=output)


def _be_the_child(job: Callable[[], Mapping[str, object]], answer: str, output: str, timeout: float) -> None:
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(null, 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="replace")
        os.setpgid(0, 0)  # its own group: a compiler's ptxas must die with it
        _die_with_the_parent()
        _limit(resource.RLIMIT_CORE, 0)  # an abort would leave a core file in the user's folder
        # Of CPU: only what left its group, or outlives us, meets this limit.
        _limit(resource.RLIMIT_CPU, int(timeout * 4) + 60)
        faulthandler.disable()  # it may write to a file of the parent's
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # a user's handler would answer in the child's place
        text = json.dumps(job())
        with open(answer + ".part", "w", encoding="utf-8") as part:
            part.write(text)
        os.replace(answer + ".part", answer)
        status = 0
    except BaseException:
        try:
            import traceback

            traceback.print_exc()
        except BaseException:
            pass
    finally:
        os._exit(status)  # no atexit, no buffers, no CUDA teardown: they are the parent's


def _limit(what: int, most: int) -> None:
    """Lowers a limit; one that is lower already, as a cluster may have set it, stays."""
    hard = resource.getrlimit(what)[1]
    if hard == resource.RLIM_INFINITY or most <= hard:
        resource.setrlimit(what, (most, hard))


def _die_with_the_parent() -> None:
    """A hanging compiler must not outlive a doctor that was killed. Linux only; elsewhere a CPU limit remains."""
    try:
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def _look(child: _Running, timeout: float, late: bool) -> Optional[Ended]:
    """The child's end, or None while it still works. Kills it when its time is over."""
    seconds = time.monotonic() - child.started
    try:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
    except ChildProcessError:  # somebody else's SIGCHLD handler reaped it: its answer tells
        pid, status = child.pid, 0
    if pid == 0:
        if seconds < timeout and not late:
            return None
        computed = _computed(child.pid)
        _kill(child)
        # Ended early because all the time was used up: that says nothing of this job.
        how = "hung" if seconds >= timeout else "stopped"
        return Ended(how=how, output=_read(child)[1], seconds=seconds, computed=computed)
    answer, output = _read(child)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return Ended(how="killed", signal=name, output=output, seconds=seconds)
    if answer is None:
        return Ended(how="failed", output=output, seconds=seconds)
    return Ended(how="answered", answer=answer, output=output, seconds=seconds)


def _computed(group: int) -> float:
    """Processor seconds of a process group, and of what it has waited for. Linux only; elsewhere 0."""
    ticks = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()  # from the third on, which is the state
            if int(fields[2]) == group:
                ticks += sum(int(field) for field in fields[11:15])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


def _kill(child: _Running) -> None:
    for kill, target in ((os.killpg, child.pid), (os.kill, child.pid)):
        try:
            kill(target, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    try:
        os.waitpid(child.pid, 0)
    except ChildProcessError:
        pass


def _read(child: _Running) -> Tuple[Optional[Dict[str, object]], str]:
    """(answer or None, last output); removes the child's files."""
    answer: Optional[Dict[str, Any]] = None
    output = ""
    try:
        with open(child.answer, encoding="utf-8") as file:
            answer = json.load(file)
    except (OSError, ValueError):
        pass
    try:
        with open(child.output, encoding="utf-8", errors="replace") as file:
            output = file.read()[-_TAIL:]
    except OSError:
        pass
    for path in (child.answer, child.answer + ".part", child.output):
        try:
            os.unlink(path)
        except OSError:
            pass
    return answer, output
