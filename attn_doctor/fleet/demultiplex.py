"""Separates the lines of many nodes in one stream into whole reports.

Each line is recognized by itself: one report per line, indented reports, `3: chunk` of `srun --label`, `node: line` of
clush and pdsh, and `AD1` frames, with or without such a label. srun forwards standard output in pieces of 1 KB and
labels each one, so the pieces of a task are joined again. Without `--label`, pieces of several nodes mix; the resulting
fragments are reported as unreadable, never guessed at.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from attn_doctor.fleet.extract import LARGEST, report_of
from attn_doctor.formats import chunks
from attn_doctor.model.fleet import NodeReport, Unreadable
from attn_doctor.quick_dataclasses import dataclass, field

Arrival = NodeReport | Unreadable
Sender = int | str | None

_TASK = re.compile(rb"\s{0,8}(\d{1,7}): ?(.*)", re.DOTALL)
_NODE = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._-]{0,252}): (.*)", re.DOTALL)
#: Programs that write about nodes in the form of a labelled line, `srun: error: n2: task 1: Killed`.
_ENGINES = frozenset({b"srun", b"slurmstepd", b"clush", b"pdsh", b"ssh", b"timeout"})
_KEPT_LINES = 4
_KEPT_WIDTH = 300


@dataclass(slots=True)
class _Channel:
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    depth: int = 0
    """Braces opened and not closed, including those inside strings: only a hint when to try parsing."""
    reports: int = 0
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))


class Demultiplexer:
    """Call `feed` with each line, then `end`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.engine_said: deque[str] = deque(maxlen=10_000)
        """Messages of srun, clush and others about nodes."""
        self._channels: dict[Sender, _Channel] = {}
        self._frames = chunks.Joiner()
        self._lines = 0

    def feed(self, line: bytes) -> Iterator[Arrival]:
        """Processes one line, with or without its line end."""
        self._lines += 1
        line = line.rstrip(b"\r\n")
        if line.startswith(b"{"):
            if line.endswith(b"}"):  # one report per line: later lines are not needed for it
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
        """Records that a line with this beginning was skipped because it is too long."""
        task, named = _TASK.match(start), _NODE.match(start)
        return Unreadable(
            source=self._place(),
            reason=f"a line of more than {LARGEST >> 20} MiB",
            node=named[1].decode() if named is not None and not start.startswith(b"{") else None,
            task=int(task[1]) if task is not None else None,
            unlabelled=start.startswith(b"{"),
        )

    def end(self) -> Iterator[Arrival]:
        """Yields the reports that are still incomplete, and the tasks that sent output but no report."""
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
        """Last output lines of named senders that sent no report."""
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
            # Not complete yet: a brace inside a text misled the count; the rest will follow.
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
            channel.reports += 1  # it is reported: not a task without output
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
    # A piece of a broken line can begin with any brace; only the first piece of a report begins with its schema.
    return chunk == b"{" or chunk.startswith(b'{"schema"' if labelled else b"{")


def _cut(found: Unreadable) -> bool:
    return found.reason.startswith(("cut off", "no JSON"))


def _words(line: bytes) -> str:
    return line[:_KEPT_WIDTH].decode("utf-8", "replace").strip()
