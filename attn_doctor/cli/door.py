"""The door: every path that a person gives is made absolute here, once, before anything else sees it.

What a command starts runs in a private folder, a plan is kept and carried out from elsewhere, and a report is read on
another machine: none of them knows the folder that a relative path was meant from. Links stay as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.files import absolute, expanded

_PYTHON = re.compile(r"(python|pypy)[\d.]*")


def python(text: str) -> str:
    """An interpreter or environment: a path, or `python3.12` on PATH where no such file lies here."""
    if _PYTHON.fullmatch(text) and not os.path.lexists(expanded(Path(text))):
        from shutil import which  # not for every start

        found = which(text)
        if found is not None:
            return str(absolute(Path(found)))
    return str(absolute(Path(text)))


def output(text: str) -> str:
    """A file, or a folder where it ends with a slash, which stays."""
    return str(absolute(Path(text))) + ("/" if text.endswith("/") else "")


def link(text: str) -> str:
    """A folder of wheels, or an address."""
    return text if "://" in text else str(absolute(Path(text)))


#: Parameters that hold a path as text. Every other path is a `Path`, and known by that.
_TEXTS: Mapping[str, Callable[[str], str]] = {"python": python, "output": output, "find_links": link}


def entered(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a command, each path in them absolute.

    Raises OSError where one is relative and the current folder is gone.
    """
    return {name: _entered(name, value) for name, value in options.items()}


def holds_paths(name: str, value: Any) -> bool:
    """Whether a parameter that was read as this value holds paths."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    return name in _TEXTS or any(isinstance(one, Path) for one in values)


def entered_text(name: str, text: str) -> str:
    """One path as it was typed, for a parameter that holds paths."""
    return _TEXTS[name](text) if name in _TEXTS else str(absolute(Path(text)))


def _entered(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_entered(name, one) for one in value)
    if isinstance(value, Path):
        return absolute(value)
    if isinstance(value, str) and name in _TEXTS:
        return _TEXTS[name](value)
    return value
