"""A policy as TOML, as `--accept` reads it (recipes/data/accepted.py): a site's entries, then the built-in table."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attn_doctor.model.fingerprint import TABLE, Importance, fits
from attn_doctor.model.policy import THRESHOLDS, Policy

_TABLES = {Importance.BENIGN: "accept", Importance.CRITICAL: "gate", Importance.IGNORED: "ignore"}
_REASONS = {
    Importance.IGNORED: "differs between equal nodes: nodes leave it out of their fingerprints",
    Importance.CRITICAL: "decides which kernel runs, in which dtype, or whether ranks can communicate",
    Importance.BENIGN: "equal jobs run on both nodes",
}


def dumps(policy: Policy) -> str:
    """The policy, and what holds where it says nothing."""
    return "\n".join((*_own(policy), *_built_in(policy))) + "\n"


def _own(policy: Policy) -> Iterator[str]:
    for one in policy.acceptances:
        expires = {"expires": one.expires} if one.expires else {}
        named = {"subject": one.subject, "partition": one.partition, **expires}
        yield _entry("accept", id=one.id, reason=one.reason, **named)
    for gate in policy.gates:
        yield _entry("gate", id=gate.id, reason=gate.reason, subject=gate.subject, partition=gate.partition)
    for weight in policy.weights:
        named = {"partition": weight.partition, "expires": weight.expires}
        yield _entry(_TABLES[weight.importance], fact=weight.pattern, reason=weight.reason, **named)
    for threshold in policy.thresholds:
        yield _entry("threshold", name=threshold.name, value=threshold.value, partition=threshold.partition)


def _built_in(policy: Policy) -> Iterator[str]:
    yield "# Built in. Of several entries that fit a fact, one with a partition counts first, then the longest.\n"
    said = [one.pattern for one in policy.weights if not one.partition]
    for importance, patterns in (*TABLE, (Importance.CRITICAL, ("*",))):
        left = [one for one in patterns if not any(fits(one, pattern) for pattern in said)]
        if left:
            yield _entry(_TABLES[importance], fact=left, reason=_REASONS[importance])
    told = {one.name for one in policy.thresholds if not one.partition}
    for name, (value, meaning) in THRESHOLDS.items():
        if name not in told:
            yield f"# {meaning}\n" + _entry("threshold", name=name, value=value)


def _entry(table: str, **keys: object) -> str:
    lines = [f"[[{table}]]"]
    for key, value in keys.items():
        if isinstance(value, list):
            lines.append(f"{key} = [\n" + "".join(f"  {_text(one)},\n" for one in value) + "]")
        elif value != "":
            lines.append(f"{key} = {_text(value)}")
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    # JSON's strings are TOML's basic strings, and its numbers TOML's.
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)
