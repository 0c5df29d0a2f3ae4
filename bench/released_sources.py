"""The sources of released packages, from wheels and sdists that pip fetches as it is configured here."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

#: pip's words for each kind of archive. A Mac's wheel of torch holds the same Python files and no gigabytes of CUDA.
_FORMS = {
    "wheel": ("--only-binary", ":all:", "--python-version", "3.12"),
    "wheel-3.11": ("--only-binary", ":all:", "--python-version", "3.11"),
    "wheel-3.10": ("--only-binary", ":all:", "--python-version", "3.10"),
    "wheel-3.7": ("--only-binary", ":all:", "--python-version", "3.7"),
    "mac": ("--only-binary", ":all:", "--python-version", "3.11", "--platform", "macosx_11_0_arm64",
            "--platform", "macosx_14_0_arm64"),
    "mac-3.8": ("--only-binary", ":all:", "--python-version", "3.8", "--platform", "macosx_10_9_x86_64"),
    "sdist": ("--no-binary", ":all:", "--no-build-isolation"),
}  # fmt: skip


def in_folder(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Files below a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.name.endswith(suffixes):
            yield str(file.relative_to(folder)), file.read_bytes()


def in_archive(archive: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Files of a wheel or an sdist."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(suffixes):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as sdist:
        for member in sdist:
            opened = sdist.extractfile(member) if member.isfile() and member.name.endswith(suffixes) else None
            if opened is not None:
                yield member.name, opened.read()


#: Pythons that pip is asked for as well: releases without an sdist are listed for the Pythons of their wheels alone.
_OLDER_PYTHONS = ("3.10", "3.8", "3.7")


@cache
def versions(package: str, *, prereleases: bool = False) -> tuple[str, ...]:
    """Every release that the registry has, newest first, as it spells them."""
    found: dict[str, None] = {}
    for python in (None, *_OLDER_PYTHONS):
        command = [sys.executable, "-m", "pip", "index", "versions", package, *(["--pre"] if prereleases else [])]
        command += ["--only-binary", ":all:", "--python-version", python] if python else []
        done = subprocess.run(command, capture_output=True, text=True)
        line = next((one for one in done.stdout.splitlines() if one.startswith("Available versions:")), "")
        found.update(
            dict.fromkeys(one.strip() for one in line.partition(":")[2].split(",") if _is_version(one.strip()))
        )
    return tuple(sorted(found, key=Version, reverse=True))


def last_of_each(package: str, group: Callable[[Version], object], *, prereleases: bool = False) -> list[str]:
    """The last release of each group, newest first."""
    found: dict[object, str] = {}
    for spelled in versions(package, prereleases=prereleases):
        found.setdefault(group(Version(spelled)), spelled)
    return list(found.values())


def _is_version(spelled: str) -> bool:
    try:
        return not Version(spelled).local
    except InvalidVersion:
        return False


def fetch(
    package: str, version: str, scratch: Path, form: str, suffixes: tuple[str, ...], largest: int
) -> Iterator[tuple[str, bytes]]:
    """The files of one release; none where there is no archive of this form, or one of more bytes than `largest`.

    An sdist whose metadata cannot be made here lies unpacked where pip left it.
    """
    got = scratch / "got"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-clean", "-q", "-d", str(got), *_FORMS[form]]
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE",
        "PIP_NO_CACHE_DIR": "1",
    }
    try:
        subprocess.run([*command, f"{package}=={version}"], capture_output=True, env=environment, timeout=300)
    except subprocess.TimeoutExpired:
        return
    for archive in got.glob("*"):
        if archive.stat().st_size <= largest:
            yield from in_archive(archive, suffixes)
            return
    for unpacked in scratch.glob("pip-download-*/*"):
        if unpacked.is_dir():
            yield from in_folder(unpacked, suffixes)
