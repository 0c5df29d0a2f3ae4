"""Lines of many nodes in one pipe → whole reports.

Known by themselves, line by line: one report a line, indented reports, `3: chunk` of `srun --label`, `node: line` of
clush and pdsh, and `AD1` frames, with or without such a label. srun passes standard output on in pieces of 1 KB and
prefixes each one, so the pieces of a task are put together again; without `--label` pieces of several nodes mix, and
what comes of that is named, never guessed at.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from attn_doctor.fleet.extract import LARGEST, report_of
from attn_doctor.formats import chunks
from attn_doctor.model.fleet import NodeReport, Unreadable

Arrival = NodeReport | Unreadable
Sender = int | str | None

_TASK = re.compile(rb"\s{0,8}(\d{1,7}): ?(.*)", re.DOTALL)
_NODE = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}): (.*)", re.DOTALL)
#: Programs that write about nodes in the same form, `srun: error: n2: task 1: Killed`.
_ENGINES = frozenset({b"srun", b"slurmstepd", b"clush", b"pdsh", b"ssh", b"timeout"})
_KEPT_LINES = 4
_KEPT_WIDTH = 300


@dataclass(slots=True)
class _Channel:
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    depth: int = 0
    """Braces opened and not closed, those within strings too: a hint when to try, not more."""
    reports: int = 0
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))


class Demultiplexer:
    """Feed it lines, then `end` it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.engine_said: deque[str] = deque(maxlen=10_000)
        """What srun, clush and others wrote about nodes."""
        self._channels: dict[Sender, _Channel] = {}
        self._frames = chunks.Joiner()
        self._lines = 0

    def feed(self, line: bytes) -> Iterator[Arrival]:
        """One line, with or without its end."""
        self._lines += 1
        line = line.rstrip(b"\r\n")
        if line.startswith(b"{"):
            if line.endswith(b"}"):  # one report a line: nothing of what follows is needed for it
                found = report_of(line, source=self._place())
                if isinstance(found, NodeReport):
                    if None in self._channels and self._channels[None].parts:
                        yield self._close(None, self._channels[None])
                    yield found
                    return
            yield from self._take(None, line)
            return
        if line.startswith((b"AD1 ", b" {", b'  "')):
            yield from self._take(None, line)
            return
        task = _TASK.match(line)
        if task is not None:
            yield from self._take(int(task[1]), task[2])
            return
        named = _NODE.match(line)
        if named is None:
            yield from self._take(None, line)
        elif named[1] in _ENGINES:
            self.engine_said.append(_words(line))
        else:
            yield from self._take(named[1].decode(), named[2])

    def too_long(self, start: bytes) -> Unreadable:
        """A line that begins like this and goes on for ever was left out."""
        task, named = _TASK.match(start), _NODE.match(start)
        return Unreadable(
            source=self._place(),
            reason=f"a line of more than {LARGEST >> 20} MiB",
            node=named[1].decode() if named is not None and not start.startswith(b"{") else None,
            task=int(task[1]) if task is not None else None,
            unlabelled=start.startswith(b"{"),
        )

    def end(self) -> Iterator[Arrival]:
        """What is still open; and tasks that sent something, but no report."""
        for joined in self._frames.rest():
            yield Unreadable(source=self._place(), reason=joined.fault, node=joined.node)
        for sender, channel in self._channels.items():
            if channel.parts:
                yield self._close(sender, channel)
            if isinstance(sender, int) and channel.reports == 0:
                yield Unreadable(
                    source=self._place(),
                    reason=f"no report; it said: {' / '.join(channel.said) or 'nothing'}",
                    task=sender,
                )

    def said(self) -> dict[str, str]:
        """Last words of named senders that are in no report."""
        return {
            sender: " / ".join(channel.said)
            for sender, channel in self._channels.items()
            if isinstance(sender, str) and channel.said
        }

    def _take(self, sender: Sender, chunk: bytes) -> Iterator[Arrival]:
        channel = self._channels.setdefault(sender, _Channel())
        if b"AD1 " in chunk and not channel.parts:
            frame = chunks.frame_in(chunk.decode("latin-1"))
            if frame is not None:
                channel.reports += 1
                yield from self._frame(sender, frame)
                return
        if _begins(chunk, labelled=sender is not None):
            if channel.parts:
                yield self._close(sender, channel)
        elif not channel.parts:
            if chunk.strip():
                channel.said.append(_words(chunk))
            return
        channel.parts.append(chunk)
        channel.size += len(chunk) + 1
        channel.depth += chunk.count(b"{") - chunk.count(b"}")
        if channel.size > LARGEST:
            yield self._close(sender, channel)
        elif channel.depth <= 0 and chunk.endswith(b"}"):
            found = self._decoded(sender, channel)
            # Not yet whole: a brace within a text deceives; the rest is still to come.
            if isinstance(found, NodeReport) or not _cut(found):
                self._forget(channel)
                yield found

    def _decoded(self, sender: Sender, channel: _Channel) -> Arrival:
        whole = (b"" if sender is not None else b"\n").join(channel.parts)
        return self._read(whole, sender, channel)

    def _read(self, whole: bytes, sender: Sender, channel: _Channel) -> Arrival:
        found = report_of(
            whole,
            source=self._place(),
            node=sender if isinstance(sender, str) else None,
            task=sender if isinstance(sender, int) else None,
        )
        if isinstance(found, NodeReport):
            channel.reports += 1
            return found
        if sender is None:
            return Unreadable(source=found.source, reason=found.reason, node=found.node, unlabelled=True)
        return found

    def _close(self, sender: Sender, channel: _Channel) -> Arrival:
        found = self._decoded(sender, channel)
        if isinstance(found, Unreadable):
            channel.reports += 1  # it is told of: not a task that sent nothing
        self._forget(channel)
        return found

    @staticmethod
    def _forget(channel: _Channel) -> None:
        channel.parts, channel.size, channel.depth = [], 0, 0

    def _frame(self, sender: Sender, frame: chunks.Frame) -> Iterator[Arrival]:
        joined = self._frames.take(frame)
        task = sender if isinstance(sender, int) else None
        if joined is None:
            return
        if joined.text is None:
            yield Unreadable(source=self._place(), reason=joined.fault, node=joined.node, task=task)
        else:
            yield report_of(joined.text.encode(), source=self._place(), node=joined.node, task=task)

    def _place(self) -> str:
        return f"{self.source}, line {self._lines:,}"


def _begins(chunk: bytes, *, labelled: bool) -> bool:
    # A piece of a torn line can begin with any brace; only the first one of a report begins with its schema.
    return chunk == b"{" or chunk.startswith(b'{"schema"' if labelled else b"{")


def _cut(found: Unreadable) -> bool:
    return found.reason.startswith(("cut off", "no JSON"))


def _words(line: bytes) -> str:
    return line[:_KEPT_WIDTH].decode("utf-8", "replace").strip()
