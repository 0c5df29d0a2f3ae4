"""Validates the targets of edits in recipes: plain places and plain values, nothing that could become code or another
key.

Used when a recipe is read, and by fix/ again before an edit is planned.
"""

from __future__ import annotations

import re

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_LITERAL = re.compile(r"(True|False|None|-?\d{1,9}(\.\d{1,9})?|\"[\w .:/-]*\")\Z", re.ASCII)
_FILE = re.compile(r"[A-Za-z_]\w*(/[A-Za-z_]\w*)+\.py\Z", re.ASCII)
_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*\Z", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9_][\w.-]*\Z", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z")
#: Characters without a special meaning in any of the shells.
_VARIABLE_VALUE = re.compile(r"[A-Za-z0-9_.,:/=+-]*\Z")
#: Variables that decide which code programs load or run, or where packages come from: never a remedy.
_REACHES_TOO_FAR = re.compile(
    r"(LD_|DYLD_|PYTHON|PIP_|UV_|CONDA_|BASH_|GIT_|SSH_).*"
    r"|PATH|HOME|ENV|IFS|SHELL|SHELLOPTS|PS[0-4]|PROMPT_COMMAND|TMPDIR|VIRTUAL_ENV|EDITOR|PAGER|CC|CXX"
)


def keyword_fault(*, file: str, function: str, call: str, keyword: str, value: str) -> str:
    """What is wrong with a keyword edit, in words; empty when it is valid."""
    if not _FILE.match(file):
        return f"file: {file!r} is no plain path of a Python file inside a package"
    for key, name in (("function", function), ("call", call), ("keyword", keyword)):
        if not _DOTTED.match(name) or (key == "keyword" and "." in name):
            return f"{key}: {name!r} is no name"
    return "" if _LITERAL.match(value) else f"value: {value!r} is no literal that a program may write"


def setting_fault(key: str, value: str) -> str:
    """What is wrong with a `set-config`, in words; valid are a plain key, dotted for a section, and a single plain
    word.
    """
    if not _KEY.match(key):
        return f"key: {key!r} is no plain key"
    return "" if _VALUE.match(value) else f"value: {value!r} is no plain word"


def variable_fault(name: str, value: str) -> str:
    """What is wrong with a `set-environment`, in words; empty when it is valid."""
    if not _VARIABLE.match(name):
        return f"name: {name[:40]!r} is no name of a variable"
    if _REACHES_TOO_FAR.fullmatch(name):
        return f"name: {name} decides what programs load or run; no recipe sets that"
    return "" if _VARIABLE_VALUE.match(value) else f"value: {value[:40]!r} is more than a plain word to a shell"
