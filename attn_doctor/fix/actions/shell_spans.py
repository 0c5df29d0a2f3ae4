"""Where LLaMA-Factory's arguments stand in a shell script: `--key value`, `--key=value`, `key=value`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from attn_doctor.fix.actions.shell_words import Word, commands
from attn_doctor.fix.refusal import Refused

_CALL = re.compile(r"llamafactory|src/train|llmtuner")
_PAIR = re.compile(r"(-{0,2})([A-Za-z_][\w.]*)=", re.DOTALL)
_PLAIN = re.compile(r"[\w.-]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument; `start` and `end` enclose its value, without quotes around it."""

    key: str
    value: str | None
    start: int
    end: int
    line: int


def splices(script: str, key: str, value: str) -> tuple[list[tuple[int, int, str]], list[str]]:
    """(start, end, new text) in characters, and warnings: one for each call that sets the key.

    In a call that sets it twice the last one counts. Raises Refused.
    """
    if not _PLAIN.match(value):
        raise Refused(f"{value!r} is no plain word for a shell")
    calls = [found for found in map(_called, commands(script)) if found]
    if not calls:
        raise Refused("no call of LLaMA-Factory was found in the script")
    edits = []
    warnings = []
    for call in calls:
        mine = [one for one in _arguments(call, script) if one.key == key]
        if not mine:
            continue
        if mine[-1].value is None:
            raise Refused(f"{key} is set by a shell variable in line {mine[-1].line}")
        edits.append((mine[-1].start, mine[-1].end, value))
        if len(mine) > 1:
            lines = ", ".join(str(one.line) for one in mine)
            warnings.append(f"{key} stands in lines {lines}; the last one counts, and only that one is changed")
    if not edits:
        for call in calls:
            end = call[-1].end
            dashed = any(word.text.startswith("--") for word in call)
            edits.append((end, end, f" --{key} {value}" if dashed else f" {key}={value}"))
    return edits, warnings


def loaded(script: str) -> list[tuple[str, str | None]]:
    """Every argument of every call in order: for comparing before with after."""
    return [
        (one.key, one.value)
        for call in (found for found in map(_called, commands(script)) if found)
        for one in _arguments(call, script)
    ]


def _called(words: list[Word]) -> list[Word]:
    """The words from LLaMA-Factory's name on; none where the command is another one."""
    if words and words[0].text in ("echo", "printf", "export", "alias", "cd", "source", "."):
        return []
    start = next((i for i, word in enumerate(words) if _CALL.search(word.text) and not _PAIR.match(word.text)), None)
    return [] if start is None else words[start:]


def _arguments(call: list[Word], script: str) -> list[Argument]:
    found = []
    rest = call[1:]
    for number, word in enumerate(rest):
        match = _PAIR.match(word.text)
        if match:
            found.append(_argument(match[2], word, match.end(), script))
        elif word.text.startswith("--"):
            following = rest[number + 1] if number + 1 < len(rest) else None
            if following is None or following.text.startswith("--") or _PAIR.match(following.text):
                # a switch: its value would stand behind it
                place = script.count("\n", 0, word.places[0]) + 1
                found.append(Argument(key=word.text[2:], value=None, start=word.end, end=word.end, line=place))
            else:
                found.append(_argument(word.text[2:], following, 0, script))
    return found


def _argument(key: str, word: Word, skip: int, script: str) -> Argument:
    places = word.places[skip:]
    line = script.count("\n", 0, (word.places or [word.end])[0]) + 1
    if not places:
        return Argument(key=key, value=None, start=word.end, end=word.end, line=line)
    start, end = places[0], places[-1] + 1
    changes = any(index >= skip for index in word.expands)
    # A value with quotes or escapes inside is not one run of characters: nothing a program should rewrite.
    whole = end - start == len(places)
    return Argument(key=key, value=word.text[skip:] if whole and not changes else None, start=start, end=end, line=line)
