"""Applies splices to a file's content, and makes a diff for people. Pure."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable

from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import FileEdit, Splice


def spliced(content: bytes, splices: Iterable[Splice]) -> bytes:
    """The content with every splice applied.

    Raises Refused for splices that overlap or are out of range.
    """
    parts = []
    at = 0
    for splice in sorted(splices, key=lambda one: (one.start, one.end)):
        if not at <= splice.start <= splice.end <= len(content):
            raise Refused("the edits overlap or lie outside of the file")
        parts += [content[at : splice.start], splice.text.encode()]
        at = splice.end
    return b"".join([*parts, content[at:]])


def file_edit(
    file: str, content: bytes | None, splices: tuple[Splice, ...], *, warnings: tuple[str, ...] = ()
) -> FileEdit:
    """The edit of a file with this content; None when the file does not exist yet."""
    before = content or b""
    after = spliced(before, splices)
    return FileEdit(
        file=file,
        before=None if content is None else digest(content),
        after=digest(after),
        splices=splices,
        diff=diff(file, before, after),
        warnings=warnings,
    )


def digest(content: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()


def diff(file: str, before: bytes, after: bytes) -> str:
    """A unified diff with one context line; marks a missing newline at the end of the file."""

    def lines(content: bytes) -> list[str]:
        return content.decode("utf-8", errors="replace").replace("\r\n", "\n").splitlines(keepends=True)

    found = difflib.unified_diff(lines(before), lines(after), file, file, n=1)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in found)
