"""Answers that an agent can read: the keys of the JSON formats, cut to a size, with a word on what was left out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from attn_doctor.machine.own_command import typed

#: Characters of JSON in an answer.
LARGEST = 20_000
#: Left out first, in this order, of what every command writes. The facts behind a finding stand in its evidence.
_LEAST = ("facts", "fingerprint", "volatile", "cohort", "cleared", "not_asked", "looked_for")
#: Then lists are cut to so many entries, texts to so many characters and tables to so many keys.
_CUTS = ((50, 2000, 200), (20, 1000, 100), (10, 500, 60), (5, 300, 40), (3, 150, 30), (1, 80, 20))
#: Names of what is missing that are listed.
_NAMED = 20
_LONGEST_NAME = 100


def bounded(answer: dict[str, Any], whole: Sequence[str]) -> dict[str, Any]:
    """The answer in at most LARGEST characters; `left_out` names what is missing, and the command that writes it all.

    `whole`: the words of that command.
    """
    command = typed(*whole)
    kept = {name: value for name, value in answer.items() if name not in _LEAST}
    missing = [name for name in _LEAST if answer.get(name)]
    found: list[str] = []
    cut = kept
    for limits in ((sys.maxsize,) * 3, *_CUTS):
        found = []
        cut = {name: _cut(value, name, limits, found) for name, value in kept.items()}
        told = _with_missing(cut, [*missing, *dict.fromkeys(found)], command)
        if _size(told) <= LARGEST:
            return told
    # Nothing that a command writes today comes here: a summary of it is better than a client that chokes.
    plain = {name: value for name, value in cut.items() if not isinstance(value, (dict, list))}
    return _with_missing(dict(list(plain.items())[:_NAMED]), [*missing, *dict.fromkeys(found)], command)


def _with_missing(cut: dict[str, Any], missing: list[str], command: str) -> dict[str, Any]:
    return {**cut, "left_out": {"of": missing[:_NAMED], "all": command}} if missing else cut


def _cut(value: Any, name: str, limits: tuple[int, int, int], met: list[str]) -> Any:
    """The value with what is longer than its limit cut; the names of it are added to `met`."""
    entries, characters, keys = limits
    if isinstance(value, dict):
        if len(value) > keys:
            met.append(f"{name}: {keys} of {len(value)}")
        return {key: _cut(one, f"{name}.{key}"[:_LONGEST_NAME], limits, met) for key, one in list(value.items())[:keys]}
    if isinstance(value, list):
        if len(value) > entries:
            met.append(f"{name}: {entries} of {len(value)}")
        return [_cut(one, name, limits, met) for one in value[:entries]]
    if isinstance(value, str) and len(value) > characters:
        met.append(name)
        return f"{value[:characters]}…"
    return value


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
