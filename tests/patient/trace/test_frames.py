"""Finding the user's line in a Python stack."""

from __future__ import annotations

import importlib.util
from pathlib import Path

# Loaded by its path: the package around it has the private name that it bears in a patient.
_FILE = Path(__file__).resolve().parents[3] / "attn_doctor" / "patient" / "trace" / "record" / "frames.py"


def _frames():
    spec = importlib.util.spec_from_file_location("frames_under_test", _FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_shallow_stack() -> None:
    """Asked for a frame that is not there, as in autograd's own thread on a GPU, the outermost one answers."""
    frames = _frames()

    assert frames.caller(10_000).f_back is None
    assert frames.caller(0).f_code.co_name == "test_a_shallow_stack"
