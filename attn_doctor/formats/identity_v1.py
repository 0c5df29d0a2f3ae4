"""The keys of report/v1 with the report's identity: node, environment, cohort, fingerprint, volatile."""

from __future__ import annotations

from typing import Any

from attn_doctor.model.facts import Unknown
from attn_doctor.model.fingerprint import Fingerprint, Trait
from attn_doctor.model.identity import Cohort, EnvironmentName, Identity, NodeName
from attn_doctor.quick_dataclasses import asdict


def to_json(identity: Identity) -> dict[str, Any]:
    """The keys, as JSON values."""
    cohort = identity.cohort
    return {
        "node": asdict(identity.node),
        "environment": asdict(identity.environment),
        "cohort": {
            "gpu": list(cohort.gpu),
            "compute_capability": list(cohort.compute_capability),
            "gpu_count": cohort.gpu_count,
            "partition": cohort.partition,
            "environment": cohort.environment,
        },
        "fingerprint": {
            "sha256": identity.fingerprint.sha256,
            "critical": identity.fingerprint.critical,
            "facts": {name: _trait(trait) for name, trait in identity.fingerprint.facts.items()},
        },
        "volatile": dict(identity.volatile),
    }


def from_json(written: dict[str, Any]) -> Identity:
    """The reverse of `to_json`; `written` is a whole report.

    Raises KeyError, TypeError or ValueError when it is invalid.
    """
    node, environment, cohort = written["node"], written["environment"], written["cohort"]
    fingerprint = written["fingerprint"]
    return Identity(
        node=NodeName(name=_text(node["name"]), hostname=_text(node["hostname"]), named_by=_text(node["named_by"])),
        environment=EnvironmentName(
            id=_text(environment["id"]), prefix=_text(environment["prefix"]), image=environment["image"]
        ),
        cohort=Cohort(
            gpu=tuple(cohort["gpu"]),
            compute_capability=tuple(cohort["compute_capability"]),
            gpu_count=cohort["gpu_count"],
            partition=cohort["partition"],
            environment=_text(cohort["environment"]),
        ),
        fingerprint=Fingerprint(
            sha256=_text(fingerprint["sha256"]),
            critical=_text(fingerprint["critical"]),
            facts={name: read_trait(trait) for name, trait in fingerprint["facts"].items()},
        ),
        volatile=dict(written["volatile"]),
    )


def read_trait(written: Any) -> Trait:
    """One fact of a fingerprint.

    Raises ValueError when it is invalid.
    """
    if isinstance(written, dict) and set(written) == {"unknown"}:
        return Unknown(_text(written["unknown"]))
    if written is None or (isinstance(written, (str, int)) and not isinstance(written, bool)):
        return written
    raise ValueError(f"no fact of a fingerprint: {str(written)[:80]!r}")


def _trait(trait: Trait) -> Any:
    return {"unknown": trait.reason} if isinstance(trait, Unknown) else trait


def _text(written: Any) -> str:
    if not isinstance(written, str):
        raise TypeError(f"not a string: {str(written)[:80]!r}")
    return written
