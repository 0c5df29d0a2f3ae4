"""Reads logs: files, standard input, folders of per-rank logs, compressed or not. Streams, so that no log is held
whole.

Text is returned unchanged; diagnose/log/ parses it. A log that cannot be read has a note with the reason.
"""

from __future__ import annotations

import codecs
import io
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from attn_doctor.errors import BadInput

_CHUNK = 1 << 20
#: Most files in a folder of logs; a larger one is not a folder of logs.
_MOST_FILES = 5000
#: Most bytes read from one log, uncompressed: a small archive can expand to fill a disk.
_MOST_BYTES = 8 << 30
#: Other files found in run folders.
_NO_LOGS = frozenset(
    {
        ".pt", ".pth", ".bin", ".safetensors", ".npz", ".npy", ".ckpt", ".png", ".jpg", ".pdf", ".so", ".pyc", ".arrow",
        ".parquet", ".tar", ".zip", ".whl", ".db", ".py", ".sh", ".yaml", ".yml", ".toml", ".distcp", ".lock", ".pkl",
    }
)  # fmt: skip
_HINT = "Name log files, folders of them, or - for standard input; words of an error go in quotes."


class Log:
    """One log. `note` is set while it is read: why a part is missing."""

    def __init__(self, name: str, path: Path | None) -> None:
        self.name = name
        self.note = ""
        self.broken = False
        """It could not be read to its end."""
        self._path = path

    def chunks(self) -> Iterator[str]:
        """Yields the text in pieces that may end anywhere.

        Raises BadInput when the file cannot be opened.
        """
        try:
            handle = sys.stdin.buffer if self._path is None else self._path.open("rb")
        except OSError as error:
            raise BadInput(f"the log cannot be read: {error.strerror}", about=self.name, hint=_HINT) from None
        try:
            yield from self._text(handle)
        finally:
            if self._path is not None:
                handle.close()

    def _text(self, handle: IO[bytes]) -> Iterator[str]:
        buffered = io.BufferedReader(handle, _CHUNK) if isinstance(handle, io.RawIOBase) else handle
        first = buffered.peek(8192)[:8192] if hasattr(buffered, "peek") else b""
        stream = _unpacked(buffered, first, self.name)
        decoder: codecs.IncrementalDecoder | None = None
        read = 0
        while True:
            try:
                raw = stream.read(_CHUNK)
            except Exception as error:
                if not isinstance(error, (OSError, EOFError, ValueError, *_broken())):
                    raise
                self.note = f"could not be read to its end: {str(error) or type(error).__name__}"
                self.broken = True
                return
            if not raw:
                break
            if decoder is None:
                decoder = _decoder(raw)
                if b"\x00" in raw[:8192] and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    self.note = "looks like a binary file"
            read += len(raw)
            yield decoder.decode(raw)
            if read >= _MOST_BYTES:
                self.note = f"only its first {_MOST_BYTES >> 30} GiB were read"
                return
        if decoder is not None:
            rest = decoder.decode(b"", final=True)
            if rest:
                yield rest


class Held(Log):
    """A log given as text, not as a file."""

    def __init__(self, name: str, text: bytes) -> None:
        super().__init__(name, None)
        self._held = text

    def chunks(self) -> Iterator[str]:
        """Yields the whole text."""
        yield self._held.decode(errors="replace")


def _decoder(first: bytes) -> codecs.IncrementalDecoder:
    # PowerShell's `>` writes UTF-16; every other encoding that is not UTF-8 still has readable ASCII.
    utf16 = first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return codecs.getincrementaldecoder("utf-16" if utf16 else "utf-8")(errors="replace")


def _unpacked(handle: Any, first: bytes, name: str) -> Any:
    """The stream, decompressed according to its first bytes; file names are often wrong."""
    if first.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=handle)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(handle, name)
    if first.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMAFile(handle)
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2File(handle)
    return handle


def _zstd(handle: Any, name: str) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd.ZstdFile(handle)
    try:
        import zstandard  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise BadInput(
            "the log is packed with zstd, which this Python cannot read",
            about=name,
            hint="Install the zstandard package beside attn-doctor, or unpack it: zstd -dc LOG | attn-doctor explain -",
        ) from None
    return zstandard.ZstdDecompressor().stream_reader(handle, read_across_frames=True)


def _broken() -> tuple[type[BaseException], ...]:
    """Exceptions other than OSError that decompressors raise for damaged files."""
    import zlib

    found: list[type[BaseException]] = [zlib.error]
    for module, name in (("lzma", "LZMAError"), ("zstandard", "ZstdError"), ("compression.zstd", "ZstdError")):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def find_logs(named: Iterable[str]) -> list[Log]:
    """The logs that the user named; those of a folder in natural order of their names.

    Raises BadInput for a path that does not exist, cannot be read, or is no file.
    """
    logs: list[Log] = []
    for text in named:
        if text == "-":
            logs.append(Log("standard input", None))
            continue
        if not text:  # a variable of a shell that is not set; as a path it would be the folder one is in
            raise BadInput("no log was named", about="an empty word", hint=_HINT)
        path = Path(text)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise BadInput(f"there is no such log: {error.strerror}", about=text, hint=_HINT) from None
        if stat.S_ISDIR(mode):
            logs += _of_folder(path)
        elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            logs.append(Log(text, path))
        else:
            raise BadInput("that is neither a file nor a folder", about=text, hint=_HINT)
    if not logs:
        raise BadInput("no log was named", about="attn-doctor explain", hint=_HINT)
    return logs


def _of_folder(folder: Path) -> list[Log]:
    files: list[Path] = []
    for path in folder.rglob("*"):
        if path.suffix.lower() in _NO_LOGS or path.name.startswith(".") or not path.is_file():
            continue
        files.append(path)
        if len(files) > _MOST_FILES:
            raise BadInput(f"the folder holds more than {_MOST_FILES} files", about=str(folder), hint=_HINT)
    if not files:
        raise BadInput("the folder holds no log", about=str(folder), hint=_HINT)
    return [Log(str(path), path) for path in sorted(files, key=lambda path: _natural(str(path)))]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """`rank2` before `rank10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]
