"""Reads `--accept FILE`, a site's policy: findings that are accepted, each with a reason and an expiry date, and
findings that count as errors at this site.

[[accept]]
id = "gpu-before-ampere"
reason = "the T4 partition serves only"
expires = 2027-01-31        # or leave it out
subject = "gpu 0"           # or leave it out: every subject

[[gate]]
id = "kernel-wrong-result"
reason = "our models pass float32 masks"
subject = "cell sdpa-*-fp32-mask-*"     # or leave it out: every subject
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.formats import toml
from attn_doctor.machine.files import read_input
from attn_doctor.model.findings import Acceptance, Gate

_MOST_BYTES = 4_000_000
_KEYS = {"id", "reason", "expires", "subject"}
_GATE_KEYS = {"id", "reason", "subject"}
_HINT = (
    'The file holds [[accept]] tables with id = "…", reason = "…", and if wanted expires = 2027-01-31, subject = "…"; '
    "and [[gate]] tables of the same, without an expiry."
)


def read(file: Path) -> tuple[Acceptance, ...]:
    """The accepted findings in a file.

    Raises BadInput for a file that is missing or invalid.
    """
    return policy(file)[0]


def policy(file: Path) -> tuple[tuple[Acceptance, ...], tuple[Gate, ...]]:
    """The accepted findings, and the ones that count as errors. Reads the file once, since it may be a pipe.

    Raises BadInput for a file that is missing or invalid.
    """
    tables, about = _tables(file), f"--accept {file}"
    known = tuple(_entry(entry, number, about) for number, entry in enumerate(tables.get("accept", ()), start=1))
    gates = []
    for number, entry in enumerate(tables.get("gate", ()), start=1):
        _sound(entry, _GATE_KEYS, f"{about}, [[gate]] number {number}")
        gates.append(Gate(id=entry["id"], reason=entry["reason"].strip(), subject=entry.get("subject", "")))
    return known, tuple(gates)


def _tables(file: Path) -> dict[str, list[Any]]:
    about = f"--accept {file}"
    try:
        table: dict[str, Any] = toml.parse(read_input(file, most=_MOST_BYTES).decode())
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the file is not UTF-8 text", about=about, hint=_HINT) from None
    except ValueError as error:
        raise BadInput(f"the file is not TOML: {error}", about=about, hint=_HINT) from None
    if not table or set(table) - {"accept", "gate"} or not all(isinstance(one, list) for one in table.values()):
        raise BadInput("the file holds no [[accept]] or [[gate]] tables, or other things", about=about, hint=_HINT)
    return table


def _entry(entry: Any, number: int, about: str) -> Acceptance:
    where = f"{about}, [[accept]] number {number}"
    _sound(entry, _KEYS, where)
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


def _sound(entry: Any, keys: set[str], where: str) -> None:
    if not isinstance(entry, dict):
        raise BadInput("an entry is no table", about=where, hint=_HINT)
    if set(entry) - keys:
        raise BadInput(f"unknown keys: {', '.join(sorted(set(entry) - keys))}", about=where, hint=_HINT)
    if not isinstance(entry.get("subject", ""), str):
        raise BadInput("subject is no text", about=where, hint=_HINT)
    for key in ("id", "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise BadInput(f"{key} is missing", about=where, hint=_HINT)
