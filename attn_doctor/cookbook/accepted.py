"""`--accept FILE`: findings that somebody knows and lives with, each with a reason and an expiry.

[[accept]]
id = "gpu-before-ampere"
reason = "the T4 partition serves only"
expires = 2027-01-31        # or leave it out
subject = "gpu 0"           # or leave it out: every subject
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import read_input
from attn_doctor.model.findings import Acceptance

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 4_000_000
_KEYS = {"id", "reason", "expires", "subject"}
_HINT = (
    'The file holds [[accept]] tables with id = "…", reason = "…", and if wanted expires = 2027-01-31, subject = "…".'
)


def read(file: Path) -> tuple[Acceptance, ...]:
    """The acceptances of a file.

    Raises BadInput for a file that is missing, broken, or says something else.
    """
    about = f"--accept {file}"
    try:
        table = tomllib.loads(read_input(file, most=_MOST_BYTES).decode())
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the file is not UTF-8 text", about=about, hint=_HINT) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"the file is not TOML: {error}", about=about, hint=_HINT) from None
    entries = table.get("accept")
    if set(table) != {"accept"} or not isinstance(entries, list):
        raise BadInput("the file holds no [[accept]] tables, or other things", about=about, hint=_HINT)
    return tuple(_entry(entry, number, about) for number, entry in enumerate(entries, start=1))


def _entry(entry: Any, number: int, about: str) -> Acceptance:
    where = f"{about}, [[accept]] number {number}"
    if not isinstance(entry, dict):
        raise BadInput("an entry is no table", about=where, hint=_HINT)
    if set(entry) - _KEYS:
        raise BadInput(f"unknown keys: {', '.join(sorted(set(entry) - _KEYS))}", about=where, hint=_HINT)
    if not isinstance(entry.get("subject", ""), str):
        raise BadInput("subject is no text", about=where, hint=_HINT)
    for key in ("id", "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise BadInput(f"{key} is missing", about=where, hint=_HINT)
    expires = entry.get("expires", "")
    if isinstance(expires, str) and expires:
        try:
            expires = date.fromisoformat(expires)
        except ValueError:
            raise BadInput(f"{expires!r} is no date", about=where, hint=_HINT) from None
    if expires and not isinstance(expires, date):
        raise BadInput("expires is no date", about=where, hint=_HINT)
    return Acceptance(
        id=entry["id"],
        reason=entry["reason"].strip(),
        expires=expires.isoformat()[:10] if expires else "",
        subject=entry.get("subject", ""),
    )
