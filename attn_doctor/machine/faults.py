"""Catches bugs of attn-doctor itself: a part that fails loses only its own facts, never the whole report.

A part is a probe, a recipe, a section of a report, or one node's report. Its facts become unknown, with a reason that
names the log. Outside `collected` nothing is caught, so that a program that uses the API sees the exception.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from attn_doctor.errors import AttnDoctorError
from attn_doctor.model.report import OwnFault

T = TypeVar("T")
U = TypeVar("U")

#: The disk is full or read-only: reported at once, since every further part would fail as well.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
#: The file system refuses or is broken (a stale NFS handle, a lost mount): not a bug of ours.
REFUSED = frozenset(
    {
        errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE, errno.EIO, errno.ENOTCONN,
        errno.EHOSTDOWN, errno.ETIMEDOUT,
    }
)  # fmt: skip

_collecting: ContextVar[list[OwnFault] | None] = ContextVar("collecting", default=None)


class NotLooked(Exception):
    """An input of this part is missing because another part failed before; the text is that part's reason."""


@contextlib.contextmanager
def collected() -> Iterator[list[OwnFault]]:
    """Within this context, parts may fail; the yielded list receives each fault."""
    faults: list[OwnFault] = []
    token = _collecting.set(faults)
    try:
        yield faults
    finally:
        _collecting.reset(token)


def met() -> tuple[OwnFault, ...]:
    """The faults so far."""
    return tuple(_collecting.get() or ())


def survive(part: str, work: Callable[[], T], instead: Callable[[str], U]) -> T | U:
    """Returns the result of `work`; when it fails, the result of `instead` for the reason.

    `part` names it in words: `probe "node"`. Raises AttnDoctorError, which the user has to resolve, and OSError for a
    full disk or a closed pipe, which would stop every further part too. Outside `collected`, raises every exception.
    """
    try:
        return work()
    except (AttnDoctorError, BrokenPipeError):
        raise
    except NotLooked as missing:
        return instead(str(missing))
    except Exception as error:
        faults = _collecting.get()
        if faults is None or (isinstance(error, OSError) and error.errno in FULL):
            raise
        if isinstance(error, OSError) and error.errno in REFUSED:
            named = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
            return instead(f"{error.strerror}{named}")
        fault = _noted(part, error, faults)
        return instead(f"attn-doctor's own {part} failed: {fault.error}; log {fault.log}")


def lines(part: str, work: Callable[[], Iterable[str]]) -> list[str]:
    """Lines of a report; when they cannot be made, one line with the reason."""
    return survive(f'section "{part}" of the report', lambda: list(work()), lambda reason: [f"… {reason}", ""])


def _noted(part: str, error: Exception, faults: list[OwnFault]) -> OwnFault:
    """Adds the fault. Faults at the same place of the same type share one log."""
    words = in_short(error)
    before = next((fault for fault in faults if fault.part == part and fault.error == words), None)
    if before is not None:
        return before
    log = next((fault.log for fault in faults if fault.error == words), None)
    fault = OwnFault(part=part, error=words, log=log or write_log() or "could not be written")
    faults.append(fault)
    return fault


def in_short(error: BaseException) -> str:
    """`UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 13: invalid continuation byte`."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return words if len(words) <= 300 else f"{words[:299]}…"


def log_text() -> str:
    """Text of a log about the exception being handled."""
    import platform
    import traceback

    version = getattr(sys.modules.get("attn_doctor"), "__version__", "?")  # this layer imports nothing from above
    system = os.uname()  # platform.platform() starts a process
    return (
        f"attn-doctor {version}, Python {platform.python_version()}, "
        f"{system.sysname} {system.release} {system.machine}\n"
        f"arguments: {sys.argv[1:]}\n\n{traceback.format_exc()}"
    )


def write_log() -> str | None:
    """Writes the log of the exception being handled; returns its path, or None when it could not be written."""
    import tempfile

    with contextlib.suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="attn-doctor-bug-", suffix=".log")
        with os.fdopen(handle, "w", errors="backslashreplace") as file:
            file.write(log_text())
        return path
    return None
