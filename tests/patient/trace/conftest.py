"""One child process that answers trace requests, so that torch is imported once and no test's process is patched."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import attn_doctor
from attn_doctor.patient.libraries.contract import Kept
from attn_doctor.patient.simulate.cuda.simulated_gpu import Described
from attn_doctor.patient.trace.answer import Answer
from tests.installed import new_transformers
from tests.typed_dicts import differences

PATIENT = Path(attn_doctor.__file__).parent / "patient"
MODELS = Path(__file__).parent / "models.py"

WORKER = f"""
import importlib, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("_attn_doctor_patient", {str(PATIENT / "__init__.py")!r},
                                              submodule_search_locations=[{str(PATIENT)!r}])
sys.modules["_attn_doctor_patient"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
run = importlib.import_module("_attn_doctor_patient.trace.run.run")
import os
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # traced programs may print
for line in sys.stdin:
    request = json.loads(line)
    if "script" in request:
        scope = {{"answer": None}}
        exec(compile(request["script"], "<test>", "exec"), scope)
        answer = scope["answer"]
    else:
        answer = run.trace(request)
    out.write(json.dumps(answer) + "\\n")
    out.flush()
"""


class Tracer:
    """Answers requests (see patient/trace/__init__.py). `python` and `path` choose what is traced."""

    def __init__(self, python=sys.executable, path=()):
        import os

        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TRITON"))}
        environment["PYTHONPATH"] = os.pathsep.join(str(p) for p in path)
        # Compiled files may be written: several children import the same release of a library.
        environment["OMP_NUM_THREADS"] = "1"
        self.child = subprocess.Popen(
            [python, "-W", "ignore", "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def ask(self, request):
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        assert line, "the tracing process died"
        return json.loads(line)

    def __call__(self, factory, **options):
        """Trace `factory` of models.py, or of the file that `options` names; extra words are its arguments."""
        known = (
            "autocast",
            "dtype",
            "backward",
            "gpu",
            "rules",
            "calls",
            "stand_ins",
            "flash_attn_version",
            "counterfactual",
        )
        request = {name: options.pop(name) for name in known if name in options}
        file = options.pop("file", MODELS)
        words = {name: str(value) for name, value in options.items()}
        answer = self.ask({"kind": "factory", "target": f"{file}:{factory}", "kwargs": words, **request})
        assert list(differences(answer, Answer, {"Described": Described, "Kept": Kept})) == []
        return answer

    def run(self, script):
        """What a script run in the child left in `answer`."""
        return self.ask({"script": script})

    def close(self):
        self.child.stdin.close()
        self.child.wait(timeout=60)


@pytest.fixture(scope="session")
def traced():
    pytest.importorskip("torch")
    tracer = Tracer()
    yield tracer
    tracer.close()


@pytest.fixture(scope="session")
def with_transformers():
    """A tracer beside transformers 5.23.0: one for all files, for to import it takes seconds."""
    tracer = Tracer(path=[new_transformers()])
    yield tracer
    tracer.close()


def operand(answer, role, call=0):
    return answer["attention"][call]["operands"][role]


def culprit(answer, role, call=0):
    """The promotion that is blamed for an operand, or None."""
    number = operand(answer, role, call)["promotion"]
    return None if number is None else answer["promotions"][number]
