"""The child process of the tracer's tests also examines semantics."""

import json
from pathlib import Path

import pytest

from tests.patient.trace.conftest import Tracer

PLANTED = Path(__file__).parent / "planted.py"

SCRIPT = """
import importlib
run = importlib.import_module("_attn_doctor_patient.semantics.run")
answer = run.examine(json.loads({request!r}))
"""


@pytest.fixture(scope="session")
def semantics():
    """Examine a factory of planted.py; extra words are its arguments."""
    tracer = Tracer()

    def examine(factory="decoder", **arguments):
        kwargs = {name: str(value) for name, value in arguments.items()}
        request = {"kind": "factory", "target": f"{PLANTED}:{factory}", "kwargs": kwargs}
        answer = tracer.ask({"script": "import json" + SCRIPT.format(request=json.dumps(request))})
        assert answer["error"] is None, answer["error"]
        return answer

    yield examine
    tracer.child.stdin.close()
    tracer.child.wait(20)
