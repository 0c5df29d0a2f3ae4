"""Starting patient/ as a doctor does: another process, a request file, a folder of answers."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import attn_doctor
from tests.warm import nursery

BOOTSTRAP = Path(attn_doctor.__file__).parent / "patient" / "bootstrap.py"


class Patient:
    """An interpreter with stub packages on its path. `answers` holds what the last `run` left, by name."""

    def __init__(self, folder, python, *, warm=False):
        """`warm`: forked where torch is imported, for tests about what comes after that."""
        self.python = python
        self.warm = warm
        self.bootstrap = BOOTSTRAP
        self.stubs = folder / "stubs"
        self.answers_dir = folder / "answers"
        self.scratch = folder / "scratch"
        self.folder = folder
        for one in (self.stubs, self.answers_dir, self.scratch):
            one.mkdir()
        self.answers = {}
        self.seconds = 0.0

    def stub(self, name, source):
        """A package `name` whose __init__.py is `source`."""
        package = self.stubs / name
        package.mkdir()
        (package / "__init__.py").write_text(source)
        return package / "__init__.py"

    def run(self, request, timeout=60, env=None, arguments=None):
        """Run bootstrap.py with `request`; gives the finished process. A timeout ends it like the doctor would."""
        path = self.folder / "request.json"
        path.write_text(request if isinstance(request, str) else json.dumps(request))
        # As little as a login shell gives: what the tests' own surroundings set must not do the work of the code.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment = {**inherited, "PYTHONPATH": str(self.stubs), **(env or {})}
        words = [str(self.bootstrap), *(arguments or [str(path), str(self.answers_dir)])]
        started = time.monotonic()
        if self.warm:
            done = nursery("torch").run(words, env=environment, cwd=self.scratch, timeout=timeout)
        else:
            done = subprocess.run(
                [self.python, *words],
                capture_output=True, text=True, timeout=timeout, env=environment, cwd=self.scratch, check=False,
            )  # fmt: skip
        self.seconds = time.monotonic() - started
        self.answers = {p.stem: json.loads(p.read_text()) for p in self.answers_dir.glob("*.json")}
        return done

    def examine(self, *modules, timeout=10, **request):
        whole = {
            "task": "examine",
            "modules": modules,
            "timeout": timeout,
            "scratch": str(self.scratch),
            "torch": False,
            "sample": False,
            "simulated_gpu": None,
            "jobs": 4,
        }
        done = self.run({**whole, **request})
        assert done.returncode == 0, done.stderr
        return {name[len("import-") :]: a for name, a in self.answers.items() if name.startswith("import-")}


@pytest.fixture
def patient(tmp_path):
    """The interpreter of the tests."""
    return Patient(tmp_path, sys.executable)


@pytest.fixture
def warm_patient(tmp_path):
    """The same, forked from a process that has imported torch, and nothing else that a package could be."""
    return Patient(tmp_path, sys.executable, warm=True)


def find_python(version):
    """An interpreter of `version` ("3.9"): on PATH, or beside this one as pyenv and uv keep them. Skips without."""
    name = "python" + version
    beside = sorted(str(path) for path in Path(sys.base_prefix).parent.glob("*/bin/" + name))
    for candidate in [shutil.which(name), *beside]:
        # Asked, not trusted: what pyenv puts on PATH is there for versions that are not installed, too.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return pytest.skip("no Python " + version)


@pytest.fixture(params=["3.9", "3.13"])
def other_patient(request, tmp_path):
    """An older and a newer interpreter, without torch."""
    return Patient(tmp_path, find_python(request.param))
