"""Reads `--accept FILE`, a site's policy (model/policy.py): what is accepted, each with a reason and an expiry date,
what gates at this site, what is not compared, and thresholds. Each entry holds for every node, or for a partition's.

[[accept]]
id = "gpu-before-ampere"    # a finding; or fact = "packages.triton": a difference in it is benign
reason = "the T4 partition serves only"
expires = 2027-01-31        # or leave it out
subject = "gpu 0"           # or leave it out: every subject. Of a finding, and on the node itself alone
partition = "t4-*"          # or leave it out: every node

[[gate]]
id = "kernel-wrong-result"  # or fact = ["rdma_rate", "nic_pcie"]: a difference in them is critical
reason = "our models pass float32 masks"
subject = "cell sdpa-*-fp32-mask-*"     # or leave it out: every subject

[[ignore]]
fact = "env.OUR_*"          # not compared
reason = "each node has its own"

[[threshold]]
name = "slow-kernel-percent"
value = 15
partition = "old"
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.formats import toml
from attn_doctor.machine.files import read_input
from attn_doctor.model.findings import Acceptance, Gate
from attn_doctor.model.fingerprint import FAMILIES, NAMES, TABLE, Importance, fits
from attn_doctor.model.policy import THRESHOLDS, FactWeight, Policy, Threshold

_MOST_BYTES = 4_000_000
#: Table -> the keys of its entries, beside what they are about.
_KEYS = {
    "accept": {"reason", "expires", "subject", "partition"},
    "gate": {"reason", "subject", "partition"},
    "ignore": {"reason", "expires", "partition"},
    "threshold": {"name", "value", "partition", "reason"},
}
_WEIGHTS = {"accept": Importance.BENIGN, "gate": Importance.CRITICAL, "ignore": Importance.IGNORED}
_HINT = (
    'The file holds [[accept]] and [[gate]] tables with id = "…" (a finding) or fact = "…" (of fingerprints) and '
    'reason = "…", [[ignore]] tables with fact and reason, [[threshold]] tables with name and value; `attn-doctor '
    "fleet policy` prints one."
)


def read(file: Path, partition: str | None = None) -> tuple[Acceptance, ...]:
    """The findings in a file that are accepted on nodes of this partition.

    Raises BadInput for a file that is missing or invalid.
    """
    return policy(file).here(partition).acceptances


def policy(file: Path) -> Policy:
    """What the file says. Reads it once, since it may be a pipe.

    Raises BadInput for a file that is missing or invalid.
    """
    tables, about = _tables(file), f"--accept {file}"
    acceptances, gates, weights, thresholds = [], [], [], []
    for table in _KEYS:
        for number, entry in enumerate(tables.get(table, ()), start=1):
            where = f"{about}, [[{table}]] number {number}"
            _sound(entry, table, where)
            if table == "threshold":
                thresholds.append(_threshold(entry, where))
            elif "fact" in entry:
                weights += _weights(entry, table, where)
            elif table == "accept":
                acceptances.append(_acceptance(entry, where))
            else:
                gates.append(
                    Gate(
                        id=entry["id"],
                        reason=entry["reason"].strip(),
                        subject=entry.get("subject", ""),
                        partition=entry.get("partition", ""),
                    )
                )
    return Policy(
        acceptances=tuple(acceptances), gates=tuple(gates), weights=tuple(weights), thresholds=tuple(thresholds)
    )


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
    if not table or set(table) - set(_KEYS) or not all(isinstance(one, list) for one in table.values()):
        raise BadInput("the file holds no [[accept]] or [[gate]] tables, or other things", about=about, hint=_HINT)
    return table


def _acceptance(entry: dict[str, Any], where: str) -> Acceptance:
    return Acceptance(
        id=entry["id"],
        reason=entry["reason"].strip(),
        expires=_expiry(entry, where),
        subject=entry.get("subject", ""),
        partition=entry.get("partition", ""),
    )


def _weights(entry: dict[str, Any], table: str, where: str) -> list[FactWeight]:
    patterns = entry["fact"] if isinstance(entry["fact"], list) else [entry["fact"]]
    if not patterns or not all(isinstance(one, str) for one in patterns):
        raise BadInput("fact is neither a text nor a list of texts", about=where, hint=_HINT)
    if "subject" in entry:
        raise BadInput("a fact has no subject", about=where, hint="Leave it out, or name the one fact.")
    for pattern in patterns:
        _of_fingerprints(pattern, table, where)
    return [
        FactWeight(
            pattern=pattern,
            importance=_WEIGHTS[table],
            reason=entry["reason"].strip(),
            partition=entry.get("partition", ""),
            expires=_expiry(entry, where),
        )
        for pattern in patterns
    ]


def _of_fingerprints(pattern: str, table: str, where: str) -> None:
    """Refuses what no fingerprint has: a policy must not quietly hold nothing."""
    if pattern.count("*") > 1:
        raise BadInput(f"{pattern!r} has more than one star", about=where, hint="Write two entries.")
    known = pattern.partition(".")[0] in FAMILIES if "." in pattern else any(fits(one, pattern) for one in NAMES)
    if not known:
        import difflib

        close = difflib.get_close_matches(pattern, [*NAMES, *(f"{one}.*" for one in FAMILIES)], n=1, cutoff=0.6)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        hint += "`attn-doctor fleet policy` lists what there is."
        raise BadInput(f"no fingerprint has {pattern!r}", about=where, hint=hint)
    if table != "ignore" and any(pattern in patterns for weight, patterns in TABLE if weight is Importance.IGNORED):
        raise BadInput(
            f"nodes leave {pattern!r} out of their fingerprints: each rank, or each node, has its own value",
            about=where,
            hint="Nothing can be compared there.",
        )


def _threshold(entry: dict[str, Any], where: str) -> Threshold:
    name, value = entry.get("name"), entry.get("value")
    if name not in THRESHOLDS:
        raise BadInput(f"no threshold is called {name!r}", about=where, hint=f"One of {', '.join(THRESHOLDS)}.")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise BadInput("value is no number above 0", about=where, hint=_HINT)
    if name == "quarantine-percent" and entry.get("partition"):
        raise BadInput(f"{name} is of all nodes, not of a partition", about=where, hint="Leave partition out.")
    return Threshold(name=name, value=float(value), partition=entry.get("partition", ""))


def _expiry(entry: dict[str, Any], where: str) -> str:
    expires = entry.get("expires", "")
    if isinstance(expires, str) and expires:
        try:
            expires = date.fromisoformat(expires)
        except ValueError:
            raise BadInput(f"{expires!r} is no date", about=where, hint=_HINT) from None
    if expires and not isinstance(expires, date):
        raise BadInput("expires is no date", about=where, hint=_HINT)
    return expires.isoformat()[:10] if expires else ""


def _sound(entry: Any, table: str, where: str) -> None:
    if not isinstance(entry, dict):
        raise BadInput("an entry is no table", about=where, hint=_HINT)
    about = {"threshold": set(), "ignore": {"fact"}}.get(table, {"id", "fact"})
    if set(entry) - _KEYS[table] - about:
        unknown = ", ".join(sorted(set(entry) - _KEYS[table] - about))
        raise BadInput(f"unknown keys: {unknown}", about=where, hint=_HINT)
    for key in ("subject", "partition"):
        if not isinstance(entry.get(key, ""), str):
            raise BadInput(f"{key} is no text", about=where, hint=_HINT)
    if table == "threshold":
        return
    if len(about & set(entry)) != 1:
        raise BadInput(f"{' or '.join(sorted(about))} is missing, or both are there", about=where, hint=_HINT)
    for key in {"id", "reason"} & {*entry, "reason"}:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise BadInput(f"{key} is missing", about=where, hint=_HINT)
