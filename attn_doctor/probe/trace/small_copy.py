"""Runs a task of patient/ on a small copy of a model and reads its answer, which is rewritten as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import TargetUnusable
from attn_doctor.machine.target import Target, read_answer


def run_task(
    target: Target,
    task: str,
    answer_name: str,
    request: Mapping[str, Any],
    *,
    timeout: float,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The answer; a run that dies or takes too long still gives what it came to.

    Raises TargetUnusable when the interpreter cannot run it.
    """
    running, answers = target.start_in_patient(task, request, folder=folder)
    file = answers / f"{answer_name}.json"
    started = time.monotonic()
    try:
        while running.alive() and time.monotonic() - started < timeout:
            seen = read_answer(file) or {}
            say(f"examining a small copy: {len(seen.get('checks') or seen.get('regions') or ())} done")
            time.sleep(0.05)
    finally:
        completed = running.wait(0.5)
    answer = read_answer(file)
    how = f"took longer than {timeout:g} s" if completed.timed_out else completed.ended()
    if answer is None:
        last = completed.stderr.strip().splitlines()[-5:]
        raise TargetUnusable(
            f"the model {how} before anything was seen",
            about="\n".join([f"interpreter: {target.python}", *(f"  {line}" for line in last)]),
            hint="Try it without attn-doctor first; --timeout gives it longer.",
        )
    if answer["seconds"] is None and answer["error"] is None:
        answer["error"] = {"kind": "ended early", "message": f"the run {how}: the rest was not examined"}
    return answer
