"""Starts processes: from a list of arguments, with a timeout, with output to files; ends the whole process group.

Only the end of a process's output is kept: some packages print megabytes while they are imported.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attn_doctor.errors import TargetUnusable
from attn_doctor.machine import survivors
from attn_doctor.machine.which import which
from attn_doctor.quick_dataclasses import dataclass

_TAIL = 16_384
_GENTLE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """Result of a process."""

    arguments: tuple[str, ...]
    status: int | None
    """Exit status; None when a signal or our timeout ended it."""
    signal: int | None
    timed_out: bool
    seconds: float
    stdout: str
    """Last 16 KiB."""
    stderr: str
    """Last 16 KiB."""

    @property
    def ok(self) -> bool:
        """True when it ended by itself with status 0."""
        return self.status == 0

    def ended(self) -> str:
        """How it ended, in words."""
        if self.timed_out:
            return f"did not answer within {self.seconds:.0f} s"
        if self.signal is not None:
            return f"was ended by {signal_name(self.signal)}"
        return f"ended with status {self.status}"


def counted(pid: int, seconds: float) -> float:
    """As `counted` of patient/time_limits.py."""
    waited = 0.0
    with contextlib.suppress(OSError, ValueError, IndexError):
        waited = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return max(seconds - waited, seconds / 3)


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_ENDS_WITH_US = Path(__file__).with_name("ends_with_us.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """What processes need that must not outlive this one."""

    mark: str
    descriptor: int
    """End of a pipe that hangs up when this process ends, however it does."""


_watched: _Watched | None = None


@contextlib.contextmanager
def ending_with_us(mark: str) -> Iterator[None]:
    """Within this context, every process that is started ends with this one, even where this one is killed.

    `mark` is in their environment variables, so that `survivors.alive` finds them.
    """
    global _watched
    before = _watched
    reading, writing = os.pipe()
    _watched = _Watched(mark=mark, descriptor=reading)
    try:
        yield
    finally:
        _watched = before
        os.close(writing)
        os.close(reading)


class Running:
    """A started process; call `wait` exactly once."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
        start_in: Path | None = None,
        of_patient: bool = False,
    ) -> None:
        """`folder` receives its output, and is its current folder unless `start_in` is given.

        `of_patient`: it runs the patient's code; background processes that it leaves are ended with it, and all of them
        with this process, even where this one is killed.
        """
        self.arguments = tuple(arguments)
        self._out = folder / f"{name}.stdout"
        self._err = folder / f"{name}.stderr"
        self._started = time.monotonic()
        self._ended = False
        watched = _watched
        self._pipe: tuple[int, int] | None = None
        if watched is None and of_patient and sys.platform == "linux":  # as ends_with_us.py
            self._pipe = os.pipe()
            watched = _Watched(mark="", descriptor=self._pipe[0])
        self._guarded = watched is not None
        given = dict(environment) if environment is not None else None
        words = self.arguments
        if watched is not None:
            there = which(words[0])
            if there is None:
                self._let_go()
                raise TargetUnusable("cannot be started", about=words[0], hint="Is it there, and executable?")
            words = (sys.executable, "-I", "-S", str(_ENDS_WITH_US), str(watched.descriptor), there, *words[1:])
            if watched.mark:
                given = {**(os.environ if given is None else given), survivors.MARK: watched.mark}
        try:
            with self._out.open("wb") as out, self._err.open("wb") as err:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=start_in or folder,
                    env=given,
                    pass_fds=() if watched is None else (watched.descriptor,),
                    start_new_session=True,  # so that its background processes can be ended with it
                )
        except OSError as error:
            self._let_go()
            raise TargetUnusable(
                f"cannot be started: {error.strerror}", about=self.arguments[0], hint="Is it there, and executable?"
            ) from None
        # An import that crashes would otherwise leave gigabytes of core file in the folder. Set from here: a preexec_fn
        # prevents Python from using vfork, and costs as much time as a small process.
        with contextlib.suppress(OSError):
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))

    def seconds(self) -> float:
        """Seconds since its start that count against a time limit: see patient/time_limits.py, which cannot be imported
        here."""
        return counted(self._own_pid(), time.monotonic() - self._started)

    def _own_pid(self) -> int:
        """The process itself, not one of the two that guard it."""
        pid = self._process.pid
        with contextlib.suppress(OSError, ValueError, IndexError):
            for _ in range(2 if self._guarded else 0):
                pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return pid

    @property
    def pid(self) -> int:
        """Its process id, or that of its guard."""
        return self._process.pid

    def alive(self) -> bool:
        """True while it runs."""
        return self._process.poll() is None

    def wait(self, timeout: float) -> Completed:
        """Waits until it ends, at most `timeout` seconds, then ends its whole group."""
        timed_out = True
        try:
            timed_out = not self._ends_within(max(timeout, 0.0))
        finally:
            self.end()
        return self.so_far(timed_out=timed_out)

    def so_far(self, *, timed_out: bool = False) -> Completed:
        """What it has come to, also while it runs."""
        code = self._process.returncode
        return Completed(
            arguments=self.arguments,
            status=code if not timed_out and code is not None and code >= 0 else None,
            signal=-code if not timed_out and code is not None and code < 0 else None,
            timed_out=timed_out,
            seconds=time.monotonic() - self._started,
            stdout=_tail(self._out),
            stderr=_tail(self._err),
        )

    def end(self) -> None:
        """Ends the process and its group, once. Does not wait long for a process stuck in the kernel."""
        if self._ended:
            return  # its process id may belong to another process by now
        self._ended = True
        if self._process.poll() is None:
            # SIGTERM first: it may have started processes in other sessions, which only it can end.
            self._process.terminate()
            self._ends_within(_GENTLE)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # A process stuck in a driver call survives SIGKILL for as long as the call lasts: do not wait for it.
        self._ends_within(2.0)
        self._let_go()

    def _let_go(self) -> None:
        """Closes the pipe of its guard, which ends whatever is left of it."""
        for descriptor in self._pipe or ():
            os.close(descriptor)
        self._pipe = None

    def _ends_within(self, seconds: float) -> bool:
        # Popen.wait with a timeout sleeps up to 50 ms between checks: a third of the time of --quick.
        if self._process.poll() is not None:
            return True
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return self._process.poll() is not None
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            poller.poll(seconds * 1000)
        finally:
            os.close(descriptor)
        return self._process.poll() is not None


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _TAIL))
            return handle.read().decode(errors="replace")
    except OSError:
        return ""
