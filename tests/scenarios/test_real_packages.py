"""Real packages from the registry, the two pairs of releases between which each trouble was mended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import HAS_TORCH, Doctor, Environment, clean_environment, make_environment

pytestmark = pytest.mark.registry

TROUBLES = {
    "x-transformers-rotary-fp32": "x-transformers==1.30.2",
    "fla-rwkv7-key-fp32": "flash-linear-attention==0.2.2",
}


def _with(folder: Path, *requirements: str) -> Environment:
    env = make_environment(folder / "environment", torch=HAS_TORCH)
    # Not their dependencies: what is asked here rests on metadata and files, and those are gigabytes.
    line = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--disable-pip-version-check",
    ]
    done = subprocess.run(
        [*line, "--target", str(env.site), *requirements],
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment(),
    )
    if done.returncode and "No module named pip" in done.stderr:
        pytest.skip("the Python that runs the tests has no pip")
    assert done.returncode == 0, done.stderr[-2000:]
    return env


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The last releases with the troubles."""
    return _with(tmp_path_factory.mktemp("before"), "x-transformers==1.30.1", "flash-linear-attention==0.2.1")


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The first releases without them."""
    return _with(tmp_path_factory.mktemp("after"), *TROUBLES.values())


@pytest.mark.parametrize("options", [("--quick",), ()], ids=["quick", "full"])
def test_both_troubles_are_named_with_their_cures(
    doctor: Doctor, before: Environment, options: tuple[str, ...]
) -> None:
    """Each finding stands at the package and offers the release that mends it, as a command to type."""
    run = doctor.check(before, "--timeout", 120, *options)

    for trouble, cure in TROUBLES.items():
        finding = run.findings[trouble]
        # Looked at as files they are hazards; a sample that ran into one makes it an error.
        assert finding["severity"] in (("warning",) if options else ("warning", "error"))
        assert Path(finding["locations"][0]["file"]).is_relative_to(before.site)
        assert cure in str(finding["remedies"][0]["actions"])


@pytest.mark.parametrize("options", [("--quick",), ()], ids=["quick", "full"])
def test_neither_is_named_after_the_cure(doctor: Doctor, after: Environment, options: tuple[str, ...]) -> None:
    """One patch release later both are looked at, and cleared."""
    run = doctor.check(after, "--timeout", 120, *options)

    assert not TROUBLES.keys() & run.findings.keys()
    assert TROUBLES.keys() <= set(run.report["cleared"])


def test_the_text_fits_what_the_report_says(doctor: Doctor, before: Environment) -> None:
    """A person reads both troubles, the place and the cure in the plain report."""
    words = doctor("check", "--quick", "--python", before.python).stdout

    for trouble, cure in TROUBLES.items():
        assert f"! {trouble}" in words
        assert cure in words


class TestAsIfThereWereAGpu:
    """`--gpu` on a machine that has none."""

    @pytest.fixture
    def patient(self, environment: Callable[..., Environment]) -> Environment:
        env = environment(torch=True)
        if not HAS_TORCH:
            pytest.skip("no torch to judge")
        return env

    @pytest.fixture(autouse=True)
    def cpu_build(self, doctor: Doctor, patient: Environment) -> None:
        """Only a CPU build of torch shows what is asked here."""
        if doctor.check(patient, "--quick").fact("torch.cuda") != "(absent) cuda = None":
            pytest.skip("torch is a GPU build")

    def test_a_cpu_build_is_an_error_on_an_h200(self, doctor: Doctor, patient: Environment) -> None:
        """Without a GPU it is a note and gates nothing; with one wanted it is the error it is."""
        without = doctor.check(patient, "--quick")
        wanted = doctor.check(patient, "--quick", "--gpu", "h200")

        if without.fact("listed.gpu") == 0:
            assert (without.findings["torch-cpu-build"]["severity"], without.status) == ("info", 0)
        assert (wanted.findings["torch-cpu-build"]["severity"], wanted.status) == ("error", 1)
        assert wanted.fact("gpu.0.compute_capability") == "9.0"
        assert "gpu.0.compute_capability" in wanted.report["assumed"]
        assert "bf16-unsupported-device" not in wanted.findings

    @pytest.mark.parametrize("name", ["t4", "Tesla T4", "sm_75"])
    def test_bf16_is_named_on_a_t4(self, doctor: Doctor, patient: Environment, name: str) -> None:
        """The capability decides, whatever the GPU is called."""
        run = doctor.check(patient, "--quick", "--gpu", name)

        assert run.fact("gpu.0.bf16_native") is False
        assert "bf16-unsupported-device" in run.findings

    def test_the_sample_runs_under_its_rules(self, doctor: Doctor, patient: Environment) -> None:
        """The dtypes that would reach the kernel are in the report, in words too."""
        run = doctor.check(patient, "--timeout", 120, "--gpu", "h200")

        cell = "sample.sdpa-cpu-bfloat16-autocast."
        assert run.fact(cell + "outcome") == "ran"
        assert run.fact(cell + "handed_dtypes") == ["float32", "float32", "bfloat16"]
        assert run.fact(cell + "kernel_dtypes") == ["bfloat16"] * 3
        assert "no GPU" in run.fact(cell + "rules")
