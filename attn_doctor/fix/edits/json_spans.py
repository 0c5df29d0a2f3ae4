"""Finds the position of a key's value in a JSON text, with the standard decoder, member by member.

A dotted key is looked up literally first, then in the section named by its first part: `bf16.enabled`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attn_doctor.fix.refusal import Refused
from attn_doctor.quick_dataclasses import dataclass

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One `"key": value` of an object; positions in characters."""

    key: str
    value: Any
    key_start: int
    start: int
    end: int


def splices(text: str, key: str, value: str) -> tuple[list[tuple[int, int, str]], list[str]]:
    """(start, end, new text) in characters, and warnings. For a duplicate key the last one counts.

    Raises Refused.
    """
    members, opening = _members(text, 0)
    section, dot, inner = key.partition(".")
    if dot and all(one.key != key for one in members):
        return _in_section(text, members, section, inner, value)
    return _spans(text, members, opening, key, value)


def _in_section(
    text: str, members: list[Member], section: str, key: str, value: str
) -> tuple[list[tuple[int, int, str]], list[str]]:
    mine = [one for one in members if one.key == section]
    if not mine:
        raise Refused(f"the file has no section {section}")
    if not isinstance(mine[-1].value, dict):
        raise Refused(f"{section} is no section")
    inside, opening = _members(text, mine[-1].start)
    found, warnings = _spans(text, inside, opening, key, value)
    if len(mine) > 1:
        lines = ", ".join(str(text.count("\n", 0, one.key_start) + 1) for one in mine)
        warnings.insert(0, f"{section} stands in lines {lines}; the last one counts, and only that one is changed")
    return found, warnings


def _spans(
    text: str, members: list[Member], opening: int, key: str, value: str
) -> tuple[list[tuple[int, int, str]], list[str]]:
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
    # Separator as between the last two members, or as before the first one.
    before = text[members[-2].end : last.key_start] if len(members) > 1 else "," + text[opening + 1 : last.key_start]
    colon = text[last.key_start + len(json.dumps(last.key)) : last.start]
    return [(last.end, last.end, f"{before}{json.dumps(key)}{colon if ':' in colon else ': '}{written}")], []


def loaded(text: str) -> list[tuple[str, Any]]:
    """Every member in order, those of sections under dotted keys: to compare before with after."""
    found: list[tuple[str, Any]] = []
    for one in _members(text, 0)[0]:
        if isinstance(one.value, dict):
            found += [(f"{one.key}.{inner.key}", json.dumps(inner.value)) for inner in _members(text, one.start)[0]]
            found.append((f"{one.key}{{}}", ""))
        else:
            found.append((one.key, json.dumps(one.value)))
    return found


def _members(text: str, start: int) -> tuple[list[Member], int]:
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        match = _SPACE.match(text, at)
        assert match is not None
        return match.end()

    try:
        opening = skip(start)
        if text[opening] != "{":
            raise Refused("the file holds no keys")
        members = []
        at = skip(opening + 1)
        while text[at] != "}":
            key, end = decoder.raw_decode(text, at)
            begin = skip(skip(end) + 1)
            if not isinstance(key, str) or text[skip(end)] != ":":
                raise ValueError(key)
            value, after = decoder.raw_decode(text, begin)
            members.append(Member(key=key, value=value, key_start=at, start=begin, end=after))
            at = skip(after)
            if text[at] == ",":
                at = skip(at + 1)
        if start == 0 and skip(at + 1) != len(text):
            raise ValueError("more behind it")
    except (ValueError, IndexError, RecursionError):
        raise Refused("the file is not one JSON object") from None
    return members, opening
