"""Parses an Itanium-mangled C++ name far enough to know its library, and which std::string it uses.

Not a demangler: the first part of the qualified name decides the library, and std::string appears as
`NSt7__cxx1112basic_string…` (the new ABI, since GCC 5) or as the abbreviation `Ss` (the old one). A name that
cannot be parsed is no evidence.

Grammar: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
Dual ABI: https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html
"""

from __future__ import annotations

import re
from enum import Enum


class StringAbi(str, Enum):
    """Which std::string: `_GLIBCXX_USE_CXX11_ABI=1` or `=0`."""

    NEW = "new"
    OLD = "old"


#: Prefixes before the name itself: of vtables, type infos, guards and thunks, and Z for a function's local entities.
_HEAD = re.compile(rb"_Z(?:T[VTISWHFJC]|T[hv][n0-9_]+|Tc(?:[hv][n0-9_]+){2}|G[VR])?Z?")
_NUMBER = re.compile(rb"[0-9]+")
_LITERAL = re.compile(rb"L[a-z]n?[0-9]+E")
_SUBSTITUTION = re.compile(rb"S(?:[abdiost]|[0-9A-Z]*_)")
_COUNTED = re.compile(rb"(?:A|Dv|DF)[0-9]*[_bx]|T[LD]?[0-9]*_|f[pL][0-9A-Z]*_|U[lt]")
_DISCRIMINATOR = re.compile(rb"E(?:_[0-9]|__[0-9]+_|[0-9]*_)")

_NEW_STRING = (b"NSt7__cxx1112basic_string", b"B5cxx11")


def qualified_name(symbol: bytes) -> tuple[bytes, ...]:
    """The parts of the name before template and function arguments: `at`, `cuda`, `warp_size`.

    Empty for a name that is not mangled; cut short at an operator or at template arguments.
    """
    head = _HEAD.match(symbol)
    if head is None:
        return ()
    at = head.end()
    nested = symbol[at : at + 1] == b"N"
    if nested:
        at += 1
        while symbol[at : at + 1] in (b"r", b"V", b"K", b"R", b"O") and at < len(symbol):
            at += 1
    parts: list[bytes] = []
    while at < len(symbol):
        if symbol.startswith(b"St", at):
            parts.append(b"std")
            at += 2
            if not nested:
                nested = True  # St is a prefix: the name in std follows
            continue
        if symbol[at : at + 1] == b"S":
            return (b"std",) if not parts else tuple(parts)
        if symbol[at : at + 1] == b"L":
            at += 1
            continue
        number = _NUMBER.match(symbol, at)
        if number is None:
            break
        end = number.end() + int(number[0][:6])
        if end > len(symbol):
            break
        parts.append(symbol[number.end() : end])
        at = end
        if not nested:
            break
    return tuple(parts)


def string_abi(symbol: bytes) -> StringAbi | None:
    """Which std::string the signature uses; None when it uses none or cannot be parsed."""
    new = any(mark in symbol for mark in _NEW_STRING)
    old = b"Ss" in symbol and _has_old_string(symbol)
    if new == old:
        return None
    return StringAbi.NEW if new else StringAbi.OLD


def _has_old_string(symbol: bytes) -> bool:
    """True when `Ss` is a type, in contrast to part of an identifier such as `ClassStack`."""
    head = _HEAD.match(symbol)
    if head is None:
        return False
    at, found = head.end(), False
    while at < len(symbol):
        for pattern in (_LITERAL, _DISCRIMINATOR, _COUNTED):
            token = pattern.match(symbol, at)
            if token is not None:
                at = token.end()
                break
        else:
            number = _NUMBER.match(symbol, at)
            if number is not None:
                length = int(number[0][:6])
                at = number.end() + length
                if not length or at > len(symbol) or symbol[number.end()] in b"0123456789":
                    return False
                continue
            letter = symbol[at : at + 1]
            if letter == b"S":
                substitution = _SUBSTITUTION.match(symbol, at)
                if substitution is None:
                    return False
                found = found or substitution[0] == b"Ss"
                at = substitution.end()
            elif letter in b"LX":
                return False  # literals of class type and expressions: not parsed
            else:
                at += 1
    return found
