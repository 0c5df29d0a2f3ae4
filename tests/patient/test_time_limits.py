"""Time limits on a machine whose processors are taken by other work."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from attn_doctor.machine import process
from attn_doctor.patient import time_limits

WORKS = "import time\nend = time.process_time() + 0.35\nwhile time.process_time() < end: pass\n"
#: As the child's main thread of `patient/examine.py` runs them: forked, with a limit of a second.
RUNS = """
import os, sys, time
from attn_doctor.patient import forked
os.sched_setaffinity(0, {int(sys.argv[2])})
ended = []
work = compile(sys.argv[1], "work", "exec")
forked.run([forked.Child("one", lambda tell: exec(work, {}), 1.0, ended.append)], 1, ".")
print(ended[0].hung, ended[0].seconds, ended[0].starved)
"""


@contextlib.contextmanager
def busy_processor(others):
    """One processor, on which so many other processes compute all the time.

    Each in a session of its own: Linux shares a processor out among sessions first (sched_autogroup).
    """
    processor = min(os.sched_getaffinity(0))
    spins = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", spins, str(processor)], start_new_session=True) for _ in range(others)
    ]
    try:
        yield processor
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def ended(work, processor):
    """(hung, seconds, starved) of that work with a limit of one second."""
    done = subprocess.run(
        [sys.executable, "-c", RUNS, work, str(processor)], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    hung, seconds, starved = done.stdout.split()
    return hung == "True", float(seconds), float(starved)


def test_what_waits_for_a_processor_is_not_hung():
    """0.35 s of work beside three others take 1.4 s: it ends, though the limit is one."""
    with busy_processor(3) as processor:
        hung, seconds, starved = ended(WORKS, processor)

    assert not hung
    assert seconds > 1.0
    assert starved > 0.5


@pytest.mark.parametrize("work", ["import time; time.sleep(60)", "while True: pass"], ids=["sleeps", "computes"])
def test_what_hangs_is_ended(work):
    """At three times its limit at the latest, and a process that sleeps at its limit."""
    with busy_processor(1) as processor:
        begun = time.monotonic()
        hung, seconds, _ = ended(work, processor)

    assert hung
    assert seconds < (2.0 if "sleep" in work else time_limits.MOST + 1)
    assert time.monotonic() - begun < 20


def test_no_count_of_the_kernel():
    """A process that is gone has waited for nothing."""
    assert time_limits.without_processor(2**22 + 1) == 0.0
    assert time_limits.counted(2**22 + 1, 9.0) == process.counted(2**22 + 1, 9.0) == 9.0


def test_both_sides_count_alike():
    """The patient's side and ours know the rule each for itself."""
    with busy_processor(2) as processor:
        spins = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
        one = subprocess.Popen([sys.executable, "-c", spins, str(processor)])
        time.sleep(1.0)
        one.send_signal(signal.SIGSTOP)
        try:
            for seconds in (0.1, 1.0, 100.0):
                counts = (time_limits.counted(one.pid, seconds), process.counted(one.pid, seconds))
                assert counts[0] == counts[1] < seconds
        finally:
            one.kill()
            one.wait()
