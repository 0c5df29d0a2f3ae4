"""Faults of attn-doctor's own: a part that fails costs what it would have told, never the whole report.

A part is a probe, a recipe, a section of a report, one node's report. What it would have told is then unknown, for a
reason that names the log. Outside `collected` nothing is caught, so that a program of one's own sees the exception.
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

#: No room, or nothing may be written: that is told at once, and every further part would meet it.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
#: A file system that refuses or is ill (a stale NFS handle, a mount that is gone) is nobody's bug.
REFUSED = frozenset(
    {
        errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE, errno.EIO, errno.ENOTCONN,
        errno.EHOSTDOWN, errno.ETIMEDOUT,
    }
)  # fmt: skip

_collecting: ContextVar[list[OwnFault] | None] = ContextVar("collecting", default=None)


class NotLooked(Exception):
    """What a part needs is missing, because the part that finds it failed before; the text is that part's reason."""


@contextlib.contextmanager
def collected() -> Iterator[list[OwnFault]]:
    """Inside, parts may fail; the list grows with each fault."""
    faults: list[OwnFault] = []
    token = _collecting.set(faults)
    try:
        yield faults
    finally:
        _collecting.reset(token)


def met() -> tuple[OwnFault, ...]:
    """The faults up to now."""
    return tuple(_collecting.get() or ())


def survive(part: str, work: Callable[[], T], instead: Callable[[str], U]) -> T | U:
    """What `work` gives; where it fails, what `instead` gives for the reason.

    `part` names it in words: `probe "node"`. Raises AttnDoctorError, which is a person's matter, and OSError for a
    full disk or a closed pipe, which no further part would survive either; every exception outside `collected`.
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
    """Lines of a report; one that says so in the place of those that could not be made."""
    return survive(f'section "{part}" of the report', lambda: list(work()), lambda reason: [f"… {reason}", ""])


def _noted(part: str, error: Exception, faults: list[OwnFault]) -> OwnFault:
    """Adds the fault; one log for all that fail at the same place in the same way."""
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
    """What a log says of the exception that is being handled."""
    import platform
    import traceback

    version = getattr(sys.modules.get("attn_doctor"), "__version__", "?")  # this layer imports nothing from above
    return (
        f"attn-doctor {version}, Python {platform.python_version()}, {platform.platform()}\n"
        f"arguments: {sys.argv[1:]}\n\n{traceback.format_exc()}"
    )


def write_log() -> str | None:
    """Writes the log of the exception that is being handled; gives its path, None where none could be written."""
    import tempfile

    with contextlib.suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="attn-doctor-bug-", suffix=".log")
        with os.fdopen(handle, "w", errors="backslashreplace") as file:
            file.write(log_text())
        return path
    return None
