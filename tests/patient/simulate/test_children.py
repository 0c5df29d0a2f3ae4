"""Jobs in children of their own: none of them can end the run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from attn_doctor.patient.simulate import children
from attn_doctor.patient.simulate.triton import compile as triton_compile


def run(tmp_path, *jobs, timeout=20.0, **options):
    return children.run_each(list(jobs), scratch=str(tmp_path), timeout=timeout, **options)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return "Z" not in stat.read().split()[2]
    except FileNotFoundError:
        return False


def well():
    return {"well": True}


def test_answers_come_back_in_order(tmp_path):
    """Each job's answer stands in the place of its job, whoever ends first."""
    jobs = [lambda: time.sleep(0.2) or {"job": 0}, lambda: {"job": 1}, lambda: {"job": 2}]

    ended = run(tmp_path, *jobs, at_once=3)

    assert [end.answer["job"] for end in ended] == [0, 1, 2]
    assert {"answered"} == {end.how for end in ended}


def test_an_abort_costs_one_job(tmp_path):
    """A job that aborts is told by its signal and its last words; the others are answered."""

    def abort():
        os.write(2, b"LLVM ERROR: cannot go on\n")
        os.abort()

    ended = run(tmp_path, well, abort, well)

    assert [end.how for end in ended] == ["answered", "killed", "answered"]
    assert ended[1].signal == "SIGABRT"
    assert "LLVM ERROR" in ended[1].output


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGILL])
def test_every_signal_has_its_name(tmp_path, number):
    """The signal that ended a job is named."""
    ended = run(tmp_path, lambda: os.kill(os.getpid(), number) or time.sleep(9))

    assert ("killed", number.name) == (ended[0].how, ended[0].signal)


def test_a_hang_costs_one_timeout(tmp_path):
    """A job that never ends is ended at its timeout, what it started with it, and the others are answered."""
    marker = tmp_path / "grandchild"

    def hang():
        program = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        subprocess.run([sys.executable, "-c", program], check=False)
        return {}

    started = time.monotonic()
    ended = run(tmp_path, well, hang, well, timeout=3.0)

    assert [end.how for end in ended] == ["answered", "hung", "answered"]
    assert time.monotonic() - started < 15
    grandchild = int(marker.read_text())
    for _ in range(100):  # it is reaped by init, a moment after its group was killed
        if not running(grandchild):
            break
        time.sleep(0.05)
    else:
        pytest.fail("what the hanging job started is still running")


def test_a_busy_hang_is_ended_too(tmp_path):
    """A loop that never yields, with SIGTERM ignored, is ended like any other hang."""

    def spin():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass

    assert run(tmp_path, spin, timeout=1.0)[0].how == "hung"


def test_what_it_computed_tells_a_wait_from_a_loop(tmp_path):
    """Of a job that had to be ended, its processor time and that of what it started."""

    def spins():
        subprocess.run([sys.executable, "-c", "while True: pass"], check=False)

    waits, works = run(tmp_path, lambda: time.sleep(60), spins, timeout=3.0, at_once=2)

    assert (waits.how, works.how) == ("hung", "hung")
    assert waits.computed < 0.2 < works.computed


def test_an_exception_is_a_failure_with_its_traceback(tmp_path):
    """A job that raises gives no answer; what it said is kept."""

    def broken():
        raise LookupError("nothing of the kind")

    (end,) = run(tmp_path, broken)

    assert end.how == "failed"
    assert "LookupError: nothing of the kind" in end.output


def test_what_is_no_json_is_a_failure(tmp_path):
    """An answer that cannot be written is none, and is not taken for an empty one."""
    (end,) = run(tmp_path, lambda: {"thing": object()})

    assert (end.how, end.answer) == ("failed", None)


def test_exit_is_not_an_answer(tmp_path):
    """A job that exits with status 0 has not answered."""
    assert run(tmp_path, lambda: sys.exit(0))[0].how == "failed"


def test_after_the_deadline_nothing_starts(tmp_path):
    """Past the deadline the running job is ended and the waiting ones say that they never started."""
    ended = run(
        tmp_path, lambda: time.sleep(60) or {}, well, well, at_once=1, deadline=time.monotonic() + 0.5, timeout=30.0
    )

    assert [end.how for end in ended] == ["stopped", "not started", "not started"]


def test_nothing_is_left_behind(tmp_path):
    """The scratch folder is as it was, and no core file lies in the current folder."""
    before = sorted(os.listdir("."))

    run(tmp_path, well, os.abort, lambda: print("said"), lambda: time.sleep(60), timeout=1.0)

    assert os.listdir(tmp_path) == []
    assert before == sorted(os.listdir("."))


def test_children_say_nothing_to_the_parent(tmp_path, capfd):
    """What a job prints, from Python or below it, stays out of the parent's output."""
    print("mine")
    run(tmp_path, lambda: print("python") or (os.write(1, b"below") and {}))

    assert capfd.readouterr() == ("mine\n", "")


@pytest.mark.parametrize(("computed", "outcome"), [(0.0, "could not look"), (59.0, "could not look"), (130.0, "hung")])
def test_only_processor_time_makes_a_hang(computed, outcome):
    """On a busy machine a sound kernel takes any time on the clock."""
    end = children.Ended(how="hung", seconds=200.0, computed=computed)
    verdict = triton_compile.judge({}, end, 200.0)

    assert verdict.outcome == outcome
    assert f"computed for {computed:.0f} s" in verdict.message
