"""Counts lines of code by folder: no docstrings, comments or blank lines. `python bench/code_lines.py [FOLDER ...]`"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Lines that hold at least a part of a statement which is no docstring."""
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        for one in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                used -= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return len(used)


def main(folders: list[str]) -> None:
    """Prints files and lines of code below each folder."""
    for folder in folders or ["attn_doctor", "tests"]:
        files: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        for file in sorted((ROOT / folder).rglob("*.py")):
            inner = file.relative_to(ROOT / folder).parts
            room = inner[0] if len(inner) > 1 else "."
            files[room] += 1
            lines[room] += code_lines(file.read_text())
        print(f"{folder}: {files.total()} files, {lines.total()} lines of code")
        for room, count in lines.most_common():
            print(f"  {count:6} {room} ({files[room]} files)")


if __name__ == "__main__":
    main(sys.argv[1:])
