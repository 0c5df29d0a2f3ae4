"""Driver and GPUs. A GPU cannot be had in a test: NVML's answer and nvidia-smi's output are given here."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from attn_doctor.machine.process import Running
from attn_doctor.model.facts import Absent, FactSet, Known, Unknown
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.host import gpus
from attn_doctor.probe.host.gpus import GpuQuery, _quick_limit, _visible

pytestmark = pytest.mark.process

SMI = """0, NVIDIA H100 80GB HBM3, GPU-aaaa, 9.0, 81559, Disabled, 550.54.15
1, Tesla T4, GPU-bbbb, 7.5, 15360, [N/A], 550.54.15
"""


def query(
    tmp_path: Path, smi: str | None, *, hint: str | None = None, timeout: float = 10.0, quick: bool = False
) -> FactSet:
    """Asks with no NVML library, and an nvidia-smi that is this shell script."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    if smi is not None:
        (binaries / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
        (binaries / "nvidia-smi").chmod(0o755)
    asked = GpuQuery({**os.environ, "PATH": f"{binaries}:/usr/bin:/bin"}, folder=tmp_path)
    return FactSet(asked.facts(timeout, hint=hint, quick=quick))


@pytest.fixture(autouse=True)
def _no_driver_here() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("a real driver answers here")


def test_no_gpu(tmp_path: Path) -> None:
    """No library, no nvidia-smi, no device: known to have no GPU."""
    seen = query(tmp_path, None)

    assert seen.value("listed.gpu") == 0
    assert isinstance(seen.fact("driver.answers").state, Absent)


def test_a_sign_of_a_gpu_without_a_driver_is_no_healthy_login_node(tmp_path: Path) -> None:
    """A device that nothing can be asked about leaves the question open."""
    seen = query(tmp_path, None, hint="/dev/nvidiactl is there")

    assert isinstance(seen.fact("listed.gpu").state, Unknown)
    assert "nvidiactl" in seen.fact("listed.gpu").state.reason


def test_smi_answers(tmp_path: Path) -> None:
    """nvidia-smi stands in for NVML, GPU by GPU."""
    (tmp_path / "out").write_text(SMI)
    seen = query(tmp_path, f"cat {tmp_path}/out")

    assert seen.value("listed.gpu") == 2
    assert seen.value("driver.version") == "550.54.15"
    assert seen.value("gpu.0.compute_capability") == "9.0"
    assert seen.value("gpu.0.mig") == "off"
    assert seen.value("gpu.1.compute_capability") == "7.5"
    assert isinstance(seen.fact("gpu.1.mig").state, Absent)


def test_smi_hangs(tmp_path: Path) -> None:
    """A hanging nvidia-smi costs one timeout and is named."""
    started = time.monotonic()
    seen = query(tmp_path, "sleep 600", timeout=1.0)

    assert time.monotonic() - started < 30
    assert seen.fact("driver.answers").state == Known(False)
    assert "did not answer" in seen.fact("listed.gpu").state.reason


@pytest.mark.parametrize(
    ("gpus", "kept_awake", "seconds"), [(0, False, 2), (8, True, 2), (8, False, 8), (16, False, 14)]
)
def test_how_long_somebody_in_a_hurry_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, kept_awake: bool, seconds: float
) -> None:
    """Two seconds, and more only where GPUs have to wake."""
    for number in range(gpus):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
    monkeypatch.setattr("attn_doctor.probe.host.gpus._DRIVERS_LIST", tmp_path / "gpus")
    monkeypatch.setattr("attn_doctor.probe.host.gpus._KEPT_AWAKE", tmp_path if kept_awake else tmp_path / "none")

    assert _quick_limit() == seconds


def test_nvml_hangs_and_somebody_is_in_a_hurry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--quick waits a few seconds, and does not call a driver dead that may only be slow; a full check does."""

    def hangs(answer: Path, environment: Mapping[str, str], *, folder: Path, name: str, host: Path) -> Running:
        return Running(["sleep", "600"], folder=folder, name=name, environment=environment)

    monkeypatch.setattr("attn_doctor.probe.host.gpus.start_nvml", hangs)
    monkeypatch.setattr("attn_doctor.probe.host.gpus._QUICK", 1.0)
    environment = dict(os.environ)
    started = time.monotonic()
    hurried = FactSet(GpuQuery(environment, folder=tmp_path).facts(300.0, hint=None, quick=True))

    assert time.monotonic() - started < 30
    for name in ("driver.answers", "listed.gpu", "driver.version"):
        state = hurried.fact(name).state
        assert isinstance(state, Unknown)
        assert "the longest that --quick waits" in state.reason
    patient = FactSet(GpuQuery(environment, folder=tmp_path).facts(1.0, hint=None))
    assert patient.fact("driver.answers").state == Known(False)


def test_smi_hangs_and_somebody_is_in_a_hurry(tmp_path: Path) -> None:
    """--quick is a gate before a job: it waits two seconds, whatever a full check would."""
    began = time.monotonic()
    seen = query(tmp_path, "exec sleep 600", timeout=300.0, quick=True)

    assert time.monotonic() - began < 30
    assert "nvidia-smi did not answer within 2 s" in str(seen.fact("listed.gpu").state)


def test_smi_fails_beside_a_gpu(tmp_path: Path) -> None:
    """Its last words are kept; with a device there it is a driver that does not answer."""
    seen = query(tmp_path, "echo could not communicate; exit 9", hint="/dev/nvidiactl is there")

    assert seen.fact("driver.answers").state == Known(False)
    assert "could not communicate" in seen.fact("listed.gpu").state.reason


def test_a_leftover_smi_is_no_driver(tmp_path: Path) -> None:
    """An image for GPU nodes on a node without one is a node without GPU."""
    assert query(tmp_path, "exit 9").value("listed.gpu") == 0


def test_nvml_answers(tmp_path: Path) -> None:
    """What the NVML child writes becomes facts of each GPU; one that fell off the bus stays unknown."""
    asked = GpuQuery({**os.environ, "CUDA_VISIBLE_DEVICES": "1"}, folder=tmp_path)
    asked._running.wait(10)
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-a", "compute_capability": "9.0", "memory_mib": 143771, "mig": "off"}
    answer = {
        "outcome": "ok", "driver": "580.159.04", "cuda": 13010,
        "gpus": [{"index": 0, "error": "GPU is lost"}, {"index": 1, **gpu}],
    }  # fmt: skip
    (tmp_path / "nvml.json").write_text(json.dumps(answer))
    asked._running.wait = lambda timeout: None  # type: ignore[method-assign,assignment,return-value]
    seen = FactSet(asked.facts(10, hint=None))

    assert seen.value("driver.cuda") == "13.1"
    assert seen.value("gpu.1.memory_mib") == 143771
    assert seen.fact("gpu.0.compute_capability").state == Unknown("GPU is lost")
    assert (seen.value("gpu.0.visible"), seen.value("gpu.1.visible")) == (False, True)


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, {0, 1}),
        ("", set()),
        ("1", {1}),
        ("1,0", {0, 1}),
        ("GPU-bb", {1}),
        ("GPU-", set()),
        ("0,7,1", {0}),
        ("-1", set()),
        ("NoDevFiles", set()),
    ],
)
def test_visible_devices(variable: str | None, seen: set[int]) -> None:
    """CUDA_VISIBLE_DEVICES by index and UUID prefix; CUDA stops at the first entry it does not know."""
    gpus = [{"index": 0, "uuid": "GPU-aaaa"}, {"index": 1, "uuid": "GPU-bbbb"}]

    assert _visible(variable, gpus) == seen


@pytest.mark.parametrize(("there", "state"), [(8, "unknown"), (0, "known")])
def test_gpus_that_a_job_may_not_open_are_not_absent(
    there: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver names no GPU to a job that asked for none, and its list in /proc has eight: nobody could look."""
    for number in range(there):
        (tmp_path / f"0000:{number:02x}:00.0").mkdir()
    monkeypatch.setattr(gpus, "_DRIVERS_LIST", tmp_path)
    query = object.__new__(gpus.GpuQuery)
    query._environment = {}
    notes = FactNotes()
    query._note(notes, {"gpus": [], "driver": "580.95.05", "cuda": 13000}, "NVML")
    facts = FactSet(notes.facts())

    assert facts.text("driver.version") == "580.95.05"
    listed = facts.fact("listed.gpu").state
    assert isinstance(listed, Unknown) == (state == "unknown")
    if isinstance(listed, Unknown):
        assert "8 GPUs are in the machine" in listed.reason
