"""The `set-environment` steps of a plan: all its variables stand in the same activation files."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.fix.actions import environment
from attn_doctor.fix.choose import Chosen, left
from attn_doctor.fix.making import Making, actions, cured
from attn_doctor.fix.refusal import Refused


def set_environment(made: Making, chosen: list[Chosen]) -> None:
    """Adds a step for each activation file, or says why there is none."""
    wanted: dict[str, str] = {}
    cures: list[Chosen] = []
    for one in chosen:
        asked = [dict(action.arguments) for action in actions(one, "set-environment")]
        clash = [name for each in asked if wanted.get(name := str(each["name"]), str(each["value"])) != each["value"]]
        if clash:
            made.left.append(left(one.finding, f"another cure wants {clash[0]} to be {wanted[clash[0]]}"))
            continue
        wanted.update((str(each["name"]), str(each["value"])) for each in asked)
        cures.append(one)
    if not cures:
        return
    try:
        edits = environment.planned(Path(made.prefix), wanted)
    except (Refused, OSError) as error:
        reason = str(error.strerror if isinstance(error, OSError) else error)
        made.left += [left(one.finding, reason) for one in cures]
        return
    for edit in edits:
        made.add(edit, cures, tuple(cured(one) for one in cures))
