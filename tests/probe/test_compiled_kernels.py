"""Kernels that were compiled for a GPU that is not there, as facts, as findings and as text."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

from attn_doctor.diagnose.judge import judge
from attn_doctor.formats import kernels_v1
from attn_doctor.model.compiled_kernels import Compilation
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.vocabulary import term_of
from attn_doctor.probe.trace import compiled_kernels
from attn_doctor.recipes import shelf
from attn_doctor.report.terminal import kernels as kernels_text
from attn_doctor.report.terminal.console import ReportConsole

BACKENDS = [
    {"name": "fla-gla", "title": "fla GLA", "state": "runs"},
    {"name": "fla-gsa", "title": "fla GSA", "state": "runs"},
    {"name": "flex", "title": "FlexAttention", "state": "runs"},
]
PLAN: dict[str, Any] = {
    "gpu": {"name": "rtx4090", "compute_capability": "8.9"},
    "backends": BACKENDS,
    "to_compile": {"backends": ["fla-gla", "fla-gsa"], "why_not": None},
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


def collated(seen: list[dict[str, Any]]) -> Compilation:
    compiled = compiled_kernels.collate(PLAN, seen, "ended with status 0")
    assert compiled is not None
    return compiled


def text(compiled: Compilation) -> str:
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
        "left_out": {},
        "not_reached": 0,
    }
    stream = io.StringIO()
    trials = dataclasses.replace(kernels_v1.from_json(answer), compiled=compiled)
    kernels_text.write(trials, ReportConsole(stream), verbose=False)
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
    assert "not run: 1 of 1 kernels compile" in shown  # what was not reached is not called refused
    assert "fla GLA: 1 of 1 kernels compile" in shown


def test_nothing_to_compile_is_said() -> None:
    """Why nothing was compiled stands in the text, and no fact is made of it."""
    plan = {**PLAN, "to_compile": {"backends": [], "why_not": "Triton is not installed"}}
    compiled = compiled_kernels.collate(plan, [], "ended with status 0")
    assert compiled is not None

    assert compiled_kernels.facts(compiled) == ()
    assert "No kernel was compiled for rtx4090: Triton is not installed." in text(compiled)


CALLS: dict[str, Any] = {
    **PLAN,
    "backends": [*BACKENDS, {"name": "mine:attend", "title": "mine:attend", "state": "runs"}],
    "to_compile": {"backends": ["mine:attend", "flex"], "why_not": None},
}


def call(backend: str, outcome: str, words: str, **more: Any) -> dict[str, Any]:
    return {"kernel": "triton_tem_fused_flex_attention_0", "call": words, **kernel(outcome, **more), "place": ""}


def of_calls(seen: list[dict[str, Any]]) -> tuple[Compilation, FactSet]:
    compiled = compiled_kernels.collate(CALLS, seen, "ended with status 0")
    assert compiled is not None
    return compiled, FactSet(compiled_kernels.facts(compiled))


def findings(facts: FactSet) -> list[Any]:
    return list(judge(facts, [one for one in shelf.bundled() if one.library == "kernels"]).findings)


def test_calls_that_do_not_fit_are_one_warning_with_what_mends_them() -> None:
    """A head dimension that a model may never have is no error; the advice is what was seen to compile."""
    small = {"required_bytes": 114688, "message": "out of resource"}
    mended = "kernel_options={'BLOCK_M1': 32}"
    compiled, facts = of_calls(
        lines(
            ("mine:attend", []),
            (
                "flex",
                [
                    call("flex", "compiles", "bfloat16, head dim 64"),
                    call("flex", "exceeds shared memory", "bfloat16, head dim 192", **small),
                    call("flex", "exceeds shared memory", "bfloat16, head dim 256", mended_by=mended, **small),
                ],
            ),
        )
    )
    (found,) = findings(facts)
    shown = text(compiled)

    assert facts.value("listed.compiled") == 1
    assert facts.value("listed.kernel") == 0
    assert all(term_of(fact.name) for fact in facts.values())
    assert (found.id, str(found.severity.value)) == ("kernel-exceeds-shared-memory", "warning")
    assert "bfloat16, head dim 192; bfloat16, head dim 256" in found.title
    assert "114688 bytes needed, 101376 there" in found.what
    assert any(mended in str(remedy) for remedy in found.remedies)
    assert "1 of 3 kernels compile" in shown
    assert f"(bfloat16, head dim 256); compiles with {mended}" in shown


def test_blocks_are_advised_where_they_were_seen_to_compile() -> None:
    """A function of one's own has no such arguments, and none is made up."""
    seen = lines(("mine:attend", [call("mine:attend", "exceeds shared memory", "float32, head dim 256")]), ("flex", []))
    (found,) = findings(of_calls(seen)[1])

    assert [remedy.id for remedy in found.remedies] == ["fewer-bytes"]


def test_a_kernel_of_ones_own_that_is_refused() -> None:
    """It is a warning with the compiler's words, and says nothing about what was not reached."""
    told = "at 4:11:\nBoth operands must be same dtype. Got fp16 and fp32"
    compiled, facts = of_calls(
        lines(("mine:attend", [call("mine:attend", "refuses", "float16, head dim 64", message=told)]))
    )
    (found,) = findings(facts)
    state = facts.fact("listed.compiled").state

    assert found.id == "kernel-does-not-compile"
    assert "Both operands must be same dtype" in found.what
    assert isinstance(state, Unknown)
    assert "FlexAttention: the time was up" in state.reason
    assert "mine:attend" not in state.reason
    assert "FlexAttention: nothing compiled" in text(compiled)


def test_nothing_to_compile_is_not_that_it_compiles() -> None:
    """A function without a Triton kernel was looked at: nothing is open, and nothing is said to compile."""
    seen = lines(("mine:attend", []), ("flex", [call("flex", "compiles", "bfloat16, head dim 64")]))
    seen[1]["compiled"]["nothing"] = "it launched no Triton kernel in any of 9 calls"
    compiled, facts = of_calls(seen)
    shown = text(compiled)

    assert facts.value("listed.compiled") == 0
    assert findings(facts) == []
    assert "mine:attend: nothing to compile: it launched no Triton kernel in any of 9 calls" in shown
