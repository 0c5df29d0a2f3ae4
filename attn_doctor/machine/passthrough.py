"""Runs a user's command transparently: output and signals pass through at once; the end of the output is kept.

When our output is a terminal, the command gets a pseudo-terminal: with a plain pipe it would omit colours and progress
bars, and buffer its output.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import termios
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO

from attn_doctor.errors import BadInput
from attn_doctor.quick_dataclasses import dataclass

_CHUNK = 65_536
#: Seconds between checks whether a silent command has ended.
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Result of the command."""

    status: int
    """Exit status; 128 + signal number when a signal ended it, as in a shell."""
    tail: bytes
    """The end of standard output and standard error, in order of arrival."""


def run(command: Sequence[str], *, keep: int) -> Passed:
    """Runs the command to its end; keeps the last `keep` bytes of its output.

    Raises BadInput when it cannot be started.
    """
    kept: deque[bytes] = deque()
    size = 0
    with contextlib.ExitStack() as stack:
        ours = (sys.stdout, sys.stderr)
        ends = [stack.enter_context(_end(stream)) for stream in ours]
        try:
            process = subprocess.Popen(list(command), stdout=ends[0][1], stderr=ends[1][1])
        except OSError as error:
            raise BadInput(
                f"the command cannot be started: {error.strerror}",
                about=f"-- {' '.join(command)}",
                hint="Is it there, and executable?",
            ) from None
        finally:
            for _, theirs in ends:
                os.close(theirs)
        stack.enter_context(_forwarded(process))
        with selectors.DefaultSelector() as selector:
            for (read, _), stream in zip(ends, ours, strict=True):
                selector.register(read, selectors.EVENT_READ, stream)
            while selector.get_map():
                ended = process.poll() is not None
                ready = selector.select(timeout=_LOOK_AGAIN)
                if not ready and ended:
                    break  # background processes of the command may keep the pipes open for ever
                for key, _ in ready:
                    data = _read(key.fd)
                    if not data:
                        selector.unregister(key.fd)
                        continue
                    _pass(key.data, data)
                    kept.append(data)
                    size += len(data)
                    while size - len(kept[0]) >= keep:
                        size -= len(kept.popleft())
        code = process.wait()
    return Passed(status=code if code >= 0 else 128 - code, tail=b"".join(kept))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # a terminal that was closed at the other end gives EIO, not end of file
        return b""


def _pass(stream: IO[str], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # `| head` has read enough; the command runs on
        stream.buffer.write(data)  # type: ignore[attr-defined]
        stream.flush()


@contextlib.contextmanager
def _end(stream: IO[str]) -> Iterator[tuple[int, int]]:
    """Yields (our reading end, the command's writing end); the caller closes the second."""
    if stream.isatty():
        read, write = os.openpty()
        with contextlib.suppress(OSError, termios.error):
            fcntl.ioctl(write, termios.TIOCSWINSZ, fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, b"\0" * 8))
            tty.setraw(write)  # line ends as the command writes them; our own terminal translates them
    else:
        read, write = os.pipe()
    try:
        yield read, write
    finally:
        os.close(read)


@contextlib.contextmanager
def _forwarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forwards terminating signals to the command and ends with it. The terminal sends Ctrl-C to both."""

    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN if sys.stdin.isatty() else forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
