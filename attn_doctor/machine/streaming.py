"""Programs whose output is read while they run: the launchers of a cluster. Always a list of arguments, no shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
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


@contextlib.contextmanager
def streamed(
    arguments: Sequence[str],
    *,
    limit: float,
    hear: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> Iterator[IO[bytes]]:
    """Standard output as it comes; each line of standard error goes to `hear`. After `limit` seconds the program is
    ended, and with it the output; what had come stays.

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


def _listen(stream: IO[bytes], hear: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            hear(line.decode(errors="replace").rstrip())
