"""Xid events: what a listener hears, whose they are, and what they come to."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attn_doctor.diagnose.judge import judge
from attn_doctor.formats import kernels_v1
from attn_doctor.machine.process import Completed
from attn_doctor.machine.target import examine_target
from attn_doctor.model import kernel_words
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.findings import Severity
from attn_doctor.model.gpu_state import XidEvent, Xids
from attn_doctor.probe.host import xid_child, xids
from attn_doctor.probe.host.xids import XidWatch
from attn_doctor.probe.kernels import kernel_facts
from attn_doctor.probe.kernels import trials as kernels
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data import measured

#: A kernel that wrote out of bounds on an H200 (driver 580.159.04, 2026-11-21), as it was recorded.
ILLEGAL: dict[str, Any] = json.loads(Path(__file__).with_name("h200-illegal-access.json").read_text())


class NVMLError(Exception):
    pass


class TimedOut(NVMLError):
    pass


def nvml(events: list[Any], *, refuses: tuple[int, ...] = (), stop: Path | None = None) -> Any:
    """A driver that tells these events, then nothing; an exception among them is raised."""

    def handle_of(index: int) -> Any:
        return ctypes.c_void_p(0x1000 + index)  # wrapped anew each time, as NVML does

    def index_of(handle: Any) -> int:
        return int(handle.value) - 0x1000

    def register(handle: Any, kind: int, _: object) -> None:
        assert kind == 8
        if index_of(handle) in refuses:
            raise NVMLError("Not Supported")

    def wait(_: object, milliseconds: int) -> Any:
        assert milliseconds <= 1000
        if not events:
            if stop is not None:
                stop.touch()
            raise TimedOut
        event = events.pop(0)
        if isinstance(event, Exception):
            raise event
        return SimpleNamespace(
            device=handle_of(event[0]), eventType=event[2] if len(event) > 2 else 8, eventData=event[1]
        )

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_Timeout=TimedOut,
        nvmlEventTypeXidCriticalError=8,
        nvmlInit=lambda: None,
        nvmlEventSetCreate=object,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=handle_of,
        nvmlDeviceGetUUID=lambda handle: f"GPU-gpu{index_of(handle)}".encode(),
        nvmlDeviceRegisterEvents=register,
        nvmlEventSetWait_v2=wait,
    )


def heard(tmp_path: Path, *events: Any, refuses: tuple[int, ...] = ()) -> dict[str, Any]:
    file, stop = tmp_path / "answer.json", tmp_path / "stop"
    xid_child.listen(nvml([*events], refuses=refuses, stop=stop), str(file), str(stop), 30.0)
    return dict(json.loads(file.read_text()))


def numbers(answer: dict[str, Any]) -> list[list[int]]:
    return [[one["number"] for one in gpu["seen"]] for gpu in answer["gpus"]]


def test_each_event_is_its_gpus(tmp_path: Path) -> None:
    """Every number is kept, in the order in which it came, with the GPU that told it; other events are left aside."""
    assert numbers(heard(tmp_path, (0, 31), (1, 79), (0, 43), (1, 5, 2))) == [[31, 43], [79]]


def test_a_gpu_that_cannot_be_listened_to_does_not_silence_the_others(tmp_path: Path) -> None:
    """What is not supported is said of that GPU."""
    answer = heard(tmp_path, (1, 31), refuses=(0,))

    assert answer["gpus"][0]["why_not"] == "Not Supported"
    assert (answer["gpus"][1]["why_not"], numbers(answer)[1]) == (None, [31])


def test_a_gpu_that_is_lost_ends_the_listening_and_not_what_was_heard(tmp_path: Path) -> None:
    """Nothing is known any more, and what was told before is."""
    answer = heard(tmp_path, (0, 79), NVMLError("GPU is lost"))

    assert (answer["outcome"], answer["message"], numbers(answer)) == ("could not", "GPU is lost", [[79], []])
    assert xids.of_gpu(answer, "gpu0", "0").why_not == "GPU is lost"


@pytest.mark.process
def test_a_real_listener_ends_when_it_is_told(tmp_path: Path) -> None:
    """The child answers and is gone; without a driver it says why it cannot listen."""
    watch = XidWatch(dict(os.environ), folder=tmp_path, seconds=60.0)
    watch.ready(20.0)
    answer = watch.answer(20.0)

    assert answer["outcome"] in ("listens", "could not")
    assert answer["message"] or answer["gpus"]


@pytest.mark.process
def test_a_listener_outlives_nobody(tmp_path: Path) -> None:
    """It ends with the process that started it."""
    file, stop = tmp_path / "answer.json", tmp_path / "stop"
    program = (
        "import sys, os, time; sys.path.insert(0, os.environ['HERE']);"
        "from tests.probe.test_xids import nvml; from attn_doctor.probe.host import xid_child;"
        "pid = os.fork();"
        "[time.sleep(0.05) for _ in range(400) if pid and not os.path.exists(sys.argv[1])];"
        "os._exit(0) if pid else (xid_child.listen(nvml([]), *sys.argv[1:3], 600.0), open(sys.argv[3], 'w'))"
    )
    gone, here = tmp_path / "gone", str(Path(__file__).parent.parent.parent)
    subprocess.run(
        [sys.executable, "-c", program, str(file), str(stop), str(gone)],
        env={**os.environ, "HERE": here},
        timeout=60,
        check=True,
    )
    until = time.monotonic() + 30.0
    while not gone.exists() and time.monotonic() < until:
        time.sleep(0.05)

    assert gone.exists()
    assert not stop.exists()


@pytest.mark.parametrize(
    ("at", "ended", "before", "found"),
    [
        (105.0, 110.0, 120.0, [31]),
        (110.5, 110.0, 120.0, [31]),  # told a moment after
        (110.5, 110.0, 110.4, []),  # the next one had begun
        (112.0, 110.0, 120.0, []),
        (99.0, 110.0, 120.0, []),
    ],
)
def test_whose_event(at: float, ended: float, before: float, found: list[int]) -> None:
    """An event belongs to the trial that ran, for a moment after it as well, and to one alone."""
    one = Xids(why_not=None, seen=(XidEvent(number=31, at=at),))

    assert xids.during(one, 100.0, ended, before=before) == tuple(found)


# --------------------------------------------------------------------------------------------------------------


def known(answer: dict[str, Any], *seen: int, why_not: str | None = None) -> FactSet:
    answer["gpus"][0]["xids"] = {"why_not": why_not, "seen": [{"number": one, "at": 1.0} for one in seen]}
    return explained(answer)


def explained(answer: dict[str, Any]) -> FactSet:
    trials = kernels_v1.from_json(answer)
    trials = dataclasses.replace(trials, xid_meanings=xids.meanings(trials, measured.xids()))
    return FactSet((*kernel_facts.facts(trials), *xids.facts(trials)))


def found(seen: FactSet) -> dict[str, Severity]:
    recipes = [one for one in shelf.bundled() if one.id == "gpu-xid"]
    return {one.title: one.severity for one in judge(seen, recipes).findings}


@pytest.fixture
def answer() -> dict[str, Any]:
    return copy.deepcopy(ILLEGAL)


@pytest.mark.parametrize("number", [48, 64, 74, 79, 95, 119, 120])
def test_a_gpu_that_is_to_be_kept_out(answer: dict[str, Any], number: int) -> None:
    """Hardware and firmware that no further work should go to: an error that names GPU, number and meaning."""
    ((title, severity),) = found(known(answer, number)).items()

    assert f"GPU 0 reported Xid {number} while kernels ran: " in title
    assert severity is Severity.ERROR


@pytest.mark.parametrize("number", [63, 94])
def test_a_gpu_that_wants_a_reset(answer: dict[str, Any], number: int) -> None:
    """Contained, or mended with the next reset: a warning."""
    assert set(found(known(answer, number)).values()) == {Severity.WARNING}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 109, 999])
def test_a_program_does_not_condemn_its_gpu(answer: dict[str, Any], number: int) -> None:
    """What a program causes, and numbers that nobody here knows, are no finding about the GPU."""
    assert found(known(answer, number)) == {}


def test_nobody_could_listen(answer: dict[str, Any]) -> None:
    """Not supported, denied, too late: an open question with the reason, never a healthy GPU."""
    seen = known(answer, why_not="Not Supported")
    diagnosis = judge(seen, [one for one in shelf.bundled() if one.id == "gpu-xid"])

    assert isinstance(seen.fact("listed.xid").state, Unknown)
    assert [one.recipe for one in diagnosis.open_questions] == ["gpu-xid"]
    assert "Not Supported" in str(seen.fact("listed.xid").state)


def test_beside_the_trial_that_crashed(answer: dict[str, Any]) -> None:
    """A real illegal access: the finding about the crash holds the Xid that the GPU told meanwhile, and its meaning."""
    seen = explained(answer)
    crashed = [one for one in judge(seen, shelf.bundled()).findings if one.id == "kernel-crashes"]

    assert any("meanwhile the GPU reported Xid 31 (GPU memory page fault)" in one.what for one in crashed)
    assert found(seen) == {}


def test_state_in_three_answers(answer: dict[str, Any]) -> None:
    """None heard, some heard, and nobody could listen read differently."""
    gpu = answer["gpus"][0]
    told = []
    for one in ({"why_not": None, "seen": []}, {"why_not": "denied", "seen": []}, gpu["xids"]):
        trials = kernels_v1.from_json({**answer, "gpus": [{**gpu, "xids": one}]})
        told.append(kernel_words.xids_of_gpu(trials.gpus[0], trials))

    assert told == ["no Xid", "Xids not known (denied)", "Xid 31"]


def test_each_trial_has_its_own(tmp_path: Path) -> None:
    """Of what children wrote and the listener heard: the crash has the Xids that came while it ran, the next none."""
    first = {"backend": "mine:attend", "dtype": "bfloat16", "head_dim": 64, "form": "causal", "direction": "train"}
    second = {**first, "form": "dense"}
    third = {**first, "form": "gqa"}
    lines = [
        {"begun": first, "at": 100.0},
        {"cell": first, "outcome": "crashed", "reason": "gone", "context_lost": True, "at": 101.0},
        {"begun": second, "at": 101.4},
        {"cell": second, "outcome": "wrong", "troubles": ["error"], "at": 102.0},
        {"begun": third, "at": 102.5},
        {"cell": third, "outcome": "right", "at": 103.0},
    ]
    (tmp_path / "cells-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = {"cells": [first, second, third], "not_offered": [], "left_out": {}, "backends": []}
    (tmp_path / "plan.json").write_text(json.dumps({"plans": {"0": plan}}))
    (tmp_path / "gpus.json").write_text(json.dumps({"gpus": [{"index": 0, "uuid": "gpu0", "name": "H200"}]}))
    seen = [{"number": 31, "at": 100.9}, {"number": 45, "at": 101.2}, {"number": 43, "at": 102.7}]
    told = {"index": 0, "uuid": "GPU-gpu0", "why_not": None, "seen": seen}
    ended = Completed(arguments=(), status=0, signal=None, timed_out=False, seconds=1.0, stdout="", stderr="")
    answer = kernels.collate(
        tmp_path,
        kernels.TrialRequest(mode="quick", seed=1),
        ended,
        {"xids": {"outcome": "listens", "message": "", "gpus": [told]}},
    )

    assert [(one.form, one.xids) for one in answer.cells] == [
        ("causal", (31, 45)),
        ("dense", None),
        ("gqa", None),
    ]
    assert all("at" not in one for one in kernels_v1.to_json(answer)["cells"])
    assert answer.gpus[0].heard.numbers == (31, 45, 43)


@pytest.mark.process
def test_a_run_listens(tmp_path: Path) -> None:
    """A real run asks NVML, and says why nothing was heard where that is so."""
    pytest.importorskip("torch")
    target = examine_target(None, as_module=True, folder=tmp_path, timeout=60.0)
    asked = kernels.TrialRequest(mode="quick", seed=1, backends=("sdpa-math",), dtypes=("float32",), budget=5.0)
    answer = kernels.run(target, asked, timeout=60.0, folder=tmp_path, environment=dict(os.environ), devices=("cpu",))

    assert answer.gpus[0].heard.why_not not in (None, "Xid listener did not start")
