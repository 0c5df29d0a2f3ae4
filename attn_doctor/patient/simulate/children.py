"""Runs each job in a forked child of its own, with a deadline: a crash or a hang loses only that job.

Forked instead of started anew, so that a job can use objects of this process (kernels, closures, imported packages) and
takes milliseconds instead of an import of torch. Independent of Triton and GPUs.
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
_TAIL = 20_000  # characters of a child's output that are kept: enough for an LLVM stack dump


@dataclasses.dataclass(frozen=True)
class Ended:
    """The result of one job."""

    how: str
    """"answered" | "failed" (ended without an answer) | "killed" (by a signal) | "hung" (its timeout passed) |
    "stopped" (the deadline for all passed) | "not started"."""
    answer: Optional[Dict[str, Any]] = None
    signal: Optional[str] = None
    """Name of the signal that ended it, as in SIGABRT."""
    output: str = ""
    """The end of its stdout and stderr, including the output of C++ code."""
    seconds: float = 0.0
    computed: float = 0.0
    """Processor seconds of the job and its children, when it had to be ended: fewer than `seconds` on a busy machine,
    or while it waited."""


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
    """Returns the results of all jobs in the order given; `at_once` children run in parallel (default: one per CPU).

    timeout: seconds for each job. deadline: a time.monotonic() after which no further job starts and running ones are
    stopped. `scratch` is an existing folder for the children's files, which are removed again. Never raises because of
    a job; raises OSError when `scratch` is not a writable folder.
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
    """CPUs that this process may use, which may be fewer than the machine has in a container or a Slurm job."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _start(job: Callable[[], Mapping[str, object]], index: int, scratch: str, timeout: float) -> _Running:
    stem = os.path.join(scratch, f"child-{os.getpid()}-{index}-{time.monotonic_ns()}")
    answer, output = stem + ".json", stem + ".txt"
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # otherwise the child would inherit the unwritten half of it
        except (AttributeError, ValueError, OSError):
            pass
    with warnings.catch_warnings():
        # Python 3.12 warns that a fork with threads may deadlock; the timeout handles that.
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
        os.setpgid(0, 0)  # its own group: a compiler's ptxas must end with it
        _die_with_the_parent()
        _limit(resource.RLIMIT_CORE, 0)  # an abort would leave a core file in the user's folder
        # CPU seconds; reached only by a process that left the group or outlives us.
        _limit(resource.RLIMIT_CPU, int(timeout * 4) + 60)
        faulthandler.disable()  # it may write to a file of the parent
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # a user's handler would run in the child
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
        os._exit(status)  # no atexit, no buffers, no CUDA teardown: they belong to the parent


def _limit(what: int, most: int) -> None:
    """Lowers a limit; a lower limit, as a cluster may set, stays."""
    hard = resource.getrlimit(what)[1]
    if hard == resource.RLIM_INFINITY or most <= hard:
        resource.setrlimit(what, (most, hard))


def _die_with_the_parent() -> None:
    """Makes the kernel end this process with its parent: a hanging compiler must not outlive a killed doctor. Linux
    only; elsewhere only the CPU limit applies.
    """
    try:
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def _look(child: _Running, timeout: float, late: bool) -> Optional[Ended]:
    """The child's result, or None while it runs. Kills it when its time is over."""
    seconds = time.monotonic() - child.started
    try:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
    except ChildProcessError:  # another SIGCHLD handler reaped it: its answer decides
        pid, status = child.pid, 0
    if pid == 0:
        if seconds < timeout and not late:
            return None
        computed = _computed(child.pid)
        _kill(child)
        # Ended early because the whole time was used up: no evidence about this job.
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
    """Processor seconds of a process group and of the children it waited for. Linux only; elsewhere 0."""
    ticks = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()  # from the third field on, which is the state
            if int(fields[2]) == group:
                ticks += sum(int(field) for field in fields[11:15])
        except (OSError, ValueError, IndexError):
            continue  # ended meanwhile
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
    """(answer or None, end of the output); removes the child's files."""
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
