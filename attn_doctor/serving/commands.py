"""Runs a command of attn-doctor for a tool, in a process of its own, and reads its JSON.

A process of its own, because a command's signals, time limits and child processes belong to the main thread of one, and
because a call that an agent takes back has to end whatever it started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine.process import Running
from attn_doctor.machine.scratch import scratch

#: Seconds between two looks at whether the command has ended.
_LOOK = 0.05


async def answer(words: Sequence[str]) -> dict[str, Any]:
    """What the command writes as JSON, with its `exit_status`. The command ends when the call is cancelled.

    Raises AttnDoctorError with the command's own words where it wrote no JSON.
    """
    import anyio  # comes with the SDK

    with scratch() as folder:
        running = Running(
            [sys.executable, "-m", "attn_doctor", *words], folder=folder, name="command", start_in=Path.cwd()
        )
        try:
            while running.alive():
                await anyio.sleep(_LOOK)
        finally:
            ended = running.wait(0.0)
        # The whole of it: what `wait` keeps is only the end.
        text = (folder / "command.stdout").read_text(errors="replace")
    try:
        value = json.loads(text)
    except ValueError:
        what, _, rest = ended.stderr.strip().partition("\n")
        raise AttnDoctorError(
            what.removeprefix("attn-doctor: ") or f"the command {ended.ended}",
            about=rest.strip() or " ".join(("attn-doctor", *words)),
            hint="",
        ) from None
    return {"exit_status": ended.status, **value}
