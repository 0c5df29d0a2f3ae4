"""Makes staged metadata say what it would say had the installer worked in the environment itself."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from attn_doctor.machine.atomic import put

#: Gives the path in the environment of a staged file.
Placed = Callable[[Path], Path]


def settle(
    info: Path,
    *,
    placed: Placed,
    requested: bool,
    came_from: Mapping[str, str],
    compiled: tuple[Path, ...],
    lists_compiled: bool,
) -> None:
    """Settles one dist-info folder: RECORD, REQUESTED and direct_url.json, with no path of the stage in any.

    `came_from`: staged copy of a wheel -> the file that the user named. `compiled`: its modules' bytecode, which pip
    lists and uv does not. Raises OSError, ValueError.
    """
    record = info / "RECORD"
    text = record.read_bytes().decode("utf-8", errors="surrogateescape")
    end = "\r\n" if "\r\n" in text else "\n"
    rows = [tuple(row) for row in csv.reader(io.StringIO(text, newline="")) if row]
    site = info.parent
    changed = _settle_requested(info, requested=requested) | _settle_address(info, came_from)
    named = {name: info / name.rpartition("/")[2] for name, *_ in rows if name.startswith(f"{info.name}/")}
    kept = []
    for row in rows:
        file = named.get(row[0])
        if file is not None and file.name in changed:
            row = _row(row[0], file) if file.exists() else ()
        if row:
            staged = Path(os.path.normpath(site / row[0]))
            kept.append((os.path.relpath(placed(staged), placed(site)), *row[1:]))
    if lists_compiled:
        there = {row[0] for row in kept}
        new = (os.path.relpath(placed(one), placed(site)) for one in compiled)
        kept = sorted([*kept, *((name, "", "") for name in new if name not in there)])
    if kept == rows:
        return
    made = io.StringIO(newline="")
    csv.writer(made, lineterminator=end).writerows(kept)
    _write(record, made.getvalue().encode("utf-8", errors="surrogateescape"))


def _settle_requested(info: Path, *, requested: bool) -> set[str]:
    """The installer was given every release by name; nobody asked for what only another one needs."""
    mark = info / "REQUESTED"
    if requested or not mark.exists():
        return set()
    mark.unlink()
    return {mark.name}


def _settle_address(info: Path, came_from: Mapping[str, str]) -> set[str]:
    file = info / "direct_url.json"
    if not file.exists():
        return set()
    said = json.loads(file.read_bytes())
    for copy, original in came_from.items():
        if said.get("url") == Path(copy).as_uri():
            said["url"] = Path(original).as_uri()
            _write(file, json.dumps(said, sort_keys=True).encode())
            return {file.name}
    return set()


def _row(name: str, file: Path) -> tuple[str, str, str]:
    content = file.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return name, f"sha256={digest}", str(len(content))


def _write(file: Path, content: bytes) -> None:
    """A new file: the old one may be a link into the installer's cache."""
    put(file, content, part=file.with_name(f"{file.name}.part"), mode=stat.S_IMODE(file.stat().st_mode))


def digests(info: Path) -> dict[str, str]:
    """Absolute path -> SHA-256 in hexadecimal digits, as far as RECORD has them."""
    found = {}
    try:
        with (info / "RECORD").open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
            for row in csv.reader(stream):
                if len(row) > 1 and row[1].startswith("sha256="):
                    encoded = row[1].removeprefix("sha256=")
                    digest = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex()
                    found[os.path.normpath(info.parent / row[0])] = digest
    except (OSError, ValueError):
        return found
    return found
