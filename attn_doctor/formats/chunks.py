"""Sends reports through channels that cut, reorder or repeat lines: `AD1 <node> <i>/<n> <base64>`, one frame per line.

A report is compressed and cut. Each piece starts with four bytes of checksum of the whole report, so that frames of two
reports from one node are not mixed. A reader skips lines that are not frames.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterable, Iterator

from attn_doctor.model.identity import safe_name
from attn_doctor.quick_dataclasses import dataclass

LONGEST_LINE = 900
"""Bytes including the line end; srun forwards 1024 at a time."""

_FRAME = re.compile(r"AD1 (\S{1,200}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/]+={0,2})(?=\s|$)")
#: Bytes that 900 characters of base64 hold after the longest possible prefix, minus the checksum.
_PIECE = (LONGEST_LINE - len("AD1  999999/999999 \n") - 128) // 4 * 3 - 4
#: A report of a megabyte has 60 pieces; a line that claims more would only cost memory.
_MOST_PIECES = 100_000
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One piece of a report."""

    node: str
    number: int
    """Starts at 1."""
    count: int
    report: bytes
    """Checksum of its report."""
    piece: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Result of joining the frames of one report."""

    node: str
    text: str | None
    """None when pieces are missing or damaged."""
    fault: str = ""


def frames(node: str, text: str) -> Iterator[str]:
    """Yields the report's lines without line ends, each at most LONGEST_LINE - 1 bytes."""
    packed = zlib.compress(text.encode(errors="backslashreplace"), 9)
    known_by = zlib.crc32(packed).to_bytes(4, "big")
    pieces = [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
    for number, piece in enumerate(pieces, start=1):
        yield f"AD1 {safe_name(node)} {number}/{len(pieces)} {base64.b64encode(known_by + piece).decode()}"


def frame_in(line: str) -> Frame | None:
    """The frame in a line, which may have other text around it (`n1: AD1 …`, a log's time); None when it has none."""
    match = _FRAME.search(line) if "AD1 " in line else None
    if match is None:
        return None
    number, count = int(match[2]), int(match[3])
    try:
        raw = base64.b64decode(match[4], validate=True)
    except (binascii.Error, ValueError):
        return None
    if not 1 <= number <= count <= _MOST_PIECES or len(raw) <= 4:
        return None
    return Frame(node=match[1], number=number, count=count, report=raw[:4], piece=raw[4:])


class Joiner:
    """Accepts frames in any order, repeated or not; `take` returns a report when it is complete."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, bytes, int], dict[int, bytes]] = {}
        self._done: set[tuple[str, bytes, int]] = set()

    def take(self, frame: Frame) -> Joined | None:
        """The report completed by this frame, else None."""
        key = (frame.node, frame.report, frame.count)
        if key in self._done:
            return None
        pieces = self._waiting.setdefault(key, {})
        pieces.setdefault(frame.number, frame.piece)
        if len(pieces) < frame.count:
            return None
        del self._waiting[key]
        self._done.add(key)
        return _joined(frame, b"".join(pieces[number] for number in range(1, frame.count + 1)))

    def rest(self) -> Iterator[Joined]:
        """Yields the reports with missing frames, at the end."""
        for (node, _, count), pieces in self._waiting.items():
            first = next(number for number in range(1, count + 1) if number not in pieces)
            yield Joined(
                node=node, text=None, fault=f"{count - len(pieces)} of {count} chunks are missing, {first} the first"
            )


def join(lines: Iterable[str]) -> tuple[Joined, ...]:
    """Every report in these lines, complete or not."""
    joiner = Joiner()
    found = []
    for line in lines:
        frame = frame_in(line)
        joined = joiner.take(frame) if frame is not None else None
        if joined is not None:
            found.append(joined)
    return (*found, *joiner.rest())


def _joined(frame: Frame, packed: bytes) -> Joined:
    if zlib.crc32(packed).to_bytes(4, "big") != frame.report:
        return Joined(node=frame.node, text=None, fault="its chunks do not fit together: one was changed on the way")
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, _LARGEST)
        if not unpacking.eof:
            return Joined(node=frame.node, text=None, fault=f"it is larger than {_LARGEST >> 20} MiB or cut short")
        return Joined(node=frame.node, text=text.decode())
    except (zlib.error, UnicodeDecodeError) as error:
        return Joined(node=frame.node, text=None, fault=f"its chunks cannot be unpacked: {error}")
