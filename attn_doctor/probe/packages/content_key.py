"""A key of an environment's content that costs milliseconds: names of distributions, size and time of their RECORDs.

Equal keys mean the same installed distributions, as far as installers keep their books. Files that are edited in place,
folders on PYTHONPATH, editable sources and system packages that a venv includes are not seen.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_KEPT = (".dist-info", ".egg-info", ".egg-link", ".pth")
_WHERE = ("site-packages", "dist-packages")


def content_key(prefix: Path) -> str:
    """The key of the environment in this folder; empty when it contains no distribution."""
    rows: list[str] = []
    for site in _sites(prefix):
        with contextlib.suppress(OSError), os.scandir(site) as entries:
            for entry in entries:
                if entry.name.endswith(_KEPT):
                    rows.append(f"{site.parent.name}/{entry.name} {_mark(entry)}")
    if not any(".dist-info" in row or ".egg-info" in row for row in rows):
        return ""
    from hashlib import blake2b  # loads OpenSSL

    return blake2b("\n".join(sorted(rows)).encode(errors="surrogateescape"), digest_size=12).hexdigest()


def _sites(prefix: Path) -> list[Path]:
    found = []
    for lib in ("lib", "lib64", "local/lib"):
        folder = prefix / lib
        if folder.is_symlink():  # lib64 -> lib
            continue
        with contextlib.suppress(OSError):
            pythons = sorted(one for one in folder.iterdir() if one.name.startswith(("python3", "pypy3")))
            found += [place for python in pythons for where in _WHERE if (place := python / where).is_dir()]
    return found


def _mark(entry: os.DirEntry[str]) -> str:
    """Size and time of the RECORD, which every installer writes anew; else of the entry itself."""
    for name in ("/RECORD", "/PKG-INFO", ""):
        with contextlib.suppress(OSError):
            about = Path(f"{entry.path}{name}").stat()
            return f"{about.st_size if name else 0} {about.st_mtime_ns}"
    return ""
