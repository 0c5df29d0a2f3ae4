"""Reads reports from folders, files and pipes, one by one; nothing is stored here."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from attn_doctor.errors import BadInput
from attn_doctor.fleet.demultiplex import Arrival, Demultiplexer
from attn_doctor.fleet.extract import LARGEST, report_of
from attn_doctor.model.fleet import NodeReport, Unreadable
from attn_doctor.quick_dataclasses import dataclass, field

_ENDINGS = (".json", ".ndjson", ".jsonl")
#: The id of an environment at the end of a report's name.
_ENVIRONMENT = re.compile(r"(?<=.)\.(?:failed-)?[0-9a-f]{4,64}$")


@dataclass(slots=True)
class Messages:
    """Messages that arrived with the reports."""

    engine: list[str] = field(default_factory=list)
    """Lines of srun, clush and similar programs."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Node -> its last output line, for nodes without a report."""


def check_sources(sources: Sequence[str]) -> None:
    """Raises BadInput for a missing source, before anything is read."""
    for source in sources:
        if source != "-" and not Path(source).exists():
            raise BadInput(
                "there is no such file or folder",
                about=source,
                hint="Name a folder of reports, a file of them, or - for standard input.",
            )


def read(sources: Sequence[str], heard: Messages) -> Iterator[Arrival]:
    """Yields every report of every source.

    Raises BadInput when a source cannot be read at all; an unreadable file in a folder is yielded as Unreadable.
    """
    for source in sources:
        if source == "-":
            yield from stream(sys.stdin.buffer, "standard input", heard)
        elif Path(source).is_dir():
            for file in files_in(Path(source)):
                yield from _file(file, heard)
        else:
            try:
                yield from _contents(Path(source), heard)
            except OSError as error:
                raise BadInput(f"it cannot be read: {error.strerror}", about=source) from None


def files_in(folder: Path) -> list[Path]:
    """The reports of a folder, sorted by name; hidden files are still being written."""
    try:
        with os.scandir(folder) as entries:
            names = [one.path for one in entries if one.name.endswith(_ENDINGS) and not one.name.startswith(".")]
    except OSError as error:
        raise BadInput(f"the folder cannot be read: {error.strerror}", about=str(folder)) from None
    return [Path(name) for name in sorted(names)]


class Watched:
    """Folders that are read again and again; a file that did not change is read once."""

    def __init__(self, folders: Sequence[Path], heard: Messages) -> None:
        self._folders = folders
        self._heard = heard
        self._seen: dict[Path, tuple[int, int, int]] = {}

    def news(self) -> Iterator[Arrival]:
        """Yields the reports of files that are new or were replaced since the last call."""
        for folder in self._folders:
            for file in files_in(folder):
                with contextlib.suppress(OSError):
                    about = file.stat()
                    mark = (about.st_mtime_ns, about.st_size, about.st_ino)
                    if self._seen.get(file) != mark:
                        self._seen[file] = mark
                        yield from _file(file, self._heard)


def watch(folders: Sequence[Path], heard: Messages, *, seconds: float) -> Iterator[Arrival | None]:
    """Yields reports as they appear in the folders, for this many seconds; None after each pass. A changed file is read
    again.
    """
    until = time.monotonic() + seconds
    watched = Watched(folders, heard)
    while True:
        yield from watched.news()
        yield None
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(1.0, left))


def _file(file: Path, heard: Messages) -> Iterator[Arrival]:
    try:
        yield from _contents(file, heard)
    except OSError as error:
        yield Unreadable(source=str(file), reason=f"cannot be read: {error.strerror}", node=_named_by(file))


def _contents(file: Path, heard: Messages) -> Iterator[Arrival]:
    # O_NONBLOCK: a named pipe without a writer must not block.
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if file.suffix in _ENDINGS else 0))
    with os.fdopen(handle, "rb") as opened:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            if file.suffix in _ENDINGS:
                yield Unreadable(source=str(file), reason="no file", node=_named_by(file))
                return
        elif about.st_size <= LARGEST:
            whole = opened.read(LARGEST + 1)
            found = report_of(whole, source=str(file), node=_named_by(file))
            if isinstance(found, NodeReport) or not _several(whole):
                yield found
                return
            inside = stream(whole.splitlines(keepends=True), str(file), heard)
            first = next(inside, None)
            # Junk in a file that has a report's name is that report, damaged: its node is not missing.
            yield from (first, *inside) if first is not None else (found,) if file.suffix in _ENDINGS else ()
            return
        elif file.suffix == ".json":
            said = f"larger than any report: {about.st_size:,} bytes"
            yield Unreadable(source=str(file), reason=said, node=_named_by(file))
            return
        yield from stream(opened, str(file), heard)


def stream(lines: IO[bytes] | Iterable[bytes], source: str, heard: Messages) -> Iterator[Arrival]:
    """Yields the reports in these lines."""
    demultiplexer = Demultiplexer(source)
    for line, whole in _lines(lines):
        if whole:
            yield from demultiplexer.feed(line)
        else:
            yield demultiplexer.too_long(line)
    yield from demultiplexer.end()
    heard.engine.extend(demultiplexer.engine_said)
    heard.nodes.update(demultiplexer.said())


def _lines(lines: IO[bytes] | Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yields (line, whether it is complete); for a line that is too long, its first KB."""
    readline = getattr(lines, "readline", None)
    if readline is None:
        yield from ((line, True) for line in lines)
        return
    while line := readline(LARGEST):
        if line.endswith(b"\n") or len(line) < LARGEST:
            yield line, True
            continue
        start = line[:1024]
        while line and not line.endswith(b"\n"):
            line = readline(1 << 20)
        yield start, False


def _several(whole: bytes) -> bool:
    """True for several reports or a pipe's output, in contrast to one damaged file."""
    first = whole.lstrip()[:600]
    if not first.startswith(b"{"):
        return b"{" in whole or b"AD1 " in whole
    line, _, rest = whole.strip().partition(b"\n")
    return line.startswith(b'{"') and rest.lstrip().startswith(b"{")


def _named_by(file: Path) -> str | None:
    """NODE from NODE.json and NODE.ENVIRONMENT.json."""
    stem = file.name
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    return _ENVIRONMENT.sub("", stem) or None
