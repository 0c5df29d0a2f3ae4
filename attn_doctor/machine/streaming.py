"""Programs whose output is read while they run: the launchers of a cluster. Always a list of arguments, no shell."""

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
    """Standard output of a short program that ends with 0.

    Raises AttnDoctorError.
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
    """^C and SIGTERM while programs are streamed: the program is ended, and what it had said is read to its end.

    As an exception it would tear a report apart in the middle of being taken in. A second signal ends us at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The first one that came."""
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Holds the signals back as long as it lasts. In the main thread alone."""
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
        """It is what a signal ends; one that came already ends it now."""
        self._process = process
        try:
            if self.signal is not None:
                self._end_soon()
            yield
        finally:
            self._process = None

    def _end_soon(self) -> None:
        # A handler must not wait, and whoever reads the output goes on until there is none.
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
    """Standard output as it comes; each line of standard error goes to `hear`. After `limit` seconds the program is
    ended, or when `ending` says so, and with it the output; what had come stays.

    Raises BadInput when it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,  # srun and clush pass theirs on to every node
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # so that ^C comes to us first, and what it started ends with it
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
            process.send_signal(signal.SIGTERM)  # srun ends its tasks on that; one SIGINT it only reports
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GENTLE)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """With all that it started: a child that outlives it would hold the output open."""
    _end(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _listen(stream: IO[bytes], hear: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            hear(line.decode(errors="replace").rstrip())
