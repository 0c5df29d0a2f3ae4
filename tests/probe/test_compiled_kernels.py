"""Kernels that were compiled for a GPU that is not there, as facts, as findings and as text."""

from __future__ import annotations

import io
from typing import Any

from attn_doctor.cookbook import shelf
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.vocabulary import term_of
from attn_doctor.probe import compiled_kernels
from attn_doctor.report import kernels_text
from attn_doctor.report.console import ReportConsole

BACKENDS = [
    {"name": "fla-gla", "title": "fla GLA", "state": "runs"},
    {"name": "fla-gsa", "title": "fla GSA", "state": "runs"},
    {"name": "flex", "title": "FlexAttention", "state": "runs"},
]
PLAN: dict[str, Any] = {
    "gpu": {"name": "rtx4090", "compute_capability": "8.9"},
    "backends": BACKENDS,
    "to_compile": {"backends": ["fla-gla", "fla-gsa"], "why_not": None, "not_looked_at": ["flex"]},
}


def kernel(outcome: str, **more: Any) -> dict[str, Any]:
    return {
        "kernel": "fla.ops.common.chunk_h:chunk_fwd_kernel_h",
        "place": "/env/fla/ops/common/chunk_h.py:300",
        "outcome": outcome,
        "message": "",
        "cause": "",
        "required_bytes": None,
        "limit_bytes": 101376,
        **more,
    }


def lines(*told: tuple[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        line
        for name, kernels in told
        for line in ({"begun": name}, {"compiled": {"backend": name, "error": None, "kernels": kernels}})
    ]


def collated(seen: list[dict[str, Any]]) -> dict[str, Any]:
    compiled = compiled_kernels.collate(PLAN, seen, "ended with status 0")
    assert compiled is not None
    return compiled


def text(compiled: dict[str, Any]) -> str:
    answer = {
        "mode": "full",
        "seed": 1,
        "budget": 90.0,
        "ran": False,
        "why_not": "torch sees no GPU",
        "gpu_planned_for": PLAN["gpu"],
        "gpus": [],
        "backends": BACKENDS,
        "cells": [],
        "would_run": [],
        "not_offered": [],
        "compiled": compiled,
    }
    stream = io.StringIO()
    kernels_text.write(answer, ReportConsole(stream), verbose=False)
    return " ".join(stream.getvalue().split())


def test_the_same_kernel_of_two_backends_is_two_subjects() -> None:
    """GLA and GSA launch one function: what becomes of it is told for each, and known once all were reached."""
    told = "at 4:11:\nBoth operands must be same dtype. Got fp16 and fp32"
    compiled = collated(lines(("fla-gla", [kernel("compiles")]), ("fla-gsa", [kernel("refuses", message=told)])))
    facts = FactSet(compiled_kernels.facts(compiled))

    assert facts.value("listed.kernel") == 2
    assert sorted(str(f.state.value) for f in facts.values() if f.name.attribute == "outcome") == [
        "compiles",
        "refuses",
    ]
    assert all(term_of(fact.name) for fact in facts.values())
    found = judge(facts, [one for one in shelf.bundled() if one.library == "triton"]).findings
    assert [one.id for one in found] == ["triton-operand-dtype"]


def test_shared_memory_is_a_finding_and_is_shown() -> None:
    """A kernel that does not fit is told with both numbers, and nothing is claimed to have run."""
    broken = kernel("exceeds shared memory", message="out of resource", required_bytes=180224)
    compiled = collated(lines(("fla-gla", [kernel("compiles"), broken]), ("fla-gsa", [kernel("compiles")])))
    facts = FactSet(compiled_kernels.facts(compiled))
    found = judge(facts, [one for one in shelf.bundled() if one.library == "triton"]).findings
    shown = text(compiled)

    assert [one.id for one in found] == ["triton-shared-memory-exceeded"]
    assert "compiled for rtx4090, not run: 2 of 3 kernels compile" in shown
    assert "180224 bytes needed, 101376 there" in shown
    assert "FlexAttention is compiled when it is called; whether it compiles for rtx4090 was not looked at" in shown
    assert "✓" not in shown


def test_what_was_not_reached_leaves_one_question_open() -> None:
    """Kernels and backends out of time make the list unknown, say so in the text, and are no facts of their own."""
    late = [kernel("could not look", message="the time was up")] * 3
    compiled = collated(lines(("fla-gla", [kernel("compiles"), *late])))
    facts = FactSet(compiled_kernels.facts(compiled))
    state = facts.fact("listed.kernel").state
    shown = text(compiled)

    assert isinstance(state, Unknown)
    assert "3 of 4" in state.reason
    assert "fla GSA: the time was up" in state.reason
    assert [f.state for f in facts.values() if f.name.attribute == "outcome" and isinstance(f.state, Unknown)] == []
    assert "not reached within 90 s: 3 kernels" in shown
    assert "fla GSA: nothing compiled" in shown


def test_nothing_to_compile_is_said() -> None:
    """Why nothing was compiled stands in the text, and no fact is made of it."""
    plan = {**PLAN, "to_compile": {"backends": [], "why_not": "Triton is not installed", "not_looked_at": []}}
    compiled = compiled_kernels.collate(plan, [], "ended with status 0")
    assert compiled is not None

    assert compiled_kernels.facts(compiled) == ()
    assert "No kernel was compiled for rtx4090: Triton is not installed." in text(compiled)
