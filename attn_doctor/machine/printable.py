"""Makes foreign text safe to print: package names, versions, log lines, host names, environment variables, exceptions.

Such text may contain an escape sequence that repaints the terminal, a carriage return that hides the text before it, or
characters that change the direction of writing. Every renderer uses this module.

Removed are the C0 and C1 control characters, the bidirectional controls of Unicode
(https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters), its line separators, and its invisible tags.
Newlines stay, unless `one_line` is used.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

_ESCAPES = "attn-doctor-json-escapes"
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    """The text with each unsafe character spelled out (`\\x1b`); a tab becomes four spaces, newlines stay."""
    if "\t" in text:
        text = text.replace("\t", "    ")
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same in one line, with single spaces and without invisible characters (`str.isprintable`)."""
    words = harmless(" ".join(text.split()))
    if words.isprintable():
        return words
    return "".join(sign if sign.isprintable() else _spell(ord(sign)) for sign in words)


def json_text(value: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON as `json.dumps` writes it, with unsafe characters as JSON escapes: the values stay the same."""
    import json

    text = json.dumps(value, indent=indent, separators=(",", ":") if compact else None, ensure_ascii=False)
    # Apart from newlines and tabs of the layout, unsafe characters can only occur inside strings.
    return _UNSAFE.sub(_escaped, text)


def json_pieces(value: Any, *, indent: int) -> Iterator[str]:
    """The same text in pieces: that of a hundred thousand nodes is never in memory as a whole."""
    import itertools
    import json

    written = json.JSONEncoder(indent=indent, ensure_ascii=False).iterencode(value)
    while piece := "".join(itertools.islice(written, 4096)):
        yield _UNSAFE.sub(_escaped, piece)


def _spelled(found: re.Match[str]) -> str:
    return _spell(ord(found[0]))


def _spell(sign: int) -> str:
    return f"\\x{sign:02x}" if sign < 0x100 else f"\\u{sign:04x}" if sign < 0x10000 else f"\\U{sign:08x}"


def _escaped(found: re.Match[str]) -> str:
    return _json_escapes(found[0])


def _json_escapes(signs: str) -> str:
    units = signs.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _unencodable(error: UnicodeError) -> tuple[str, int]:
    """What a stream cannot encode, as JSON spells it; Python's own backslashreplace writes `\\xd7`, no JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _json_escapes(error.object[error.start : error.end]), error.end


class HarmlessStream(io.TextIOWrapper):
    """Standard output or standard error that makes all text written to it safe."""

    def write(self, text: str) -> int:
        """Makes the text safe and writes it."""
        super().write(harmless(text))
        return len(text)

    def write_ours(self, text: str) -> int:
        """Writes the text unchanged, for a renderer that made its text safe and adds colours."""
        return super().write(text)


class Ours:
    """A stream that writes unchanged text to a HarmlessStream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text unchanged."""
        stream = self._stream
        return stream.write_ours(text) if isinstance(stream, HarmlessStream) else stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Makes standard output and standard error safe within this context, except streams replaced by a test."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_guarded(stream) for stream in before)
    guards = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for guard in guards:
            if isinstance(guard, HarmlessStream):
                with contextlib.suppress(OSError, ValueError):
                    guard.detach()  # otherwise closing it would close the underlying stream


def _guarded(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, HarmlessStream):
        return stream
    import codecs

    stream.flush()
    # A hook or a cron job may have a locale without arrows; a path need not be valid text.
    codecs.register_error(_ESCAPES, _unencodable)
    stream.reconfigure(errors=_ESCAPES)
    return HarmlessStream(
        stream.buffer, encoding=stream.encoding, errors=_ESCAPES, line_buffering=stream.line_buffering
    )
