"""The command `attn-doctor`, and `python -m attn_doctor`: the latter examines the Python it was started with."""

from __future__ import annotations

import gc
import os
import sys

_INTERRUPTED = 130
"""The status of a shell's command that SIGINT ended."""


def main(*, as_module: bool = False) -> int:
    """Runs the command line; the exit statuses are in docs/exit-status.md."""
    # Starting makes tens of thousands of objects that all stay: looking for garbage among them after every 700 costs a
    # twentieth of `check --quick`.
    gc.set_threshold(50_000, 20, 20)
    _have_streams()
    try:
        status = _run(as_module=as_module)
    except KeyboardInterrupt:  # before a command's own guard stood: while it was loaded
        sys.stderr.write("attn-doctor: interrupted\n")
        status = _INTERRUPTED
    if status == _INTERRUPTED:
        # `python -m` ends itself by SIGINT, whatever status it is given, if a KeyboardInterrupt has left the `exec` of
        # a text, as it does while a dataclass is made. The next `exec` of a text takes that mark away (pythonrun.c).
        exec("")  # noqa: S102
    return status


def _run(*, as_module: bool) -> int:
    try:
        from attn_doctor.cli import main as command_line
    except Exception:  # a broken dependency must not end with 1, which means findings
        import traceback

        traceback.print_exc()
        sys.stderr.write("attn-doctor: cannot start: one of its own dependencies cannot be imported; reinstall it\n")
        return 70
    return command_line.main(as_module=as_module)


def _have_streams() -> None:
    """Standard streams that a daemon closed before it started us (`>&-`) become /dev/null.

    Otherwise the next file that is opened takes their number, and everything that prints raises.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)  # the same where it is the lowest free number
            if opened != number:
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _end(status: int) -> None:
    """Ends the process."""
    # The interpreter looks for garbage among all objects when it ends, several times: a tenth of `check --quick`.
    gc.freeze()
    sys.exit(status)


def command() -> None:
    """The console script."""
    _end(main())


if __name__ == "__main__":
    _end(main(as_module=True))
