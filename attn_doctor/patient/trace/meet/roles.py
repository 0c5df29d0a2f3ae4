"""Finds q, k, v and the mask among a function's parameters, by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional

if TYPE_CHECKING:
    from ...arguments import Keywords, Positional

_ROLES = {
    "q": ("q", "query", "queries", "query_states", "query_layer", "xq", "q_"),
    "k": ("k", "key", "keys", "key_states", "key_layer", "xk", "k_"),
    "v": ("v", "value", "values", "value_states", "value_layer", "xv", "v_"),
    "mask": ("attn_mask", "attention_mask", "attn_bias", "bias", "mask"),
}
_RECEPTANCE = ("r", "receptance")
"""RWKV's name for its query."""


def roles_of(names: Iterable[str]) -> Optional[Dict[str, str]]:
    """role -> parameter name, or None unless q, k and v are all present."""
    given: List[str] = list(names)
    found: Dict[str, str] = {}
    for role, spellings in _ROLES.items():
        for spelling in spellings:
            if spelling in given:
                found[role] = spelling
                break
    if "q" not in found:
        for spelling in _RECEPTANCE:
            if spelling in given:
                found["q"] = spelling
    if not {"q", "k", "v"} <= set(found):
        return None
    return found


class Signature:
    """Binds a call's arguments to roles, without the cost of inspect at every call."""

    def __init__(self, names: List[str], roles: Dict[str, str]) -> None:
        self.positions = {role: names.index(name) for role, name in roles.items()}
        self.roles = roles

    @classmethod
    def of(cls, function: Any, skip: int = 0) -> Optional[Signature]:
        try:
            names = list(inspect.signature(function).parameters)[skip:]
        except (TypeError, ValueError):
            return None
        return cls.of_names(names)

    @classmethod
    def of_names(cls, names: List[str]) -> Optional[Signature]:
        roles = roles_of(names)
        return cls(names, roles) if roles is not None else None

    def bind(self, args: Positional, kwargs: Keywords) -> Dict[str, object]:
        found = {}
        for role, name in self.roles.items():
            position = self.positions[role]
            value = args[position] if position < len(args) else (kwargs or {}).get(name)
            if value is not None:
                found[role] = value
        return found
