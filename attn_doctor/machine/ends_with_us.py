"""Runs as a script: starts a command that ends, with all that it starts, as soon as attn-doctor ends.

Arguments: a descriptor of a pipe whose other end attn-doctor alone holds, then the command. What a patient's code left
in the background, in sessions of its own, must end with it. An installer or a compiler that outlived a killed doctor
would go on writing after its lock was released; a death signal (PR_SET_PDEATHSIG) reaches only the first process, and
pip starts a second one to work for another interpreter. This process is the subreaper of all of them (prctl(2)): none
can leave it. It is two processes, one the parent of the other, since SIGKILL reaches whom it is sent to: the one that
is left ends everything. Signals to end are passed on, and the exit status is the command's own.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
#: Seconds that a command has to end by itself after SIGTERM.
_GENTLE = 0.5
#: Longest time in seconds spent on processes that start new ones as fast as they are ended.
_LONGEST = 5.0
_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Starts the command and waits for its end, for a signal to end it, or for the end of attn-doctor."""
    watch, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(watch, False)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def inner() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        _guard(watch, lambda: _become(command, prctl), prctl)

    _guard(watch, inner, prctl)


def _guard(watch: int, work: Callable[[], None], prctl: Callable[..., int]) -> None:
    """Does the work in a child; ends as it does, and with it all that it left."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_TO_END, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(127)
    asked_at: float | None = None
    while True:
        wait = None if asked_at is None else max(0.0, asked_at + _GENTLE - time.monotonic())
        ready = [one for one, _ in _poll((watch, reading), wait)]
        status = _status_of(child)
        if status is not None:
            _end_all()
            _end_as(status)
        if watch in ready or (asked_at is not None and time.monotonic() >= asked_at + _GENTLE):
            _end_all()
            os._exit(128 + signal.SIGKILL)
        if reading in ready and any(number in _TO_END for number in os.read(reading, 4096)) and asked_at is None:
            asked_at = time.monotonic()
            os.kill(child, signal.SIGTERM)


def _poll(descriptors: tuple[int, ...], seconds: float | None) -> list[tuple[int, int]]:
    poller = select.poll()
    for one in descriptors:
        poller.register(one, select.POLLIN)
    return poller.poll(None if seconds is None else seconds * 1000)


def _become(command: list[str], prctl: Callable[..., int]) -> None:
    """In the child: becomes the command; the kernel ends it where this process itself is killed."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_TO_END, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.execv(command[0], command)  # noqa: S606 -- there is no shell, and none is wanted
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _status_of(child: int) -> int | None:
    """Waits for whatever has ended; the wait status of the child, or None while it runs."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _end_all() -> None:
    """Ends every descendant: what an ended one leaves becomes a child of this process."""
    until = time.monotonic() + _LONGEST
    while time.monotonic() < until:
        left = _children()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        _status_of(0)
        time.sleep(0.002)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as stream:  # noqa: PTH123 -- pathlib is slow to import
            return [int(one) for one in stream.read().split()]
    except OSError:
        return []


def _end_as(status: int) -> None:
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
        time.sleep(1.0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main()
