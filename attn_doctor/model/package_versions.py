"""Names and version specifiers of Python packages, without packaging's specifiers: these import its wheel tags, logging
and subprocess, a tenth of the time of `check --quick`, and few specifiers need them.

tests/model/test_package_versions.py compares both.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

#: https://packaging.python.org/en/latest/specifications/name-normalization/
_BETWEEN = re.compile(r"[-_.]+")
#: https://packaging.python.org/en/latest/specifications/version-specifiers/, releases and what compares with them.
_RELEASE = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?")
_CLAUSE = re.compile(r"(<=|>=|<|>|==|!=|~=)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?")
_COMPARED: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def canonical_name(name: str) -> str:
    """`flash-attn` for Flash_Attn."""
    return _BETWEEN.sub("-", name).lower()


def is_version(text: str) -> bool:
    """Whether packaging can read it as a version."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def specifier_set(text: str) -> SpecifierSet:
    """Packaging's reading of a specifier. Raises ValueError."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(text)


@lru_cache(maxsize=8192)
def accepts(specifier: str, version: str) -> bool:
    """Whether the specifier accepts the version, pre-releases included.

    Raises ValueError when one of them cannot be read.
    """
    found = _plainly_accepts(specifier, version)
    if found is not None:
        return found
    from packaging.version import Version

    return specifier_set(specifier).contains(Version(version), prereleases=True)


def _plainly_accepts(specifier: str, version: str) -> bool | None:
    """The answer for a release and plain comparisons; None where packaging has to decide."""
    there = _RELEASE.fullmatch(version)
    if there is None:
        return None
    has = _numbers(there[1])
    accepted = True
    for text in specifier.split(","):
        clause = _clause(text.strip())
        if clause is None:
            return None
        sign, wanted, is_prefix = clause
        if sign == "~=":
            most = max(len(has), len(wanted))
            accepted &= _filled(has, most) >= _filled(wanted, most)
            sign, wanted, is_prefix = "==", wanted[:-1], True
        length = len(wanted) if is_prefix else max(len(has), len(wanted))
        accepted &= _COMPARED[sign](_filled(has, length), _filled(wanted, length))
    return accepted


def _clause(text: str) -> tuple[str, tuple[int, ...], bool] | None:
    """A comparison with a release: its sign, the release, and whether it ends with `.*`."""
    found = _CLAUSE.fullmatch(text)
    if found is None:
        return None
    sign, numbers, is_prefix = found[1], _numbers(found[2]), bool(found[3])
    valid = sign in ("==", "!=") if is_prefix else sign != "~=" or len(numbers) > 1
    return (sign, numbers, is_prefix) if valid else None


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _filled(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    """1.0 is 1.0.0."""
    return (*numbers, *(0,) * (length - len(numbers)))[:length]


def is_release(specifier: str) -> bool:
    """Whether it is one comparison with a release, which packaging would spell the same way."""
    return _clause(specifier) is not None and " " not in specifier


def named_versions(specifier: str) -> list[str]:
    """The versions that its `==` and `===` name. Raises ValueError."""
    clauses = specifier.split(",")
    if all(is_release(one) for one in clauses):
        return [one[2:] for one in clauses if one.startswith("==")]
    return [one.version for one in specifier_set(specifier) if one.operator in ("==", "===")]
