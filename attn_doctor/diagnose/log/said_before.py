"""What a log says above the frames of a traceback whose end was cut off.

ComfyUI prints the message first and its frames below it, its reports name class and message on two lines, loggers
write a sentence above the traceback, and people put the error into a title. Where the frames below have no exception
of their own, it is theirs: they tell whose code failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from attn_doctor.diagnose.log.unit import Line, Unit, UnitKind
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

#: ComfyUI's words, behind which the message stands, on the same line or the next one that is not empty.
SAYS_IT = when_used(r"!{1,3} ?Exception during processing ?!{1,3} ?[^\s!]|Error occurred when executing [^:\n]{1,100}:")
#: A report's two lines; `- ` and bold signs may have been taken away.
_CLASS = when_used(r"\s*(?:- )?\*{0,2}Exception Type:\*{0,2} ?(?P<name>(?:\w{1,60}\.){0,6}[A-Z]\w{1,60})\s*$")
_MESSAGE = when_used(r"\s*(?:- )?\*{0,2}Exception Message:\*{0,2} ?(?P<said>\S.*)?$")
_NAMES_ITS_CLASS = when_used(r"(?:\w{1,60}\.){0,6}[A-Z]\w{1,60}(?:Error|Exception): \S")
#: Lines between the frames and the message: its own further ones, blanks, and the headings of a report.
_MOST_BETWEEN = 14
_FAILED = frozenset("ECF")


def with_reported_exceptions(lines: Sequence[Line]) -> list[Line]:
    """The lines; a report's class and message on one line, as a traceback ends."""
    made = list(lines)
    for at in range(len(made) - 1):
        name = _CLASS.match(made[at].text) if "Exception Type" in made[at].text else None
        said = _MESSAGE.match(made[at + 1].text) if name else None
        if name and said:
            message = said["said"] or ""
            named = f"{name['name']}: {message}".rstrip(": ")
            text = message if _NAMES_ITS_CLASS.match(message) else named
            made[at], made[at + 1] = replace(made[at], text=""), replace(made[at + 1], text=text)
    return made


def add_with_what_was_said(made: list[Unit], frames: Unit) -> None:
    """Adds the frames to the units before them: as one with what was said above, where they have no exception of their
    own.
    """
    said = None if frames.exception or not made else _begins(made, frames)
    if said is not None:
        above = made[said:]
        frames = replace(
            frames,
            lines=(*(line for unit in above for line in unit.lines), *frames.lines),
            exception=next((unit.exception for unit in above if unit.exception), ""),
            message_at=0,
        )
        del made[said:]
    made.append(frames)


def _begins(made: Sequence[Unit], frames: Unit) -> int | None:
    """The index of the unit with which the message of the frames begins."""
    last = made[-1]
    if 0 < frames.first - last.last <= 2:
        if last.kind is UnitKind.MESSAGE and last.exception:
            return len(made) - 1
        if last.kind is not UnitKind.TRACEBACK and last.lines[0].level in _FAILED:
            return len(made) - 1
    for at in range(len(made) - 1, -1, -1):
        unit = made[at]
        if unit.kind is UnitKind.TRACEBACK or frames.first - unit.last > _MOST_BETWEEN:
            return None
        if SAYS_IT.match(unit.lines[0].text):
            return at
    return None


def under_its_title(made: list[Unit]) -> list[Unit]:
    """The same with the first message, where it is the only exception, as what ended the only traceback: a report's
    title says the error, and what is pasted below it was cut off before.
    """
    told = [unit for unit in made if unit.exception]
    cut_off = [unit for unit in made if unit.frames and not unit.exception]
    if len(told) != 1 or len(cut_off) != 1 or told[0] is not made[0] or made[0].kind is not UnitKind.MESSAGE:
        return made
    title, frames = made[0], cut_off[0]
    whole = replace(frames, lines=(*title.lines, *frames.lines), exception=title.exception, message_at=0)
    return [whole, *(unit for unit in made[1:] if unit is not frames)]
