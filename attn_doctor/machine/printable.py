"""What is not ours (names of packages, versions, log files, hosts, values of variables, words of exceptions) can hold
anything: an escape sequence that repaints the terminal, a carriage return that hides what stands before it, signs that
turn the direction of writing. This is the one place that makes text harmless; every renderer goes through it.

What is taken out are the C0 and C1 control characters, the bidirectional controls of Unicode
(https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters), its line separators, and its invisible tags.
A newline stays, and what it does is the renderer's matter: `one_line` is for what has to be one.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    """The text with each such sign spelled out (`\\x1b`); a tab is four blanks, newlines stay."""
    if "\t" in text:
        text = text.replace("\t", "    ")
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line, with single blanks and nothing that has no sign of its own (`str.isprintable`)."""
    words = harmless(" ".join(text.split()))
    if words.isprintable():
        return words
    return "".join(sign if sign.isprintable() else _spell(ord(sign)) for sign in words)


def json_text(value: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON as `json.dumps` writes it, readable, with such signs escaped as JSON escapes them: no value is another."""
    import json

    text = json.dumps(value, indent=indent, separators=(",", ":") if compact else None, ensure_ascii=False)
    # Newlines and tabs of the layout aside, they can only stand inside strings.
    return _UNSAFE.sub(_escaped, text)


def _spelled(found: re.Match[str]) -> str:
    return _spell(ord(found[0]))


def _spell(sign: int) -> str:
    return f"\\x{sign:02x}" if sign < 0x100 else f"\\u{sign:04x}" if sign < 0x10000 else f"\\U{sign:08x}"


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


class HarmlessStream(io.TextIOWrapper):
    """Standard output and standard error: whoever writes to them, nothing of this gets through."""

    def write(self, text: str) -> int:
        """Writes it made harmless."""
        super().write(harmless(text))
        return len(text)

    def write_ours(self, text: str) -> int:
        """Writes it as it is: colours of a renderer that cleaned the words itself."""
        return super().write(text)


class Ours:
    """A stream for such a renderer."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes it as it is."""
        stream = self._stream
        return stream.write_ours(text) if isinstance(stream, HarmlessStream) else stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded_streams() -> Iterator[None]:
    """Standard output and standard error with that guard; what is no stream of a process stays as it is."""
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
                    guard.detach()  # else its end would close what both write into


def _guarded(stream: Any) -> Any:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, HarmlessStream):
        return stream
    stream.flush()
    # A hook or a cron job may run with a locale that has no arrows; a path may be no text at all.
    stream.reconfigure(errors="backslashreplace")
    return HarmlessStream(
        stream.buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=stream.line_buffering
    )
