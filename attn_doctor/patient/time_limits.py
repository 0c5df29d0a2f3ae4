"""Time limits that a busy machine does not use up."""

from __future__ import annotations

MOST = 3.0
"""A process may take this many times its limit, however busy the machine is."""


def counted(pid: int, seconds: float) -> float:
    """The part of the `seconds` since the start of a process that counts against its time limit.

    The time in which its main thread was ready to run and no processor was free does not count: where other work fills
    the machine, an import would be called hung that only waits for its turn. A process that sleeps, waits for a lock or
    a file, or computes for ever uses its limit up as before.
    """
    return max(seconds - without_processor(pid), seconds / MOST)


def without_processor(pid: int) -> float:
    """Seconds in which the main thread of a process was ready to run and no processor was free.

    0.0 where the kernel does not count them, or the process is gone.

    https://docs.kernel.org/scheduler/sched-stats.html: time on the processor, time on a run queue, both in ns.
    """
    try:
        with open("/proc/{}/schedstat".format(pid)) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
