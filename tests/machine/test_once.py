"""Ranks of one node share one examination; whoever dies is replaced, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine import once_a_node
from attn_doctor.machine.once_a_node import Answer, Rank, rank
from tests.conftest import CHECKOUT, clean_environment
from tests.scenarios.processes import has_open, written

pytestmark = pytest.mark.process

#: A rank in a process of its own: FOLDER NUMBER HOW. Appends what it examined to `examined`, prints status and origin.
RANK = """
import os, sys, time
from pathlib import Path
from attn_doctor.machine import once_a_node as module
from attn_doctor.machine.once_a_node import Answer, Rank, once
module._HEAD_START = 60.0  # the machine that runs this may be busy
folder, number, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def examine():
    with open(folder / "examined", "a") as file:
        file.write(f"{number}\\n")
    if how == "hangs":
        (folder / "hanging").write_text(str(os.getpid()))
        time.sleep(600)
    while how == "waits" and not (folder / "go").exists():
        time.sleep(0.05)
    return Answer(status=10 + number)
if how == "late":
    time.sleep(3.0)
(folder / "shared").mkdir(exist_ok=True)
answer, own = once("question", examine, rank=None if number == 99 else Rank(launch="l", number=number), wait=60,
                   folder=folder / "shared")
print(answer.status, own)
"""


def _start(folder: Path, number: int, how: str = "plain") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RANK, str(folder), str(number), how],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        env=clean_environment(),
    )


def _said(processes: list[subprocess.Popen[str]]) -> list[str]:
    return [process.communicate(timeout=60)[0].strip() for process in processes]


def test_eight_ranks_examine_once(tmp_path: Path) -> None:
    """Local rank 0 examines although it was started last; everybody ends with its status."""
    others = [_start(tmp_path, number) for number in range(1, 8)]
    said = _said([*others, _start(tmp_path, 0)])

    assert (tmp_path / "examined").read_text() == "0\n"
    assert said == ["10 False"] * 7 + ["10 True"]


def test_a_late_rank_reads_what_was_found(tmp_path: Path) -> None:
    """A rank that starts after the examination has ended does not repeat it."""
    assert _said([_start(tmp_path, 0), _start(tmp_path, 1, "late")]) == ["10 True", "10 False"]


def test_a_killed_rank_is_replaced(tmp_path: Path) -> None:
    """The kernel lets go of the lock of a rank that is killed while it examines, and another one examines."""
    first = _start(tmp_path, 0, "hangs")
    pid = int(written(tmp_path / "hanging"))
    others = [_start(tmp_path, number) for number in (1, 2)]
    time.sleep(2)  # so that they do wait, on a busy machine too
    os.kill(pid, signal.SIGKILL)
    said = _said(others)
    first.communicate(timeout=60)

    assert first.returncode == -signal.SIGKILL
    assert len((tmp_path / "examined").read_text().split()) == 2
    assert sorted(one.split()[1] for one in said) == ["False", "True"]
    assert len({one.split()[0] for one in said}) == 1


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    """One that never ends is named with its process number, and those who wait give up in words."""
    hanging = _start(tmp_path, 0, "hangs")
    try:
        pid = written(tmp_path / "hanging")
        with pytest.raises(AttnDoctorError) as caught:
            once_a_node.once(
                "question",
                lambda: Answer(status=0),
                rank=Rank(launch="l", number=1),
                wait=0.5,
                folder=tmp_path / "shared",
            )
        assert pid in caught.value.about
        assert caught.value.exit_status == 3
    finally:
        hanging.kill()
        hanging.communicate(timeout=60)


def test_processes_that_nobody_launched_together(tmp_path: Path) -> None:
    """Two at once share an examination that one of them makes meanwhile."""
    first = _start(tmp_path, 99, "waits")
    written(tmp_path / "examined")
    second = _start(tmp_path, 99, "waits")
    assert has_open(second.pid, ".lock")
    (tmp_path / "go").touch()

    assert _said([first, second]) == ["109 True", "109 False"]


class TestAnotherTime:
    """check, fix, check: what was found before does not answer for now."""

    @staticmethod
    def _ask(folder: Path, who: Rank | None, status: int) -> tuple[int, bool]:
        answer, own = once_a_node.once("q", lambda: Answer(status=status), rank=who, wait=5, folder=folder)
        return answer.status, own

    def test_local_rank_0_always_looks_again(self, tmp_path: Path) -> None:
        """Its own earlier answer is none."""
        first = Rank(launch="l", number=0)

        assert self._ask(tmp_path, first, 1) == (1, True)
        assert self._ask(tmp_path, first, 0) == (0, True)

    def test_the_others_take_an_answer_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second time a rank asks, the answer that it has had already is old."""
        monkeypatch.setattr(once_a_node, "_HEAD_START", 0.2)
        second = Rank(launch="l", number=1)

        assert self._ask(tmp_path, Rank(launch="l", number=0), 1) == (1, True)
        assert self._ask(tmp_path, second, 7) == (1, False)
        assert self._ask(tmp_path, second, 7) == (7, True)
        assert self._ask(tmp_path, Rank(launch="another", number=1), 8) == (8, True)

    def test_alone(self, tmp_path: Path) -> None:
        """A person who asks twice is examined twice."""
        assert self._ask(tmp_path, None, 1) == (1, True)
        assert self._ask(tmp_path, None, 0) == (0, True)

    def test_a_damaged_answer_is_none(self, tmp_path: Path) -> None:
        """What cannot be read is examined again."""
        self._ask(tmp_path, Rank(launch="l", number=0), 1)
        for file in tmp_path.glob("*.json"):
            file.write_text('{"status": 0')

        assert self._ask(tmp_path, Rank(launch="l", number=1), 5) == (5, True)


def test_without_a_folder_each_examines(tmp_path: Path) -> None:
    """Sharing is a courtesy: where it cannot be, nothing is lost."""
    answer, own = once_a_node.once("q", lambda: Answer(status=4), rank=None, wait=1, folder=tmp_path / "not there")

    assert (answer.status, own) == (4, True)


SRUN = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "2", "SLURM_NODEID": "1"}


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        pytest.param({}, None, id="nobody"),
        pytest.param({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8"}, 3, id="torchrun"),
        pytest.param({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, None, id="torchrun, alone"),
        pytest.param({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "8(x2),4"}, 2, id="srun"),
        pytest.param({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "8,1"}, None, id="srun, alone on this node"),
        pytest.param({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "8,4(x3)"}, 2, id="srun, uneven"),
        pytest.param({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "what?"}, None, id="srun, garbage"),
        pytest.param({"SLURM_JOB_ID": "1", "SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "4"}, None, id="batch script"),
        pytest.param(
            {**SRUN, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8"},
            5,
            id="torchrun under srun",
        ),
        pytest.param({"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 1, id="mpirun"),
    ],
)
def test_who_is_a_rank(environment: dict[str, str], number: int | None) -> None:
    """Variables of the launchers tell; a batch script and a step of one task are nobody's ranks."""
    found = rank(environment)

    assert (found.number if found else None) == number
