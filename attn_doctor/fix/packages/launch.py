"""Runs as a script: starts an installer that is killed when `fix` dies.

An installer that outlived a killed `fix` would go on changing files after the lock was released.
Arguments: our process id, then the command.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Asks the kernel for a signal at our parent's death, then becomes the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("attn-doctor is gone already")
    os.execv(command[0], command)  # noqa: S606 -- there is no shell, and none is wanted


if __name__ == "__main__":
    main()
