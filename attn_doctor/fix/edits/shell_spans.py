"""Finds where a shell script sets a key in its calls of LLaMA-Factory: `--key value`, `--key=value`, `key=value`."""

from __future__ import annotations

import re

from attn_doctor.fix.refusal import Refused
from attn_doctor.probe.configs.shell_calls import calls

_PLAIN = re.compile(r"[\w.-]+\Z")


def splices(script: str, key: str, value: str, line: int | None = None) -> tuple[list[tuple[int, int, str]], list[str]]:
    """(start, end, new text) in characters, and warnings, for the call that begins on this line; for every call when
    None.

    For a duplicate key in a call the last one counts. Raises Refused.
    """
    if not _PLAIN.match(value):
        raise Refused(f"{value!r} is no plain word for a shell")
    found = [call for call in calls(script) if line is None or call.line == line]
    if not found:
        raise Refused("no call of LLaMA-Factory was found in the script" + (f" in line {line}" if line else ""))
    edits = []
    warnings = []
    for call in found:
        mine = [one for one in call.arguments if one.key == key]
        if not mine:
            continue
        if mine[-1].value is None:
            raise Refused(f"{key} is set by a shell variable in line {mine[-1].line}")
        edits.append((mine[-1].start, mine[-1].end, value))
        if len(mine) > 1:
            lines = ", ".join(str(one.line) for one in mine)
            warnings.append(f"{key} stands in lines {lines}; the last one counts, and only that one is changed")
    if not edits:
        for call in found:
            end = call.words[-1].end
            edits.append((end, end, f" --{key} {value}" if call.dashed else f" {key}={value}"))
    return edits, warnings


def loaded(script: str, line: int | None = None) -> list[tuple[str, str | None]]:
    """Every argument, in order, of the call that begins on this line; of every call when None."""
    return [
        (one.key, one.value) for call in calls(script) if line is None or call.line == line for one in call.arguments
    ]
