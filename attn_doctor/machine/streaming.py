"""Runs programs and reads their output while they run: cluster launchers. Always a list of arguments, no shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import IO

from attn_doctor.errors import AttnDoctorError, BadInput

_GENTLE = 5.0


def output_of(arguments: Sequence[str], *, timeout: float) -> str:
    """Standard output of a short program.

    Raises AttnDoctorError when it does not end with status 0 in time.
    """
    try:
        done = subprocess.run(list(arguments), capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise AttnDoctorError(f"cannot be started: {error.strerror}", about=arguments[0]) from None
    except subprocess.TimeoutExpired:
        raise AttnDoctorError(f"did not answer within {timeout:.0f} s", about=" ".join(arguments)) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise AttnDoctorError(f"ended with status {done.returncode}: {said}", about=" ".join(arguments))
    return done.stdout.decode(errors="replace")


class Ending:
    """Handles ^C and SIGTERM while a program is streamed: ends the program and reads its remaining output.

    An exception would interrupt the reading of a report. A second signal ends attn-doctor at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The first signal received."""
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Installs the signal handlers within this context. Main thread only."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def asked(number: int, frame: FrameType | None) -> None:
            if self.signal is None:
                self.signal = number
                self._end_soon()
                return
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)

        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup, or a shell's background job
                signal.signal(number, asked)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def ends(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Makes a signal end this process; a signal already received ends it now."""
        self._process = process
        try:
            if self.signal is not None:
                self._end_soon()
            yield
        finally:
            self._process = None

    def _end_soon(self) -> None:
        # A handler must not wait; the reader continues until the output ends.
        if self._process is not None:
            threading.Thread(target=_end_all, args=(self._process,), daemon=True).start()


@contextlib.contextmanager
def streamed(
    arguments: Sequence[str],
    *,
    limit: float,
    hear: Callable[[str], None],
    ending: Ending,
    environment: Mapping[str, str] | None = None,
) -> Iterator[IO[bytes]]:
    """Yields standard output as it arrives and passes each line of standard error to `hear`.

    The program is ended after `limit` seconds or when `ending` receives a signal; output that has arrived is kept.
    Raises BadInput when it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,  # srun and clush forward standard input to every node
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # so that ^C reaches us first, and its child processes end with it
        )
    except OSError as error:
        raise BadInput(
            f"it cannot be started: {error.strerror}", about=arguments[0], hint="Is it installed on this node?"
        ) from None
    assert process.stdout is not None
    assert process.stderr is not None
    listener = threading.Thread(target=_listen, args=(process.stderr, hear), daemon=True)
    listener.start()

    def over() -> None:
        hear(f"attn-doctor: not ended after {limit:.0f} s, ended by us: {arguments[0]}")
        _end(process)

    timer = threading.Timer(limit, over)
    timer.daemon = True
    timer.start()
    try:
        with ending.ends(process):
            yield process.stdout
    finally:
        timer.cancel()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE)
        _end(process)
        listener.join(_GENTLE)
        process.stdout.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)  # srun ends its tasks on SIGTERM; it only reports a single SIGINT
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """Ends the program and its child processes: a surviving child would keep the output open."""
    _end(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _listen(stream: IO[bytes], hear: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            hear(line.decode(errors="replace").rstrip())
