"""Handles the errors of every command: users' mistakes get a message in three parts, bugs of attn-doctor a log."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, ParamSpec

from attn_doctor.cli import door, started
from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.machine import faults
from attn_doctor.model.exit_status import ExitStyle, Status, styled
from attn_doctor.model.report import OwnFault
from attn_doctor.report import language

P = ParamSpec("P")


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Turns a command that returns an exit status into one that ends with it, whatever happens."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):  # a closed connection sends SIGHUP
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, _terminated)
        style = options.get("exit_style")
        started.in_command = True
        try:
            with faults.collected() as own:
                try:
                    language.choose(
                        str(options["lang"] or "") or None if "lang" in options else language.ENGLISH,
                        for_program=bool(options.get("json_")),
                    )
                    status = command(*arguments, **door.entered(options))
                    sys.stdout.flush()
                finally:
                    tell_faults(own)
            if own and options.get("strict") and not options.get("exit_zero") and status == Status.HEALTHY:
                status = _styled(Status.COULD_NOT_EXAMINE, style)  # a part of the report that failed while written
        except AttnDoctorError as error:
            tell(error)
            status = _styled(error.exit_status, style)
        except BrokenPipeError:
            close_stdout()
            status = Status.HEALTHY
        except OSError as error:
            status = _styled(refused(error), style)
        except KeyboardInterrupt:
            print("attn-doctor: interrupted", file=sys.stderr)  # noqa: T201
            status = Status.INTERRUPTED
        except Exception:  # whatever escapes is a bug of ours
            status = _styled(our_bug(), style)
        raise SystemExit(int(status))

    return run


def _styled(status: int, style: object) -> int:
    return styled(status, style) if isinstance(style, ExitStyle) else status


def failed(error: Exception) -> int:
    """Reports any exception as at the end of a command; returns the exit status."""
    if isinstance(error, AttnDoctorError):
        tell(error)
        return error.exit_status
    try:
        raise error
    except OSError as refusal:
        return refused(refusal)
    except Exception:
        return our_bug()


def close_stdout() -> None:
    """Closes standard output after its reader is gone, so that Python's final flush raises no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refused(error: OSError) -> int:
    """Reports an error of the machine that is not a bug: a full or read-only file system, missing permissions, a
    deleted current folder. Any other OSError is a bug."""
    if error.errno in faults.FULL:
        said = AttnDoctorError(
            f"nothing more can be written: {error.strerror}",
            about=str(error.filename or "standard output, or the private temporary folder"),
            hint="Make room there, or set TMPDIR to a folder that has some.",
        )
    elif error.errno in faults.REFUSED and isinstance(error.filename, str | bytes | os.PathLike):
        about = os.fsdecode(error.filename)
        said = (BadInput if _named(about) else AttnDoctorError)(
            f"it cannot be looked at: {error.strerror}",
            about=about if len(about) <= 200 else f"{about[:199]}…",
            hint="Name another place, or look at it as a user who may.",
        )
    elif error.errno == errno.ENOENT and _gone():
        said = AttnDoctorError(
            "the current folder is gone",
            about=os.environ.get("PWD") or "where attn-doctor was started",
            hint="Change into one that is there, or name files by their whole path.",
        )
    else:
        return our_bug()
    tell(said)
    if error.errno not in faults.REFUSED:
        with contextlib.suppress(OSError, ValueError):
            close_stdout()
    return said.exit_status


def _named(file: str) -> bool:
    """True when the file, or its folder, was named on the command line."""
    if _gone():
        return False
    words = (os.path.abspath(word.rpartition("=")[2].removeprefix("@")) for word in sys.argv[1:])  # noqa: PTH100
    file = os.path.abspath(file)  # noqa: PTH100
    return any(os.path.commonpath((file, word)) in (file, word) for word in words)


def _gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return True
    return False


def tell(error: AttnDoctorError) -> None:
    """Prints what happened, what it concerns, and what to do, on stderr, without a traceback."""
    lines = [f"attn-doctor: {error.what}", *(f"  {line}" for line in error.about.splitlines())]
    if error.hint:
        lines.append(f"  {error.hint}")
    print("\n".join(lines), file=sys.stderr)  # noqa: T201


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    # As an exception, so that private folders go and children end on the way out.
    raise SystemExit(128 + number)


def tell_faults(own: list[OwnFault]) -> None:
    """Prints which parts of attn-doctor failed, and that the others continued, on stderr, with one log for each kind of
    fault.
    """
    by_log: dict[tuple[str, str], list[str]] = {}
    for fault in own:
        by_log.setdefault((fault.log, fault.error), []).append(fault.part)
    for (log, error), parts in by_log.items():
        named = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
        words = AttnDoctorError(
            f"its own {named} failed: a bug of attn-doctor, not of your environment; the rest went on without",
            about=error,
            hint=f"Please report it with the log: {log}",
        )
        tell(words)


def our_bug() -> int:
    """Writes the log of the current exception and prints its path."""
    import traceback

    where = faults.write_log()
    print(  # noqa: T201
        "attn-doctor: this is a bug of attn-doctor, not of your environment\n"
        f"  {traceback.format_exc(limit=0).strip()}\n"
        f"  Please report it with the log: {where or 'below'}",
        file=sys.stderr,
    )
    if where is None:
        print(faults.log_text(), file=sys.stderr)  # noqa: T201
    return Status.OUR_BUG
