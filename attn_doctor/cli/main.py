"""The command line: which command is wanted, and no other one is loaded."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from attn_doctor.cli import started
from attn_doctor.errors import BadInput
from attn_doctor.machine import printable

if TYPE_CHECKING:
    from attn_doctor.model.exit_status import ExitStyle


def _style(arguments: list[str]) -> ExitStyle:
    """The --exit-style of arguments that could not be parsed."""
    from attn_doctor.model.exit_status import ExitStyle

    words = " ".join(arguments).replace("--exit-style=", "--exit-style ").split()
    for flag, value in itertools.pairwise(words):
        if flag == "--exit-style" and value in {style.value for style in ExitStyle}:
            return ExitStyle(value)
    return ExitStyle.DEFAULT


def main(*, as_module: bool = False) -> int:
    """Runs the command line; gives the exit status."""
    started.as_module = as_module
    with printable.guarded_streams():
        return _main()


def _main() -> int:
    try:
        from attn_doctor.cli import front

        run = front.read(sys.argv[1:])
        if run is not None:
            run()
        else:
            from attn_doctor.cli import with_typer

            with_typer.run(sys.argv[1:])
        sys.stdout.flush()
    except SystemExit as ended:
        from attn_doctor.model.exit_status import Status, styled

        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        # Refused by the parser, which ignores --exit-style: Nagios would read 2 as critical.
        refused = status == Status.USAGE and not started.in_command
        return styled(status, _style(sys.argv[1:])) if refused else status
    except BadInput as error:  # what cannot be read as a command line
        from attn_doctor.cli import guard
        from attn_doctor.model.exit_status import styled

        guard.tell(error)
        return styled(error.exit_status, _style(sys.argv[1:]))
    except BrokenPipeError:
        from attn_doctor.cli import guard

        guard.close_stdout()
    except OSError as error:
        from attn_doctor.cli import guard

        return guard.refused(error)
    except Exception:  # before a command's own guard stood: while it was loaded
        from attn_doctor.cli import guard

        return guard.our_bug()
    return 0
