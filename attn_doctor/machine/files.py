"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import tempfile
from pathlib import Path

from attn_doctor.errors import BadInput

#: Seconds that a pipe may be silent: `<(ssh node cat file)` takes its time, one that nobody writes into takes for ever.
_SILENT = 30.0


def expanded(path: Path) -> Path:
    """`~` and `~user` as the shell reads them; as it stands where there is no such user, or none has a home."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def read_input(file: Path, *, most: int) -> bytes:
    """What a person's file holds; a pipe may stand in its place.

    Raises OSError, whose strerror says so, for more than `most` bytes (/dev/zero ends never) and for a silent pipe.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        pieces: list[bytes] = []
        size = 0
        while True:
            if not poller.poll(_SILENT * 1000):
                raise OSError(errno.ETIMEDOUT, f"nothing came out of it for {_SILENT:.0f} s", str(file))
            piece = stream.read(1 << 20)
            if piece is None:  # somebody else was quicker
                continue
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise OSError(errno.EFBIG, f"too large, more than {most:,} bytes", str(file))


def check_output(file: Path, *, flag: str = "--output") -> None:
    """Raises BadInput when a report could not be written there, before anything is examined for it.

    The folder of a file is never made: a misspelled path would swallow the report. A named folder is (`check_folder`).
    """
    hint = "Name a file in a folder that can be written."
    if file.is_dir():
        raise BadInput("that is a folder, not a file", about=f"{flag} {file}", hint=hint)
    file = file.resolve()
    if file.exists() and not file.is_file():
        return
    if not file.parent.is_dir():
        hint = f"Make the folder {file.parent} first, or name a file in another one."
        raise BadInput("there is no such folder", about=f"{flag} {file}", hint=hint)
    if not os.access(file.parent, os.W_OK):
        raise BadInput("the folder cannot be written", about=f"{flag} {file}", hint=hint)


def check_folder(folder: Path, *, make: bool, flag: str) -> None:
    """The same for a folder that files are to be put in; `make` it where it is not there."""
    hint = "Name a folder that can be written."
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder cannot be made: {error.strerror}", about=f"{flag} {folder}", hint=hint) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput("the folder cannot be written", about=f"{flag} {folder}", hint=hint)


def replace_file(file: Path, text: str, *, mode: int | None = None) -> None:
    """Puts a new file in the place of an old one, or leaves the old one as it was. `mode`: the umask's, or the old one.

    Raises BadInput where it cannot be written.
    """
    file = file.resolve()  # a link stays a link
    if file.exists() and not file.is_file():
        _write_into(file, text)  # a pipe or a device is written to, never replaced
        return
    try:
        # Beside the target: os.replace cannot cross file systems, and /tmp often is another one.
        handle, part = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    except OSError as error:
        raise _not_written(file, error) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes private files; a report keeps the mode of the one it replaces, or what the umask gives.
        if mode is None:
            mode = file.stat().st_mode & 0o7777 if file.exists() else 0o666 & ~_umask()
        os.chmod(part, mode)  # noqa: PTH101
        Path(part).replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(part).unlink()
        raise _not_written(file, error) from None


def _write_into(file: Path, text: str) -> None:
    try:
        with file.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        raise _not_written(file, error) from None


def _not_written(file: Path, error: OSError) -> BadInput:
    return BadInput(
        f"the file cannot be written: {error.strerror}",
        about=str(file),
        hint="Name a file in a folder that can be written and has room.",
    )


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
