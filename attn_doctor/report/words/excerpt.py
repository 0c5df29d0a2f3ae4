"""Quoted source in plain characters: line numbers, the line, dtypes at its end, underlines beneath."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.machine.printable import one_line
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report.language import say
from attn_doctor.report.words.cells import cells, cut, padded, wrapped
from attn_doctor.report.words.dtype_path import Cell, Line, Listing, Mark, short
from attn_doctor.report.words.places import shown

_CELL = 6


def lines(path: Listing, *, width: int) -> Iterator[tuple[str, str]]:
    """Lines of at most `width` columns, each with its tone: file, source, bad, note. No line is cut inside a path."""
    several = len({one.place.file for one in path.lines}) > 1
    digits = max((len(str(one.place.line)) for one in path.lines), default=1)
    before, said = "", set[str]()
    for one in path.lines:
        if several and one.place.file != before:
            before = one.place.file
            yield f"{'':{digits}} ::: {shown(one.place.file)}", "file"
        marks = tuple(replace(mark, words=say("the same")) if mark.words in said else mark for mark in one.marks)
        said |= {mark.words for mark in one.marks if mark.spans}
        yield from _line(replace(one, marks=marks), path.roles, digits=digits, width=width)


def _line(line: Line, roles: tuple[str, ...], *, digits: int, width: int) -> Iterator[tuple[str, str]]:
    gutter = f"{'':{digits}} |  "
    head = f"{line.place.line:>{digits}} |  "
    dtypes = _dtypes(line, roles)
    bad = any(cell.promoted or cell.refused for cell in line.cells.values())
    room = width - cells(head)
    source, moved = quoted(line.place.source, [span for mark in line.marks for span in mark.spans], room)
    beside = room - cells(dtypes) - 2
    if cells(source) <= beside:
        yield f"{head}{padded(source, beside)}  {dtypes}".rstrip(), "bad" if bad else "source"
    else:
        yield f"{head}{source}".rstrip(), "source"
        yield f"{gutter}{dtypes:>{room}}".rstrip(), "bad" if bad else "source"
    for mark in line.marks:
        yield from underlined(mark, source, moved, gutter=gutter, width=width)


def quoted(source: str, spans: list[tuple[int, int]], room: int) -> tuple[str, int]:
    """The part of a source line that fits, around what is underlined, and by how much it moved."""
    source = one_line(source)
    if cells(source) <= room:
        return source, 0
    first, last = min((begin for begin, _ in spans), default=0), max((end for _, end in spans), default=0)
    start = 0
    while start < first - 1 and cells(source[start:last]) > room - 2:
        start += 1
    part = ("…" + source[start + 1 :]) if start else source
    return (part if cells(part) <= room else cut(part, room - 1) + "…"), start


def underlined(mark: Mark, source: str, moved: int, *, gutter: str, width: int) -> Iterator[tuple[str, str]]:
    """The underline of a mark with its words, or the words alone where the expression is not on the line."""
    room = width - len(gutter)
    signs = [" "] * len(source)
    for begin, end in mark.spans:
        for at in range(max(begin - moved, 0), min(end - moved, len(source))):
            signs[at] = "^"
    line = "".join(sign * cells(under) for sign, under in zip(signs, source, strict=True)).rstrip()
    if line and len(line) + 1 + cells(mark.words) <= room:
        yield f"{gutter}{line} {mark.words}", "note"
        return
    if line:
        yield f"{gutter}{line}", "note"
    for words in wrapped(one_line(mark.words), room - 2):
        yield f"{gutter}  {words}", "note"


def _dtypes(line: Line, roles: tuple[str, ...]) -> str:
    """`q FP32  k fp16  v fp16  ✗`: capitals and a sign tell what colours tell."""
    words = []
    for role in roles:
        cell = line.cells.get(role)
        text = "" if cell is None else f"{role} {short(cell.dtype).upper() if _loud(cell) else short(cell.dtype)}"
        words.append(f"{text:<{len(role) + 1 + _CELL - 2}}")
    refused = any(cell.refused for cell in line.cells.values())
    return "  ".join(words) + ("  ✗" if refused else "   ")


def _loud(cell: Cell) -> bool:
    return cell.promoted or cell.refused
