"""The command `attn-doctor`, and `python -m attn_doctor`: the latter examines the Python it was started with."""

from __future__ import annotations

import gc
import sys


def main(*, as_module: bool = False) -> int:
    """Runs the command line; the exit statuses are in docs/exit-status.md."""
    # Starting makes tens of thousands of objects that all stay: looking for garbage among them after every 700 costs a
    # twentieth of `check --quick`.
    gc.set_threshold(50_000, 20, 20)
    try:
        from attn_doctor.cli import main as command_line
    except Exception:  # a broken dependency must not end with 1, which means findings
        import traceback

        traceback.print_exc()
        sys.stderr.write("attn-doctor: cannot start: one of its own dependencies cannot be imported; reinstall it\n")
        return 70
    return command_line.main(as_module=as_module)


def command() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    sys.exit(main(as_module=True))
