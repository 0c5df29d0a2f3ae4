"""Folds node names into the notation of clusters, `gpu[001-124,130]`, and unfolds them.

Uses ClusterShell when installed (`attn-doctor[fleet]`), with its groups and several brackets in a name; otherwise only
the last number of a name is folded, in the same notation.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from itertools import product
from typing import Any

from attn_doctor.errors import BadInput

#: Largest node set accepted: a larger one is a typing error and would fill the memory.
_MOST = 1_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_LAST_NUMBER = re.compile(r"(.*?)(\d+)(\D*)\Z", re.DOTALL)
_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def fold(names: Iterable[str]) -> str:
    """`n[1-3,7]` for n1 n2 n3 n7, in order; empty for no names."""
    wanted = sorted(set(names), key=_order)
    if not wanted:
        return ""
    library = _library()
    if library is not None and all(NAME.match(name) for name in wanted):
        try:
            return str(library.NodeSet.fromlist(wanted))
        except Exception:  # a name that ClusterShell parses differently: ours accepts any
            return _fold(wanted)
    return _fold(wanted)


def unfold(text: str, *, about: str) -> tuple[str, ...]:
    """The names of a set, in the order written.

    Raises BadInput when the text is not a node set.
    """
    hint = "Write node names as Slurm does: gpu[001-124,130],login1."
    library = _library()
    if any(int(last) - int(first) > _MOST for one in _BRACKET.findall(text) for first, last in _RANGE.findall(one)):
        raise BadInput(f"that is more than {_MOST:,} nodes", about=about, hint=hint)
    if library is not None:
        try:
            found = library.NodeSet(",".join(text.split()))
            if len(found) > _MOST:
                raise BadInput(f"that is more than {_MOST:,} nodes", about=about, hint=hint)
            names = tuple(str(name) for name in found)
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"that is no set of nodes: {error}", about=about, hint=hint) from None
    else:
        names = tuple(dict.fromkeys(name for part in _parts(text, about) for name in _unfold(part, about)))
    wrong = next((name for name in names if not NAME.match(name)), None)
    if wrong is not None or not names:
        said = "it is empty" if wrong is None else f"{wrong[:80]!r} is no node's name"
        raise BadInput(f"that is no set of nodes: {said}", about=about, hint=hint)
    return names


def _library() -> Any:
    try:
        return importlib.import_module("ClusterShell.NodeSet")
    except Exception:  # not installed, or broken: it is optional
        return None


def _order(name: str) -> tuple[str, str, int, int, str]:
    """Sort key: names that fold together are adjacent, by number; the padding distinguishes n1 from n01."""
    found = _LAST_NUMBER.match(name)
    if found is None or len(found[2]) > 18:
        return (name, "", 0, 0, "")
    before, digits, after = found.groups()
    return (before, after, int(digits), len(digits), name)


def _fold(ordered: list[str]) -> str:
    groups: dict[tuple[str, str], list[str]] = {}
    for name in ordered:
        before, after, _, width, _ = _order(name)
        key = (before, after) if width else (name, "")
        groups.setdefault(key, []).extend([name[len(before) : len(name) - len(after)]] if width else [])
    return ",".join(_folded(before, digits, after) for (before, after), digits in groups.items())


def _folded(before: str, digits: list[str], after: str) -> str:
    if len(digits) <= 1:
        return f"{before}{digits[0] if digits else ''}{after}"
    runs: list[list[str]] = []
    for number in digits:
        if runs and _follows(runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"{before}[{','.join(run[0] if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]{after}"


def _follows(one: str, other: str) -> bool:
    # 9 and 10 are neighbours, and so are 09 and 10, but not 9 and 010: a range is written with one width.
    padded = one.startswith("0") or other.startswith("0")
    return int(other) == int(one) + 1 and (len(one) == len(other) or not padded)


def _parts(text: str, about: str) -> list[str]:
    parts, depth, part = [], 0, ""
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign in ", \n\t" and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += sign
    if depth:
        raise BadInput("that is no set of nodes: a bracket is not closed", about=about)
    return [one for one in (*parts, part) if one]


def _unfold(part: str, about: str) -> Iterable[str]:
    pieces = _BRACKET.split(part)  # text, bracket, text, bracket, text
    choices = [[one] if place % 2 == 0 else _numbers(one, about) for place, one in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST:
        raise BadInput(f"that is more than {_MOST:,} nodes", about=about)
    return ("".join(one) for one in product(*choices))


def _numbers(text: str, about: str) -> list[str]:
    found: list[str] = []
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,9}))?)?", item.strip())
        if match is None:
            raise BadInput(f"that is no set of nodes: {item[:80]!r} is no range", about=about)
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        if int(last) < int(first) or step < 1 or (int(last) - int(first)) // step > _MOST:
            raise BadInput(f"that is no set of nodes: {item[:80]!r} is no range", about=about)
        width = len(first) if first.startswith("0") or len(first) == len(last) else 0
        found += [str(number).zfill(width) for number in range(int(first), int(last) + 1, step)]
    return found
