"""What is said of a model's own calls, tried again by each kernel."""

from __future__ import annotations

from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fleet import extract
from attn_doctor.formats import calls_v1, kernels_v1
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.report.words import kernels, replayed

TITLES = {"sdpa-default": "SDPA, as torch picks", "sdpa-flash": "SDPA flash", "sdpa-math": "SDPA math"}


def trial(call: int, backend: str, ms: float | None, outcome: str = "right", **more: Any) -> dict[str, Any]:
    speed = {"ms": ms, "tflops": 1.0, "gbs": 1.0, "of_matmul": 0.1, "of_copy": 0.1, "memory_bytes": 3 << 20}
    return {
        "gpu": "0", "backend": backend, "dtype": "bfloat16", "head_dim": 64, "form": "causal", "direction": "train",
        "situation": f"call-{call}", "situation_words": f"your call {call} (model.py:8)", "rare": False, "calls": call,
        "used": backend == "sdpa-default", "outcome": outcome, **({} if ms is None else {"speed": speed}), **more,
    }  # fmt: skip


def answer(*cells: dict[str, Any]) -> dict[str, Any]:
    gpu = {"index": "0", "name": "NVIDIA H100", "compute_capability": "9.0", "ceilings": None, "memory": None,
           "stopped": None, "before": None, "load": None}  # fmt: skip
    return {
        "format": "kernels/1", "mode": "replay", "seed": 1, "budget": 90.0, "ran": True, "gpus": [gpu],
        "backends": [{"name": one, "title": title, "version": None, "state": "runs"} for one, title in TITLES.items()],
        "cells": list(cells), "would_run": [], "not_offered": [], "left_out": {}, "not_reached": 0, "why_not": None,
        "gpu_planned_for": None, "backends_asked": [], "dtypes_asked": [],
    }  # fmt: skip


def trials(*cells: dict[str, Any]) -> KernelTrials:
    return kernels_v1.from_json(answer(*cells))


def test_right_and_faster() -> None:
    """Times count as often as the model makes the call; one that takes a single call is no replacement."""
    told = trials(
        trial(1, "sdpa-default", 1.0, chosen="efficient"),
        trial(1, "sdpa-flash", 0.4),
        trial(1, "sdpa-math", 0.2),
        trial(2, "sdpa-default", 4.0, chosen="efficient"),
        trial(2, "sdpa-flash", 2.0),
    )

    assert replayed.summary(told, "0") == ("your model's calls: 2 of 2 right; SDPA flash 2.0x faster than what it uses")
    assert list(replayed.lines(told, "0"))[1] == (
        "your call 2 (model.py:8), 2 times, bf16, head dim 64, with gradients: SDPA flash right, 2 ms, 3 MiB; "
        "SDPA, as torch picks (efficient) right, 4 ms, 3 MiB, what it uses"
    )


def test_wrong_by_what_it_uses() -> None:
    """A call counts as right by the kernel that the model uses, and a wrong one is named with its line."""
    told = trials(trial(1, "sdpa-default", None, "wrong", troubles=["error"]), trial(1, "sdpa-flash", 0.4))

    assert replayed.summary(told, "0") == "your model's calls: 0 of 1 right"
    assert "your call 1 (model.py:8)" in kernels.troubles(told)[0].words
    assert kernels.alike(told) == []


@pytest.mark.parametrize(("other", "words"), [(0.98, "nothing that was tried is faster than what it uses"), (None, "")])
def test_no_faster_one(other: float | None, words: str) -> None:
    """Random variation is no advice, nor is a kernel that was not timed."""
    told = trials(trial(1, "sdpa-default", 1.0), trial(1, "sdpa-flash", other))

    assert replayed.summary(told, "0").partition("; ")[2] == words


def test_fleets_compare_times_of_own_calls() -> None:
    """More is faster, by call and kernel, so that a slow node stands out."""
    shares = extract._shares({"kernels": answer(trial(1, "sdpa-default", 2.0), trial(2, "sdpa-flash", 0.5))})

    assert shares == {"sdpa-default bfloat16 train call-1": 0.5, "sdpa-flash bfloat16 train call-2": 2.0}


CALL = {
    "name": "scaled_dot_product_attention", "library": "torch", "by_heads": True, "autocast": None, "trains": True,
    "shapes": {role: [2, 4, 8, 16] for role in "qkv"}, "dtypes": dict.fromkeys("qkv", "bfloat16"), "strides": {},
    "flags": {"causal": True, "gqa": False, "scale": None, "window": None, "softcap": None, "documents": None},
}  # fmt: skip


def test_a_record_is_read_again(tmp_path: Any) -> None:
    """What `trace --record` writes is what `check --replay` reads."""
    file = tmp_path / "calls.json"
    file.write_text(calls_v1.text_of({"forms": [CALL], "rules": {"torch": "2.13.0"}, "entry": {"words": "m.py:build"}}))

    assert calls_v1.read(file) == (CALL,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "not in the format calls/1"),
        ('{"format": "calls/1", "calls": []}', "no attention call"),
        ('{"format": "calls/1", "calls": [3]}', "its call 1 is damaged: it has no flags"),
        (calls_v1.text_of({"forms": [CALL, {**CALL, "shapes": {}}]}), "its call 2 is damaged: it has no shapes"),
        (calls_v1.text_of({"forms": [{**CALL, "strides": {"q": [1]}}]}), "the strides of q do not fit"),
        (calls_v1.text_of({"forms": [{**CALL, "shapes": {**CALL["shapes"], "k": [2, "x"]}}]}), "the shape of k"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_record(tmp_path: Any, text: str | None, words: str) -> None:
    """Each fault of a file is said, and no traceback is."""
    file = tmp_path / "calls.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(BadInput, match=words):
        calls_v1.read(file)
