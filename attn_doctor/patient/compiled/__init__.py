"""Attention regions of a model, eager against torch.compile, forward and backward, in several layouts.

Imports nothing itself. `run.examine(request)` answers one request. regions.py finds the modules that mix tokens and
what they are called with; judge.py compares; minimise.py cuts a wrong region down to a few lines; breaks.py lists graph
breaks and recompilations.

Request: as in ../semantics/__init__.py.

Answer (`compiled.json`), every key always there
    schema      "compiled/1"
    subject, cut, implementation, versions, error, seconds    as in ../semantics/__init__.py
    regions     [region]

region = {
    module, type, layer    as a culprit of ../semantics/__init__.py,
    at          place of its forward,
    same        paths of other modules of its class that are called alike, and were not compiled again
    outcome     "alike" | "wrong" | "raises" (under torch.compile alone) | "could not look",
    layouts     [{name, outcome, words, parts: {output or gradient: {eager, compiled, limit}}}];
                errors relative to float64
    stage       the first backend of torch.compile that is wrong: "eager" | "aot_eager" | "inductor"; None when none is
    fused       True when the fault is gone without Inductor's pattern matcher; None when that was not tried
    script      None, or a program of a few lines that shows it
    shown       the difference that the program printed here; None when it did not show it
    graphs      how many graphs were compiled in all layouts,
    breaks      [{reason, at: place}], recompilations: [reason]}
"""

from __future__ import annotations

from typing import Any, Dict

SCHEMA = "compiled/1"
ALIKE, WRONG, RAISES, COULD_NOT_LOOK = "alike", "wrong", "raises", "could not look"


def unanswered() -> Dict[str, Any]:
    """An answer in which everything is unknown."""
    return {
        "schema": SCHEMA,
        "subject": None,
        "cut": "",
        "implementation": None,
        "versions": {},
        "regions": [],
        "error": None,
        "seconds": None,
    }
