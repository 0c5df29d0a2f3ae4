"""Task: compiles modules that lie in another folder than the one they will be imported from.

Request: {"files": [[SOURCE, PLACE], ...]}; the compiled code names PLACE. Writes compiled.json: {"compiled": [FILE,
...]}. A module that cannot be compiled has no compiled file, as after an installation.
"""

from __future__ import annotations

import py_compile
from typing import Any

from . import answers as _answers


def main(request: dict[str, Any], answers: str) -> None:
    found = []
    for source, place in request["files"]:
        try:
            compiled = py_compile.compile(source, dfile=place, doraise=True, quiet=2)
        except (py_compile.PyCompileError, OSError, ValueError, RecursionError):
            continue
        if compiled:
            found.append(compiled)
    _answers.write(answers, "compiled", {"compiled": found})
