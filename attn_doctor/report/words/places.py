"""Where a finding is: the line of source to point at, and how its file is named for a reader or a program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.model.facts import FactSet, Known
from attn_doctor.model.findings import Finding, Location
from attn_doctor.quick_dataclasses import dataclass

if TYPE_CHECKING:
    import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A line of source, the expression in it that a finding is about, and the facts that follow from it."""

    file: str
    line: int
    source: str
    marked: tuple[tuple[int, int], ...] = ()
    """Character ranges of `source` to underline."""
    call: str = ""
    """The operation that changed a dtype: `F.normalize`."""
    dtype_in: str = ""
    dtype_out: str = ""
    roles: tuple[str, ...] = ()
    born: str = ""
    """Where the wider dtype comes from, in words."""


def place_of(finding: Finding) -> Location | None:
    """The place to show first: one with a line, of the finding or of a symptom, before one without."""
    own, caused = finding.locations, [one for symptom in finding.symptoms for one in symptom.locations]
    return next((one for one in (*own, *caused) if one.line), own[0] if own else None)


def every_place(finding: Finding) -> tuple[Location, ...]:
    """All its places, the one to show first at the start."""
    first = place_of(finding)
    return tuple(dict.fromkeys((*((first,) if first else ()), *finding.locations)))


def quoted(finding: Finding, facts: FactSet) -> Quote | None:
    """The source line that a trace or a sample saw promote, for the finding or for a symptom of it."""
    names = {subject for one in (finding, *finding.symptoms) for subject in one.subjects}
    for subject in names:
        kind, _, number = subject.partition(" ")
        if kind != "promotion":
            continue
        quote = _promotion(f"promotion.{number}.", facts)
        place = place_of(finding)
        if quote is not None and place is not None and (place.line is None or place.line == quote.line):
            return quote
    # A finding whose evidence names the place of a promotion, such as the function of a library that promotes.
    named = " ".join(str(fact.state.value) for fact in finding.evidence if isinstance(fact.state, Known))
    for number in facts.subjects("promotion"):
        at = facts.text(f"promotion.{number}.place")
        if at and re.search(rf"(?<![\w/]){re.escape(at)}(?!\d)", named):
            return _promotion(f"promotion.{number}.", facts)
    return None


def _promotion(own: str, facts: FactSet) -> Quote | None:
    file, _, line = (facts.text(own + "place") or "").rpartition(":")
    source, call = facts.text(own + "source"), facts.text(own + "call") or ""
    if not source or not line.isdigit():
        return None
    roles = facts.value(own + "roles")
    return Quote(
        file=file,
        line=int(line),
        source=source,
        marked=expressions(source, call),
        call=call,
        dtype_in=facts.text(own + "dtype_in") or "",
        dtype_out=facts.text(own + "dtype_out") or "",
        roles=tuple(str(role) for role in roles) if isinstance(roles, tuple) else (),
        born=facts.text(own + "born") or "",
    )


#: Tensor methods that operators stand for: https://docs.python.org/3/reference/datamodel.html#emulating-numeric-types
_OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mult", "div": "Div", "truediv": "Div", "true_divide": "Div",
    "matmul": "MatMult", "pow": "Pow", "floordiv": "FloorDiv", "remainder": "Mod",
}  # fmt: skip


def expressions(source: str, call: str) -> tuple[tuple[int, int], ...]:
    """Character ranges of the expressions in a line of source that are such a call: `F.normalize`, `Tensor.mul`.

    A line alone does not show which of several was meant: then each is returned. Empty when the line is part of a
    longer statement or has none.
    """
    import ast

    name = re.sub(r"^_+r?|_+$", "", call.rpartition(".")[2])
    opener = source.rstrip()
    suffix = "\n    pass" if opener.endswith(":") else ""
    try:
        tree = ast.parse(opener + suffix)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = sorted(_matching(tree, name))
    outermost = [one for one in found if not any(_holds(other, one) for other in found)]
    encoded = source.encode(errors="surrogateescape")
    return tuple((len(encoded[:start].decode(errors="replace")), len(encoded[:end].decode(errors="replace")))
                 for start, end in outermost)  # fmt: skip


def _matching(tree: ast.AST, name: str) -> Iterator[tuple[int, int]]:
    import ast

    for node in ast.walk(tree):
        fits = False
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            fits = called.strip("_") == name
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            fits = type(node.op).__name__ == _OPERATORS.get(name)
        if fits and getattr(node, "lineno", 0) == getattr(node, "end_lineno", 0) == 1:
            assert isinstance(node, (ast.expr, ast.stmt))
            yield node.col_offset, node.end_col_offset or node.col_offset


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]


def below(file: str, folder: str | os.PathLike[str] | None = None) -> str | None:
    """The file's path relative to a folder (default: the current one); None when it is elsewhere."""
    try:
        here = Path.cwd()
        return (here / file).relative_to(Path(folder) if folder is not None else here).as_posix()
    except (ValueError, OSError):
        return None


def shown(file: str, line: int | None = None) -> str:
    """`model.py:17`; a file of an installed package from its package on: `x_transformers/x_transformers.py:480`."""
    near = below(file)
    package = re.search(r".*/(?:site|dist)-packages/(.+)", file)
    name = package[1] if package else near or file
    return f"{name}:{line}" if line else name


def environment(python: str) -> str:
    """The folder of the environment of an interpreter, as a person names it: `./.venv`; else the interpreter."""
    path = Path(python)
    if path.parent.name != "bin" or path.parent.parent == path.parent:
        return python
    folder = str(path.parent.parent)
    near = below(folder)
    return f"./{near}" if near and near != "." else folder


def shortened(words: str) -> str:
    """The words with the path of each file of an installed package from its package on."""
    return re.sub(r"/[^\s:;,]*/(?:site|dist)-packages/", "", words)
