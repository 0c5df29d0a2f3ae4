"""Runs one of the patient's programs under the dtype tracer of patient/ and reads its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.formats import trace_v1
from attn_doctor.machine.process import Completed
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.trace import Trace
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The trace, and the tracer's answer unchanged, for reports in JSON."""

    trace: Trace
    answer: Mapping[str, Any]
    stdout: str
    """The end of the traced program's output."""


def run_trace(
    target: Target,
    request: Mapping[str, Any],
    *,
    timeout: float,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
) -> Traced:
    """Traces a program; a run that dies or takes too long still reports how far it came.

    Raises BadInput when the named program cannot be traced, TargetUnusable when the interpreter cannot run it.
    """
    scratch = folder / "trace-scratch"
    scratch.mkdir()
    running, answers = target.start_in_patient("trace_run", {**request, "scratch": str(scratch)}, folder=folder)
    started = time.monotonic()
    try:
        while running.alive() and time.monotonic() - started < timeout:
            progress = read_answer(answers / "progress.json")
            if progress is not None:
                seen = progress.get("progress") or {}
                say(f"tracing: {seen.get('ops', 0)} ops, {seen.get('attention_calls', 0)} attention calls")
            time.sleep(0.05)
    finally:
        completed = running.wait(0.5 if (answers / "trace.json").exists() else 0.0)
    answer = read_answer(answers / "trace.json")
    if answer is None:
        answer = _cut_short(read_answer(answers / "progress.json"), completed, timeout, target)
    _add_last_words(answer, completed)
    try:
        trace = trace_v1.read(answer, read_answer(answers / "kernels.json"))
    except (KeyError, TypeError) as error:
        raise TargetUnusable(
            f"the tracer's answer cannot be read: {type(error).__name__}: {error}", about=str(target.python)
        ) from None
    return Traced(trace=trace, answer=answer, stdout=completed.stdout)


def _add_last_words(answer: dict[str, Any], completed: Completed) -> None:
    """Adds the end of standard error: a program that ends itself writes the reason there."""
    error = answer.get("error") or {}
    lines = completed.stderr.strip().splitlines()
    if error.get("kind") == "exit" and lines:
        error["words"] = f"{error['words']}; its last words: {lines[-1].strip()[:300]}"


def _cut_short(progress: dict[str, Any] | None, completed: Completed, timeout: float, target: Target) -> dict[str, Any]:
    """The answer for a run that ended without one, from its last progress report."""
    how = f"took longer than {timeout:g} s" if completed.timed_out else completed.ended()
    if progress is None:
        last = completed.stderr.strip().splitlines()[-5:]
        raise TargetUnusable(
            f"the traced run {how} before anything was seen",
            about="\n".join([f"interpreter: {target.python}", *(f"  {line}" for line in last)]),
            hint="Try it without the tracer first; --timeout gives it longer.",
        )
    seen = progress.get("progress") or {}
    last_place = seen.get("last") or {}
    where = f", to {last_place['file']}:{last_place['line']}" if last_place.get("file") else ""
    words = (
        f"the traced run {how}; when it was last heard of, about once a second, it had come through "
        f"{_many(seen.get('ops', 0), 'op')} and {_many(seen.get('attention_calls', 0), 'attention call')}{where}"
    )
    return {
        **progress,
        "outcome": "stopped",
        "error": {"kind": "hung" if completed.timed_out else "crashed", "words": words, "message": words},
    }


#: Errors of a trace that the user has to resolve: what was named does not exist or does not fit the command.
WRONG_INPUT = frozenset(
    {"factory not found", "factory without inputs", "factory returned something else", "config not found",
     "config not understood", "script not found", "usage"}
)  # fmt: skip


def check_input(trace: Trace, about: str) -> None:
    """Raises BadInput when the trace ended because of the user's input, TargetUnusable when the patient lacks
    something.
    """
    check_entry(trace.error_kind if trace.outcome == "could not run" else "", trace.error, about)
    if trace.error_kind in WRONG_INPUT:
        raise BadInput(trace.error, about=about, hint="`attn-doctor trace --help` shows what can be named.")


def check_entry(kind: str, words: str, about: str) -> None:
    """Raises BadInput for what cannot be run because of how it was named, TargetUnusable for what the patient lacks."""
    if kind in WRONG_INPUT:
        raise BadInput(words, about=about, hint="`attn-doctor trace --help` shows what can be named.")
    if kind in ("library missing", "no GPU"):
        raise TargetUnusable(words, about=about, hint="Name another environment with --python.")


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
