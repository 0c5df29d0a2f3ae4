"""Finds one keyword of one call in a Python source with the parser, never by line numbers.

Used by the probe that reads the value in an installed package, and by the edit that changes it (fix/edits/keyword.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attn_doctor.quick_dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


class NotThere(Exception):
    """The source cannot be read, or does not contain exactly one such call; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A source with its syntax tree; positions are bytes in the whole file."""

    tree: ast.Module
    starts: tuple[int, ...]
    """Position of the start of each line."""

    def span(self, node: ast.expr) -> tuple[int, int]:
        """[start, end) of the node. The parser's columns count UTF-8 bytes."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )


def parsed(content: bytes) -> Parsed:
    """Parses the source. Raises NotThere when the parser fails, or counts lines differently."""
    skipped = len(_BOM) if content.startswith(_BOM) else 0
    source = content[skipped:]
    try:
        source.decode("utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotThere(f"it cannot be parsed: {type(error).__name__}") from None
    if b"\r" in source.replace(b"\r\n", b"") or b"\f" in source:
        raise NotThere("it has line breaks that the parser counts in another way")
    starts = [skipped, *(skipped + place + 1 for place, byte in enumerate(source) if byte == 10)]
    return Parsed(tree=tree, starts=tuple(starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """The value of a keyword, and its position [start, end) in bytes."""

    start: int
    end: int
    value: object


def keyword(content: bytes, function: str, call: str, name: str) -> Keyword:
    """The keyword `name` in the only call of `call` inside `function` (`f`, or `Class.method`).

    Raises NotThere, also when the value is not a literal.
    """
    source = parsed(content)
    bodies = list(_functions(source.tree, function.split(".")))
    if len(bodies) != 1:
        raise NotThere(f"it holds {len(bodies)} functions {function}, where one was expected")
    calls = [node for node in ast.walk(bodies[0]) if isinstance(node, ast.Call) and _dotted(node.func) == call]
    if len(calls) != 1:
        raise NotThere(f"{function} calls {call} {len(calls)} times, where once was expected")
    values = [one.value for one in calls[0].keywords if one.arg == name]
    if len(values) != 1:
        raise NotThere(f"{function} gives {call} no {name}")
    if not isinstance(values[0], ast.Constant):
        raise NotThere(f"{function} computes {name}")
    start, end = source.span(values[0])
    return Keyword(start=start, end=end, value=values[0].value)


def transposed_value(content: bytes) -> int | None:
    """Line of the first `tl.trans(...)` that is an operand of arithmetic or is stored, instead of passed to tl.dot.

    Raises NotThere when the source cannot be read.
    """
    lines = []
    for node in ast.walk(parsed(content).tree):
        used: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            used = [node.left, node.right]
        elif isinstance(node, ast.Call) and _dotted(node.func) == "tl.store":
            used = node.args
        lines += [one.lineno for one in used if isinstance(one, ast.Call) and _dotted(one.func) == "tl.trans"]
    return min(lines, default=None)


def _functions(node: ast.AST, names: list[str]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and child.name == names[0]:
            if len(names) > 1:
                yield from _functions(child, names[1:])
            elif not isinstance(child, ast.ClassDef):
                yield child
        elif isinstance(child, (ast.If, ast.Try, ast.With)):
            yield from _functions(child, names)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
