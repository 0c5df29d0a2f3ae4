"""Regions compiled for real: the fault of torch 2.13 is found and cut down, sound ones are clean.

Each needs a C++ compiler and a minute of it: by hand.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import needs_torch
from tests.patient.trace.conftest import Tracer

pytestmark = [
    needs_torch,
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles nothing for the CPU without g++"),
]
BLOCKS = Path(__file__).parent / "blocks.py"


@pytest.fixture(scope="module")
def compiled():
    tracer = Tracer()

    def examine(factory, **arguments):
        kwargs = {name: str(value) for name, value in arguments.items()}
        request = json.dumps({"kind": "factory", "target": f"{BLOCKS}:{factory}", "kwargs": kwargs, "budget": 900})
        script = (
            "import importlib, json\n"
            "run = importlib.import_module('_attn_doctor_patient.compiled.run')\n"
            f"answer = run.examine(json.loads({request!r}))"
        )
        answer = tracer.ask({"script": script})
        assert answer["error"] is None, answer["error"]
        return answer["regions"]

    yield examine
    tracer.child.stdin.close()
    tracer.child.wait(60)


@pytest.mark.parametrize(("factory", "arguments"), [("written", {}), ("called", {})])
def test_a_sound_block_is_alike(compiled, factory, arguments):
    (region,) = compiled(factory, **arguments)

    assert {one["outcome"] for one in region["layouts"]} == {"alike"}
    assert (region["script"], region["breaks"]) == (None, [])


def test_a_graph_break_is_listed_with_its_line(compiled):
    (region,) = compiled("called", broken=True)

    assert region["outcome"] == "alike"
    assert region["breaks"][0]["at"]["source"] == "torch._dynamo.graph_break()"


def test_the_permuted_key_is_found_and_cut_down(compiled):
    """https://github.com/pytorch/pytorch/issues/195320: one row, as many tokens as heads."""
    (region,) = compiled("written", permuted=True)

    assert region["outcome"] == "wrong"
    assert (region["stage"], region["fused"]) == ("inductor", True)
    assert region["shown"] > 0.1
    assert "linear" not in region["script"]
    assert len(region["script"].splitlines()) < 25
