"""Completes the last line of a text that ends within the message of an import: what was imported stands above it.

Websites, terminals and people cut a log after so many characters. `ImportError: cann` then says nothing, and the line
of code above it says which name of which module was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from attn_doctor.diagnose.log.unit import Line
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

_CUT = when_used(r"\s*(?P<kind>ImportError|ModuleNotFoundError): ?(?P<rest>[A-Za-z][\w .']{0,80})$")
_SAID = {"ImportError": "cannot import name '", "ModuleNotFoundError": "No module named '"}
_FROM = when_used(r"\s*from (?P<module>[A-Za-z_][\w.]*) import \(?(?P<names>[\w, ]{1,400})")
_IMPORT = when_used(r"\s*import (?P<module>[A-Za-z_][\w.]*)")
#: Carets below a line of code.
_MARKS = when_used(r"\s*[\^~]+\s*$")


def completed(lines: Sequence[Line]) -> list[Line]:
    """The lines; the last one whole, where it breaks off within such a message."""
    told = [at for at, line in enumerate(lines) if line.text.strip() and not _MARKS.match(line.text)]
    if len(told) < 2:
        return list(lines)
    cut, code = told[-1], lines[told[-2]].text
    found = _CUT.match(lines[cut].text)
    whole = _whole(found["kind"], found["rest"], code) if found else None
    if found is None or whole is None:
        return list(lines)
    text = lines[cut].text
    made = replace(lines[cut], text=f"{text[: found.start('kind')]}{found['kind']}: {whole}")
    return [*lines[:cut], made, *lines[cut + 1 :]]


def _whole(kind: str, rest: str, code: str) -> str | None:
    """The message of which `rest` is the beginning, about what the line of code imports; None where it is none."""
    said = _SAID[kind]
    if not said.startswith(rest) and not rest.startswith(said):
        return None
    begun = rest[len(said) :]
    if "'" in begun:
        return None
    line = _FROM.match(code) or (_IMPORT.match(code) if kind == "ModuleNotFoundError" else None)
    if line is None:
        return None
    module = line["module"]
    if kind == "ImportError":
        names = [name.split(" as ")[0].strip() for name in line["names"].split(",")]
        name = next((name for name in names if name and name.startswith(begun)), None)
        return name and f"{said}{name}' from '{module}'"
    parts = module.split(".")
    paths = [".".join(parts[: at + 1]) for at in range(len(parts))]
    path = next((path for path in paths if path.startswith(begun)), None)
    return path and f"{said}{path}'"
