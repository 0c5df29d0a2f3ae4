"""A file behind an address, read in parts as they are needed."""

from __future__ import annotations

import io

from attn_doctor.machine.web import read_part

#: The directory of a wheel lies at its end; one request brings that of most. What is read on from there is asked for
#: in ever larger parts, so that a library of a gigabyte takes some sixty requests.
_BLOCK = 1 << 20
_LARGEST = 1 << 24


class RemoteFile(io.RawIOBase):
    """Seekable. Raises Unreachable, of machine/web.py, where the server sends no parts."""

    def __init__(self, address: str) -> None:
        last = read_part(address, -_BLOCK, _BLOCK)
        self._address = address
        self._at = 0
        self.size = last.size
        self.downloaded = len(last.data)
        """Bytes that were read so far."""
        self._held = (last.size - len(last.data), last.data)
        self._next = _BLOCK

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a place; reads nothing."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from the present place on."""
        size = self.size - self._at if size < 0 else min(size, self.size - self._at)
        if size <= 0:
            return b""
        start, data = self._held
        if not (start <= self._at and self._at + size <= start + len(data)):
            reads_on = start <= self._at <= start + len(data)
            self._next = min(2 * self._next, _LARGEST) if reads_on else _BLOCK
            part = read_part(self._address, self._at, max(size, self._next))
            self.downloaded += len(part.data)
            self._held = start, data = self._at, part.data
        found = data[self._at - start : self._at - start + size]
        self._at += len(found)
        return found
