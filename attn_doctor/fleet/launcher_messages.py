"""Assigns messages of the engine and of the nodes to the nodes they concern. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from attn_doctor.errors import BadInput
from attn_doctor.fleet.nodeset import unfold

_NODES_IN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]|\[[0-9,-]+\])*")


def because(
    engine_said: Sequence[str], node_said: Mapping[str, str], wanted: set[str], *, nothing_came: bool
) -> dict[str, str]:
    """Node -> message of the engine or the node, for the `wanted` nodes. When no report arrived, messages that name no
    node are included.
    """
    said: dict[str, list[str]] = defaultdict(list)
    general = []
    for line in engine_said:
        named = {
            name for word in set(_NODES_IN.findall(line)) for name in {word.rstrip(".,:-"), *_inside(word)} & wanted
        }
        for name in named:
            said[name].append(line.removeprefix(f"{name}: "))
        if not named and line.strip():
            general.append(line)
    for node, words in node_said.items():
        if node in wanted:
            said[node].append(words)
    if nothing_came:
        for node in wanted - set(said):
            said[node] = general[-3:]
    return {node: " / ".join(dict.fromkeys(lines[-3:])) for node, lines in sorted(said.items()) if lines}


def _inside(word: str) -> Iterable[str]:
    if "[" not in word:
        return ()
    try:
        return unfold(word.rstrip(".,:-"), about=word)
    except BadInput:
        return ()
