"""Where in a JSON text a top-level key's value stands: the standard decoder is walked along, member by member."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from attn_doctor.fix.refusal import Refused

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One `"key": value` of the outermost object; positions in characters."""

    key: str
    value: Any
    key_start: int
    start: int
    end: int


def splices(text: str, key: str, value: str) -> tuple[list[tuple[int, int, str]], list[str]]:
    """(start, end, new text) in characters, and warnings. Of a key that stands twice the last one counts.

    Raises Refused.
    """
    members, opening = _members(text)
    written = value if value in ("true", "false", "null") else json.dumps(value)
    mine = [one for one in members if one.key == key]
    if mine:
        if isinstance(mine[-1].value, (dict, list)):
            raise Refused(f"{key} holds a list or an object")
        lines = ", ".join(str(text.count("\n", 0, one.key_start) + 1) for one in mine)
        warnings = (
            [f"{key} stands in lines {lines}; the last one counts, and only that one is changed"]
            if len(mine) > 1
            else []
        )
        return [(mine[-1].start, mine[-1].end, written)], warnings
    if not members:
        return [(opening + 1, opening + 1, f"{json.dumps(key)}: {written}")], []
    last = members[-1]
    # Between members as between the last two, or as before the first one.
    before = text[members[-2].end : last.key_start] if len(members) > 1 else "," + text[opening + 1 : last.key_start]
    colon = text[last.key_start + len(json.dumps(last.key)) : last.start]
    return [(last.end, last.end, f"{before}{json.dumps(key)}{colon if ':' in colon else ': '}{written}")], []


def loaded(text: str) -> list[tuple[str, Any]]:
    """Every top-level member in order: for comparing before with after."""
    return [(one.key, json.dumps(one.value)) for one in _members(text)[0]]


def _members(text: str) -> tuple[list[Member], int]:
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        match = _SPACE.match(text, at)
        assert match is not None
        return match.end()

    try:
        opening = skip(0)
        if text[opening] != "{":
            raise Refused("the file holds no keys")
        members = []
        at = skip(opening + 1)
        while text[at] != "}":
            key, end = decoder.raw_decode(text, at)
            start = skip(skip(end) + 1)
            if not isinstance(key, str) or text[skip(end)] != ":":
                raise ValueError(key)
            value, after = decoder.raw_decode(text, start)
            members.append(Member(key=key, value=value, key_start=at, start=start, end=after))
            at = skip(after)
            if text[at] == ",":
                at = skip(at + 1)
        if skip(at + 1) != len(text):
            raise ValueError("more behind it")
    except (ValueError, IndexError, RecursionError):
        raise Refused("the file is not one JSON object") from None
    return members, opening
