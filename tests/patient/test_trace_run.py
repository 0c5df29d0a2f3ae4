"""The task trace_run, started as the doctor starts it."""

import json
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "trace" / "models.py"


@pytest.fixture
def asked(patient):
    """Runs one request; gives the answers by name."""
    pytest.importorskip("torch")

    def ask(timeout=120, **request):
        done = patient.run({"task": "trace_run", **request}, timeout=timeout)
        return done, patient.answers

    return ask


def test_answer_is_a_file(asked):
    """The answer is in trace.json; what the traced model prints does not touch it."""
    done, answers = asked(kind="factory", target=f"{MODELS}:printing_and_exiting")

    assert done.returncode == 0
    assert "a model that talks" in done.stdout
    assert answers["trace"]["error"]["kind"] == "exit"
    assert answers["started"]["pid"]


def test_death_leaves_progress(asked, tmp_path):
    """A program that leaves by os._exit leaves no answer, yet what was seen until then."""
    program = tmp_path / "dying.py"
    program.write_text(
        "import os, torch\n"
        "x = torch.ones(1, 2, 4, 8)\n"
        "torch.nn.functional.scaled_dot_product_attention(x, x, x)\n"
        "os._exit(7)\n"
    )
    done, answers = asked(kind="script", target=str(program))

    assert done.returncode == 7
    assert "trace" not in answers
    assert answers["progress"]["progress"]["attention_calls"] == 1
    assert answers["progress"]["outcome"] == "under way"


def test_no_torch(patient):
    """A patient without torch is told so in the answer, not by a traceback."""
    broken = patient.stub("torch", "raise ImportError('libcudart.so.12 is missing')")
    done = patient.run({"task": "trace_run", "kind": "script", "target": str(broken)})

    assert done.returncode == 0
    assert patient.answers["trace"]["error"]["kind"] == "library missing"
    assert "libcudart.so.12" in json.dumps(patient.answers["trace"]["error"])
