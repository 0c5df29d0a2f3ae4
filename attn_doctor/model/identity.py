"""Who a report is about: the node, the environment on it, the nodes it should be like, and what it is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_doctor.model.fingerprint import Fingerprint

_LONGEST = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeName:
    """What a node is called, and by whom."""

    name: str
    hostname: str
    named_by: str
    """SLURMD_NODENAME, NODE_NAME or hostname"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentName:
    """One Python environment; the same on every node that sees it under the same path."""

    id: str
    prefix: str
    image: str | None = None
    """The container image, where its runtime tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The nodes that a node is compared with: those where all of this is equal."""

    gpu: tuple[str, ...]
    """Names, each once, sorted."""
    compute_capability: tuple[str, ...]
    gpu_count: int | None
    """None when it could not be looked at."""
    partition: str | None
    """The Slurm job's."""
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """All of it for one report."""

    node: NodeName
    environment: EnvironmentName
    cohort: Cohort
    fingerprint: Fingerprint
    volatile: Mapping[str, Any] = field(default_factory=dict)
    """GPU UUIDs, boot, timings: different each time, never part of the fingerprint."""

    @property
    def file_name(self) -> str:
        """`<node>.<environment id>.json`, without anything that a folder or a shell would take otherwise."""
        return f"{safe_name(self.node.name)}.{safe_name(self.environment.id)}.json"


def safe_name(name: str) -> str:
    """A node's name as part of a file name and as one word of a line.

    Two names that only differ in what is replaced stay apart: the replaced one carries a hash.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_LONGEST].lstrip(".-") or "_"
    if safe == name:
        return safe
    import hashlib

    return f"{safe[: _LONGEST - 9]}-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:8]}"
