"""Reads the user's input files and writes output files, each completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import select
from pathlib import Path

from attn_doctor.errors import BadInput, NotKept
from attn_doctor.machine import outputs

#: Seconds that a pipe may be silent: `<(ssh node cat file)` is slow, a pipe without a writer never ends.
_SILENT = 30.0


def expanded(path: Path) -> Path:
    """Expands `~` and `~user` as a shell does; unchanged when there is no such user or home."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def absolute(path: Path) -> Path:
    """The absolute path with `~` expanded. Links and `..` stay as they are: a shim must be started by its own name."""
    return expanded(path).absolute()


def read_input(file: Path, *, most: int) -> bytes:
    """Reads a file named by the user, or a pipe.

    Raises OSError with a message in strerror for more than `most` bytes (/dev/zero never ends) and for a silent pipe.
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
            if piece is None:  # another process read the data first
                continue
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise OSError(errno.EFBIG, f"too large, more than {most:,} bytes", str(file))


def check_output(file: Path, *, flag: str = "--output") -> None:
    """Raises BadInput when a report could not be written to this file; called before anything is examined.

    A file's folder is never created, because a misspelled path would hide the report. A folder named as such is created
    (`check_folder`).
    """
    hint = "Name a file in a folder that can be written."
    about = f"{flag} {file}"
    try:
        with outputs.opened(file) as place:
            if not place.special and not os.access(place.path.parent, os.W_OK):
                raise BadInput("the folder cannot be written", about=about, hint=hint)
    except outputs.Mistrusted as error:
        raise _mistrusted(error, about) from None
    except IsADirectoryError:
        raise BadInput("that is a folder, not a file", about=about, hint=hint) from None
    except (FileNotFoundError, NotADirectoryError):
        hint = f"Make the folder {file.resolve().parent} first, or name a file in another one."
        raise BadInput("there is no such folder", about=about, hint=hint) from None


def check_folder(folder: Path, *, make: bool, flag: str) -> None:
    """The same check for a folder that will receive files; `make` creates it when missing.

    Raises NotKept for a folder that is there and cannot be written: what is found can still be printed.
    """
    hint = "Name a folder that can be written."
    try:
        with contextlib.suppress(FileNotFoundError), outputs.opened(folder / "name", chosen=True):
            pass  # check before creating anything: a component of the path may be another user's link
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    except outputs.Mistrusted as error:
        raise _mistrusted(error, f"{flag} {folder}") from None
    except OSError as error:
        refused = NotKept if error.errno == errno.EROFS else BadInput
        raise refused(f"the folder cannot be made: {error.strerror}", about=f"{flag} {folder}", hint=hint) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotKept("the folder cannot be written", about=f"{flag} {folder}", hint=hint)


def replace_file(file: Path, text: str, *, mode: int | None = None, chosen: bool = False) -> None:
    """Replaces a file, or leaves the old one unchanged on failure. `mode`: by default that of the old file or the
    umask's.

    `chosen`: attn-doctor chose the name, so a link of that name is not followed (machine/outputs.py). Raises BadInput
    when the file cannot be written.
    """
    content = text.encode("utf-8", errors="backslashreplace")
    try:
        with outputs.opened(file, chosen=chosen) as place:
            if place.special:
                place.write_into(content)
            else:
                place.write(content, mode=mode)
    except outputs.Mistrusted as error:
        raise _mistrusted(error, str(file)) from None
    except OSError as error:
        raise BadInput(
            f"the file cannot be written: {error.strerror}",
            about=str(file),
            hint="Name a file in a folder that can be written and has room.",
        ) from None


def _mistrusted(error: outputs.Mistrusted, about: str) -> BadInput:
    named = "" if str(error.filename) in about else f"\n{error.filename}"
    return BadInput(
        f"it is not written: {error.strerror}",
        about=f"{about}{named}",
        hint="Name a file in a folder where nobody else can write, or remove what is there.",
    )
