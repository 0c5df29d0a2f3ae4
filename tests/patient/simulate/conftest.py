"""Tritons installed beside the environment of the tests, and scripts run with one of them.

A Triton is never imported into the process of the tests: several versions are looked at, and one process holds one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attn_doctor
from tests.installed import installed
from tests.warm import nursery

PATIENT = Path(attn_doctor.__file__).parent / "patient"
CHECKOUT = Path(attn_doctor.__file__).parent.parent

LOAD = f"""
import importlib.util, json, sys, tempfile
spec = importlib.util.spec_from_file_location("_attn_doctor_patient", {str(PATIENT / "__init__.py")!r},
                                              submodule_search_locations=[{str(PATIENT)!r}])
sys.modules["_attn_doctor_patient"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from _attn_doctor_patient.simulate import children
from _attn_doctor_patient.simulate.cuda import simulated_gpu, torch_cuda
from _attn_doctor_patient.simulate.triton import canary, cubin
from _attn_doctor_patient.simulate.triton import compile as triton_compile
from _attn_doctor_patient.simulate.triton import driver as triton_driver, record as triton_record
gpu = lambda text, **more: simulated_gpu.from_request({{"compute_capability": text, **more}})
scratch = tempfile.mkdtemp()
def answer(value):
    import shutil
    shutil.rmtree(scratch, ignore_errors=True)
    print("ANSWER" + json.dumps(value))
"""


def install(package, version):
    """A folder with that package alone, kept between runs; skips where the registry cannot be reached."""
    return installed(f"{package}=={version}")


class Beside:
    """Runs scripts with one Triton, or none, on the path."""

    def __init__(self, folder):
        self.folder = folder

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
        return {**kept, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, tmp_path, script, timeout=120, *, warm=False):
        """What `script` gave to answer(...). It has patient/ loaded, and is a file: Triton reads its source. `warm`:
        forked where torch and this Triton are imported."""
        file = tmp_path / "script.py"
        file.write_text(LOAD + script)
        if warm:
            ready = nursery("torch", "triton", path=str(self.folder))
            done = ready.run([file], env=self.environment(), cwd=tmp_path, timeout=timeout)
        else:
            done = subprocess.run(
                [sys.executable, str(file)],
                capture_output=True,
                text=True,
                timeout=timeout,
                env=self.environment(),
                cwd=tmp_path,
            )
        answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER")]
        assert answers, done.stdout[-2000:] + done.stderr[-4000:]
        return json.loads(answers[-1][len("ANSWER") :])


@pytest.fixture(scope="session")
def triton_beside():
    """beside(version): a Beside with that Triton."""
    return lambda version: Beside(install("triton", version))


@pytest.fixture(scope="session")
def triton(triton_beside):
    """The Triton that the everyday tests use."""
    return triton_beside("3.7.1")


@pytest.fixture(scope="session")
def packages():
    """packages(name, version): the folder with that package alone."""
    return install
