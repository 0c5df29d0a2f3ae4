"""Children forked from a prepared process: each does one dangerous thing, without risk for the others.

A child has its own process group, its output in pipes of which the last 4 KB are kept, a timeout, and faulthandler
writing to a separate pipe, so that a crash and a hang show their place. It sends its results as JSON lines, one by one:
those sent before a crash are kept.

Elsewhere: the work of the children, and the meaning of their ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, TypedDict

from . import time_limits

if TYPE_CHECKING:
    from types import FrameType

Tell = Callable[[object], None]
"""Sends what JSON can hold to the parent."""


class Frame(TypedDict):
    """A line of a stack, as faulthandler wrote it."""

    file: str
    line: Optional[int]
    function: str


TAIL = 4096
"""Bytes of a child's output that are kept: packages print megabytes on import."""


@dataclass
class _Stack:
    """The stack of one thread, as faulthandler wrote it."""

    identity: Optional[int]
    current: bool
    frames: List[Frame]


_GRACE = 5.0  # seconds from SIGKILL to giving up


@dataclass
class Child:
    """One piece of work: `work(tell)` runs in the child, and sends any JSON value with `tell`."""

    name: str
    work: Callable[[Tell], None]
    timeout: float
    """Seconds after which the child's whole process group is killed; time without a processor does not count."""
    done: Callable[[Ended], Optional[List[Child]]]
    """Called in the parent; may return more children, which are started next."""


@dataclass
class Ended:
    """How a child ended: `signal` or `status` is set, unless it was hung or met `trouble`."""

    name: str
    told: List[Any]
    seconds: float
    hung: bool
    signal: Optional[int]
    status: Optional[int]
    stdout: str
    stderr: str
    frames: List[Frame]
    """Python frames at its crash, or shortly before its timeout; innermost first: file, line, function."""
    trouble: Optional[str] = None
    """Why the child could not be started or ended."""
    starved: float = 0.0
    """Seconds in which it was ready to run and no processor was free."""
    touched: Optional[List[str]] = None
    """What it had touched (touched.py) when its work was done; None when that was not asked for, or it did not tell."""


@dataclass
class _Running:
    child: Child
    pid: int
    started: float
    streams: Dict[str, int]
    data: Dict[str, bytearray] = field(default_factory=dict)
    killed: Optional[float] = None


def run(
    children: List[Child],
    at_once: int,
    scratch: str,
    touched: Optional[Callable[[], List[str]]] = None,
    note: Callable[[Ended], None] = lambda _: None,
) -> None:
    """Runs all children in the folder `scratch`, at most `at_once` at a time, and returns when all have ended.

    `touched` is asked in each child after its work; `note` is told of each end before the child's own `done`.
    The caller must have a single thread. SIGTERM ends the children, then the caller.
    """
    # If it were inherited as ignored, the kernel would reap the children before their status is read.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _terminate)
    gc.freeze()  # the collector writes to what it visits, and each page so touched is copied in each child
    waiting = list(children)
    running: List[_Running] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    child = waiting.pop(0)
                    try:
                        running.append(_start(child, scratch, running, selector, touched))
                    except OSError as error:
                        waiting[:0] = child.done(_not_started(child, error)) or []
                _drain(selector, 0.02)
                for one in list(running):
                    ended = _look(one, selector)
                    if ended is not None:
                        running.remove(one)
                        note(ended)
                        waiting[:0] = one.child.done(ended) or []
        finally:
            for one in running:
                _kill(one.pid)


def _not_started(child: Child, error: OSError) -> Ended:
    trouble = "no child could be started: {}".format(error)
    return Ended(child.name, [], 0.0, False, None, None, "", "", [], trouble)


def _terminate(number: int, frame: Optional[FrameType]) -> None:
    raise SystemExit(128 + number)


def _start(
    child: Child,
    scratch: str,
    running: List[_Running],
    selector: selectors.BaseSelector,
    touched: Optional[Callable[[], List[str]]],
) -> _Running:
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "fault", "told")}
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for ends in pipes.values():
            os.close(ends[0])
            os.close(ends[1])
        raise
    if pid == 0:
        try:
            for fd in [fd for one in running for fd in one.streams.values()] + [r for r, _ in pipes.values()]:
                os.close(fd)
            _be_child(child, {name: write for name, (_, write) in pipes.items()}, scratch, parent, touched)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(71)  # only reached by a bug of ours: `work` reports the package's errors
    one = _Running(child, pid, time.monotonic(), {name: read for name, (read, _) in pipes.items()})
    for name, (read, write) in pipes.items():
        os.close(write)
        os.set_blocking(read, False)
        one.data[name] = bytearray()
        selector.register(read, selectors.EVENT_READ, (one, name))
    return one


def _be_child(
    child: Child, fds: Dict[str, int], scratch: str, parent: int, touched: Optional[Callable[[], List[str]]]
) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with(parent)
    # A second limit: the alarm's default action ends a child that hangs, without running Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, child.timeout * time_limits.MOST + 2)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (fds["stdout"], 1), (fds["stderr"], 2)):
        os.dup2(source, target)
        os.close(source)
    os.chdir(scratch)
    # A pipe separate from stderr, so that the package's output cannot mix with the frames or push them out of the tail.
    faulthandler.enable(fds["fault"])
    faulthandler.dump_traceback_later(max(child.timeout * 0.5, child.timeout - 1.0), file=fds["fault"])

    def tell(value: object) -> None:
        line = json.dumps(value, default=str).encode("ascii") + b"\n"
        while line:
            line = line[os.write(fds["told"], line) :]

    tell({"thread": threading.get_ident()})
    child.work(tell)
    if touched is not None:
        tell({"touched": touched()})
    for stream in (sys.stdout, sys.stderr):
        try:  # the package may have replaced them
            stream.flush()
        except Exception:  # noqa: BLE001
            pass
    # Not sys.exit: non-daemon threads and atexit hooks of the package could keep the child alive or crash it.
    os._exit(0)


def _end_with(parent: int) -> None:
    """Makes the kernel kill this child when its parent dies: a doctor that gave up kills only the parent."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, linux/prctl.h
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:  # it died before the call
        os._exit(71)


def _drain(selector: selectors.BaseSelector, timeout: float) -> None:
    for key, _ in selector.select(timeout):
        one, name = key.data
        _read(one, name, selector)


def _read(one: _Running, name: str, selector: selectors.BaseSelector) -> None:
    fd = one.streams.get(name)
    while fd is not None:
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            return
        data = one.data[name]
        data += chunk
        if name in ("stdout", "stderr"):
            del data[:-TAIL]
        if not chunk:
            selector.unregister(fd)
            os.close(one.streams.pop(name))
            return


def _look(one: _Running, selector: selectors.BaseSelector) -> Optional[Ended]:
    """How the child ended, or None while it runs."""
    now = time.monotonic()
    trouble = signal_number = exit_status = None
    starved = 0.0
    if os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if one.killed is None:
            seconds = now - one.started
            if seconds > one.child.timeout and time_limits.counted(one.pid, seconds) > one.child.timeout:
                one.killed = now
                _kill(one.pid)
            return None
        if now - one.killed < _GRACE:
            return None
        # Blocked in a driver or on a dead network file system: the kernel ends it later or never.
        trouble = "killed, but it did not end: it hangs inside the kernel"
    else:
        # Not reaped yet, so the number of its process group cannot belong to another process.
        starved = time_limits.without_processor(one.pid)
        _kill(one.pid)
        _, status = os.waitpid(one.pid, 0)
        if os.WIFEXITED(status):
            exit_status = os.WEXITSTATUS(status)
        elif one.killed is None:
            signal_number = os.WTERMSIG(status)
    for name in list(one.streams):
        _read(one, name, selector)
    for name, fd in list(one.streams.items()):  # a process that left the group still has the other end open
        selector.unregister(fd)
        os.close(one.streams.pop(name))
    told = _told(one.data["told"])
    thread = told.pop(0)["thread"] if told else None
    touched = told.pop()["touched"] if told and isinstance(told[-1], dict) and "touched" in told[-1] else None
    return Ended(
        name=one.child.name,
        told=told,
        seconds=round((one.killed or now) - one.started, 3),
        hung=one.killed is not None,
        signal=signal_number,
        status=exit_status,
        trouble=trouble,
        stdout=one.data["stdout"].decode("utf-8", "replace"),
        stderr=one.data["stderr"].decode("utf-8", "replace"),
        frames=frames(one.data["fault"].decode("utf-8", "replace"), thread),
        starved=starved,
        touched=touched,
    )


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)  # also directly: it may not have created its own group yet
        os.killpg(pid, signal.SIGKILL)


def _told(data: bytearray) -> List[Any]:
    lines = bytes(data).split(b"\n")[:-1]  # the last is empty, or was cut short by a crash
    return [json.loads(line) for line in lines]


def frames(text: str, thread: Optional[int]) -> List[Frame]:
    """The Python frames in faulthandler's output, innermost first, without those of the import system.

    Of several threads, the crashed one ("Current thread"), else the one with the identity `thread`, else the last,
    which is the main thread. https://docs.python.org/3/library/faulthandler.html
    """
    stacks: List[_Stack] = []
    for line in text.splitlines():
        words = line.split()
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (most recent call first)")):
            identity = next((int(word, 16) for word in words if word.startswith("0x")), None)
            stacks.append(_Stack(identity, line.startswith("Current"), []))
        elif stacks and line.startswith('  File "') and '", line ' in line:
            file, _, rest = line[len('  File "') :].rpartition('", line ')
            number, _, function = rest.partition(" in ")
            if not file.startswith("<frozen importlib"):
                line_number = int(number) if number.isdigit() else None
                stacks[-1].frames.append({"file": file, "line": line_number, "function": function})
    if not stacks:
        return []
    chosen = [s for s in stacks if s.current] or [s for s in stacks if s.identity == thread] or stacks
    return chosen[-1].frames
