"""kernels/1: what was written is read back as it was, and what is damaged is told."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.formats import kernels_v1

_PROBE = Path(__file__).parent.parent / "probe"
RECORDED: dict[str, dict[str, Any]] = {
    name: json.loads((_PROBE / f"h200-{name}.json").read_text()) for name in ("kernels", "shares", "illegal-access")
}
PLAN: dict[str, Any] = {
    **RECORDED["kernels"],
    "ran": False,
    "cells": [],
    "gpus": [],
    "gpu_planned_for": {
        "name": "h100",
        "compute_capability": "9.0",
        "shared_memory_bytes": 232448,
        "memory_mib": None,
        "multi_processor_count": 132,
    },
    "would_run": [
        {"backend": "flex", "dtype": "float16", "head_dim": 64, "form": "gqa", "direction": "train", "variant": ""}
    ],
    "xid_meanings": {"31": {"meaning": "page fault", "blames": "program", "keep_out": False, "action": "look"}},
}


@pytest.fixture
def answer() -> dict[str, Any]:
    return copy.deepcopy(RECORDED["kernels"])


def again(answer: dict[str, Any]) -> Any:
    return json.loads(json.dumps(kernels_v1.to_json(kernels_v1.from_json(answer))))


@pytest.mark.parametrize("recorded", [*RECORDED.values(), PLAN], ids=[*RECORDED, "plan"])
def test_real_answers_come_back_as_they_were(recorded: dict[str, Any]) -> None:
    """Every key and value, in their order: also of reports by releases that wrote fewer keys."""
    assert json.dumps(again(recorded)) == json.dumps(recorded)


def test_what_compilers_said_comes_back(answer: dict[str, Any]) -> None:
    """Kernels of a layer and of a call have different keys."""
    told = {"outcome": "refuses", "message": "m", "cause": "", "required_bytes": None, "limit_bytes": 9}
    backend = {"name": "flex", "title": "Flex", "kernels": 2, "compile": 0, "not_reached": 0, "error": None}
    compiled = {
        "gpu": PLAN["gpu_planned_for"],
        "why_not": None,
        "backends": [backend, {**backend, "nothing": "no kernel"}],
        "kernels": [
            {"backend": "flex", "kernel": "k", **told, "call": "c", "mended_by": "x=1"},
            {"backend": "fla-gla", "kernel": "k", "place": "a.py:3", **told, "configurations": 2, "left_out": 1},
        ],
    }

    assert again({**answer, "compiled": compiled})["compiled"] == compiled


@pytest.mark.parametrize("name", ["speed", "share", "chosen", "reason"])
def test_no_answer_is_not_the_same_as_not_asked(answer: dict[str, Any], name: str) -> None:
    """A trial that found no memory to be timed says null; one that was not to be timed says nothing."""
    first, second = answer["cells"][:2]
    first[name] = None
    second.pop(name, None)
    cells = again(answer)["cells"]

    assert cells[0][name] is None
    assert name not in cells[1]


def test_keys_of_later_releases_are_left_aside(answer: dict[str, Any]) -> None:
    """They do no harm."""
    more = {**answer, "later": 1, "cells": [{**cell, "later": {}} for cell in answer["cells"]]}

    assert again(more) == again(answer)


@pytest.mark.parametrize("key", ["mode", "seed", "ran", "cells", "gpus", "backends", "would_run", "not_reached"])
@pytest.mark.parametrize("value", [{}, None, "x", 1.5, [1], True])
def test_damage_is_told(answer: dict[str, Any], key: str, value: Any) -> None:
    """A value of another type is no KeyError of a renderer later on."""
    if isinstance(value, type(answer[key])):
        return
    with pytest.raises(TypeError):
        kernels_v1.from_json({**answer, key: value})


@pytest.mark.parametrize("written", [None, [], "x", {"gpu": "0"}, {**RECORDED["kernels"]["cells"][0], "head_dim": "9"}])
def test_a_damaged_trial_is_told(written: Any) -> None:
    """As a missing key, or as a value of another type."""
    with pytest.raises((KeyError, TypeError)):
        kernels_v1.trial(written)


@pytest.mark.parametrize(
    ("written", "ran"), [({"ran": True}, True), ({"ran": False}, False), ({}, False), (None, None), ([], None)]
)
def test_whether_kernels_ran(written: Any, ran: bool | None) -> None:
    """Asked of thousands of reports, which are not read whole for it."""
    assert kernels_v1.ran(written) is ran
