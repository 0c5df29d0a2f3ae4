"""What the compiled libraries of a wheel need, read from the wheel."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import IO

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine.web import without_secrets
from attn_doctor.probe import binaries
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.stack.proof.remote_file import RemoteFile


class NoWheel(AttnDoctorError):
    """What was to be a wheel is none, or is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCode:
    """One compiled library of a wheel."""

    name: str
    """Its path in the wheel."""
    links_torch: bool = False
    cudart_major: int | None = None
    glibc: str = ""
    gpu_code: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    torch_symbols: tuple[str, ...] = ()
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelCode:
    """The compiled libraries of a wheel."""

    libraries: tuple[LibraryCode, ...]
    downloaded: int = 0
    """Bytes that were read from the network for it."""


def code_behind(address: str, folder: Path, *, sha256: str) -> WheelCode:
    """Reads the libraries of the wheel behind an address, which lies in `folder` meanwhile.

    Raises NoWheel, also when its SHA-256 is not the given one, and Unreachable when the server sends no parts.
    """
    remote = RemoteFile(address)
    # Its libraries are nearly all of it, and only the whole file can be held against the index's SHA-256.
    file = folder / "wheel.whl"
    try:
        with file.open("wb") as made:
            shutil.copyfileobj(remote, made, 1 << 24)
        found = code_of(file, folder, sha256=sha256, about=without_secrets(address))
    finally:
        file.unlink(missing_ok=True)
    return WheelCode(libraries=found.libraries, downloaded=remote.downloaded)


def code_of(wheel: Path, folder: Path, *, sha256: str = "", about: str = "") -> WheelCode:
    """Reads the libraries of a wheel file. Raises NoWheel, also when its SHA-256 is not the given one."""
    about = about or str(wheel)
    if sha256:
        digest = hashlib.sha256()
        with wheel.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != sha256:
            hint = "Delete it, or download it again: one of the two is not what it says."
            raise NoWheel("the file's SHA-256 is not the one that the index gives", about=about, hint=hint)
    with wheel.open("rb") as stream, _archive(stream, about) as archive:
        return WheelCode(libraries=_read(archive, folder, about))


def _archive(stream: IO[bytes] | RemoteFile, about: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, OSError) as error:
        hint = "A download that was cut off, or a page that says why there is none?"
        raise NoWheel(f"that is no wheel: {error}", about=about, hint=hint) from None


def _libraries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [one for one in archive.infolist() if ".so" in one.filename.rpartition("/")[2] and not one.is_dir()]


def _read(archive: zipfile.ZipFile, folder: Path, about: str) -> tuple[LibraryCode, ...]:
    found = []
    for member in _libraries(archive):
        file = folder / "library.so"
        try:
            with archive.open(member) as source, file.open("wb") as made:
                shutil.copyfileobj(source, made, 1 << 22)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise NoWheel(f"{member.filename} in it cannot be unpacked: {error}", about=about) from None
        told = binaries.examine_lone(file)
        file.unlink()
        if isinstance(told, binaries.Unreadable):
            found.append(LibraryCode(name=member.filename, unreadable=told.detail or told.reason.value))
            continue
        found.append(
            LibraryCode(
                name=member.filename,
                links_torch=told.links_torch,
                cudart_major=told.cudart_major,
                glibc=told.glibc,
                gpu_code=told.gpu_code,
                gaps=told.gaps,
                torch_symbols=told.torch_symbols,
            )
        )
    return tuple(found)
