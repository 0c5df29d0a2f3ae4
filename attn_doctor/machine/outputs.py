"""Opens output files without following links that another user planted.

In a folder where everybody may write (/tmp), anybody can create a link under a predictable name, and root would then
overwrite the link's target. Therefore each component of a path is opened separately, and the file is created in its
folder and renamed by the folder's handle, so that a concurrent change of the path has no effect. The rules are those of
the kernel's fs.protected_symlinks and fs.protected_regular, which do not bind root everywhere, and slightly stricter
(https://docs.kernel.org/admin-guide/sysctl/fs.html#protected-symlinks):

- A link in the path, or one named by the user, is followed when its owner is trusted: this user or root. In a folder
  where only its owner and group can write, any owner is trusted, except when root writes.
- A name chosen by attn-doctor (`<node>.<environment>.json`) is never followed: a link there is replaced, or refused
  when its owner is not trusted.
- A file of another user in a folder like /tmp is not replaced, even where root could.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
#: User id that the kernel reports for an owner without an id in this user namespace (container).
_UNMAPPED = 65534


class Mistrusted(OSError):
    """A file or link of another user is in the way; strerror names the user."""


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an opened folder. `close` it."""

    folder: int
    name: str
    path: Path
    """The same place as a path without links."""
    about: os.stat_result | None
    """stat of the existing file; None when there is none."""

    def close(self) -> None:
        """Closes the folder."""
        os.close(self.folder)

    @property
    def special(self) -> bool:
        """True for a pipe or a device: it is written to, never replaced."""
        return self.about is not None and not stat.S_ISREG(self.about.st_mode) and not stat.S_ISLNK(self.about.st_mode)

    def write(self, content: bytes, *, mode: int | None) -> None:
        """Replaces the file, or leaves the old one unchanged on failure. `mode`: by default that of the old file or the
        umask's.

        Raises OSError.
        """
        part = f".{self.name[:200]}.{os.urandom(6).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(part, flags, 0o600, dir_fd=self.folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                if mode is None and self.about is not None and stat.S_ISREG(self.about.st_mode):
                    mode = stat.S_IMODE(self.about.st_mode)
                os.fchmod(stream.fileno(), 0o666 & ~_umask() if mode is None else mode)
                os.fsync(stream.fileno())
            os.rename(part, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=self.folder)
            raise

    def write_into(self, content: bytes) -> None:
        """Writes into the existing pipe or device. Raises OSError."""
        with open(self.path, "wb") as stream:  # noqa: PTH123
            stream.write(content)


@contextlib.contextmanager
def opened(file: Path, *, chosen: bool = False) -> Iterator[Place]:
    """Opens the place of a file; `..` is resolved as the kernel does.

    `chosen`: attn-doctor chose the last component, not the user.

    Raises Mistrusted for a file or link of another user, other OSErrors for a missing folder.
    """
    try:
        place = _walk(os.path.join(os.getcwd(), file), chosen=chosen)  # noqa: PTH109, PTH118
    except OSError as error:
        if not isinstance(error, Mistrusted):
            error.filename = str(file)  # the whole path: one component alone does not identify the user's argument
        raise
    try:
        if place.about is not None and stat.S_ISDIR(place.about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place.path))
        _check_file(place)
        yield place
    finally:
        place.close()


def _walk(path: str, *, chosen: bool) -> Place:
    waiting = [part for part in path.split("/") if part]
    at, handle, links = "/", os.open("/", _FOLDER), 0
    try:
        while waiting:
            name = waiting.pop(0)
            if name in (".", ".."):
                at = os.path.normpath(os.path.join(at, name))  # noqa: PTH118
                handle = _enter(handle, name)
                continue
            try:
                about = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except FileNotFoundError:
                if waiting:
                    raise
                return Place(handle, name, Path(at) / name, None)
            if stat.S_ISLNK(about.st_mode):
                _check_link(handle, at, name, about)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if chosen and not waiting:
                    return Place(handle, name, Path(at) / name, about)
                target = os.readlink(name, dir_fd=handle)
                magic = _of_a_process(at) and not target.startswith("/")
                if magic:  # /proc/self/fd/1 is `pipe:[123]`, which only the kernel can follow
                    return Place(handle, name, Path(at) / name, os.stat(name, dir_fd=handle))
                if target.startswith("/"):
                    os.close(handle)
                    at, handle = "/", os.open("/", _FOLDER)
                waiting = [part for part in target.split("/") if part] + waiting
                continue
            if not waiting:
                return Place(handle, name, Path(at) / name, about)
            handle = _enter(handle, name)
            at = os.path.join(at, name)  # noqa: PTH118
        return Place(handle, ".", Path(at), os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise


def _enter(folder: int, name: str) -> int:
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _of_a_process(folder: str) -> bool:
    return folder.startswith("/proc/") and folder.rstrip("/").endswith("/fd")


def _check_link(folder: int, at: str, name: str, link: os.stat_result) -> None:
    about = os.fstat(folder)
    everybody = bool(about.st_mode & stat.S_IWOTH)
    if link.st_uid in (os.geteuid(), 0) or (not everybody and os.geteuid() != 0):
        return
    if link.st_uid == about.st_uid == _UNMAPPED and not everybody:
        return
    raise Mistrusted(
        errno.EPERM,
        f"it is a link that user {_user(link.st_uid)} laid there",
        os.path.join(at, name),  # noqa: PTH118
    )


def _check_file(place: Place) -> None:
    about = place.about
    if about is None or stat.S_ISLNK(about.st_mode) or about.st_uid in (os.geteuid(), 0):
        return
    folder = os.fstat(place.folder)
    if folder.st_mode & stat.S_ISVTX and folder.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        raise Mistrusted(errno.EPERM, f"it is a file of user {_user(about.st_uid)}", str(place.path))


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
