"""Columns of a terminal: a Chinese character fills two. Padding, cutting and wrapping count these."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from attn_doctor.quick_patterns import when_used

#: What no line begins with, and what none ends with: https://www.w3.org/TR/clreq/#prohibition_rules_for_line_start_end
_NO_START, _NO_END = frozenset("，。、；：？！）》】」』”’…%,.;:!?)]}"), frozenset("（《【「『“‘([{")
#: A path, which is not broken, whatever it is written in; a slash between Chinese words begins none.
_PATH = r"(?:~|\.{1,2}|[\w.@+-]*[A-Za-z0-9.@+-])?(?<![\u3400-\u9fff])/[^\s，。；：、（）《》“”]+"
_PIECES = when_used(
    rf"\s+|{_PATH}|[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]|"
    r"[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]+"
)


def cells(text: str) -> int:
    """The columns that the text fills."""
    if text.isascii():
        return len(text)
    return sum(_of(sign) for sign in text)


def _of(sign: str) -> int:
    from rich.cells import cell_len  # not for what is all ASCII: a hook's line needs no table

    return cell_len(sign)


def padded(text: str, width: int) -> str:
    """The text, filled with blanks up to that many columns."""
    return text + " " * (width - cells(text))


def cut(text: str, width: int) -> str:
    """As many characters of the text as fit into the columns."""
    if text.isascii():
        return text[:width]
    used = 0
    for at, sign in enumerate(text):
        used += _of(sign)
        if used > width:
            return text[:at]
    return text


def wrapped(text: str, width: int) -> tuple[str, ...]:
    """The text in lines of that many columns, broken at blanks and between Chinese characters.

    What is longer, such as a path, stays whole on a line of its own.
    """
    if text.isascii() or cells(text) == len(text):
        return tuple(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)) or ("",)
    return tuple(text[start:end].strip() for start, end in spans(text, width)) or ("",)


def spans(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where the lines of such a text begin and end in it, blanks at their ends included."""
    start = end = used = 0
    for begin, stop in _unbroken(text):
        size = cells(text[begin:stop].rstrip())
        if used and used + size > width:
            yield start, end
            start, used = begin, 0
        used += cells(text[begin:stop])
        end = stop
    if end > start:
        yield start, end


def _unbroken(text: str) -> Iterator[tuple[int, int]]:
    """The parts between which a line may end."""
    begin = end = 0
    for piece in _PIECES.finditer(text):
        glued = piece[0].isspace() or piece[0][0] in _NO_START or (end > begin and text[end - 1] in _NO_END)
        if not glued and end > begin:
            yield begin, end
            begin = end
        end = piece.end()
    if end > begin:
        yield begin, end
