"""Identity of a report: the node, the environment on it, the cohort it is compared with, and its fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attn_doctor.model.digests import hex_digest
from attn_doctor.model.fingerprint import Fingerprint
from attn_doctor.quick_dataclasses import dataclass, field

_LONGEST = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeName:
    """A node's name, and where the name was found."""

    name: str
    hostname: str
    named_by: str
    """SLURMD_NODENAME, NODE_NAME or hostname."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentName:
    """One Python environment; equal on all nodes that have it at the same path."""

    id: str
    prefix: str
    image: str | None = None
    """The container image, when the container runtime reports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The group of nodes with which a node is compared: those for which all these fields are equal."""

    gpu: tuple[str, ...]
    """GPU names, each once, sorted."""
    compute_capability: tuple[str, ...]
    gpu_count: int | None
    """None when unknown."""
    partition: str | None
    """Partition of the Slurm job."""
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of one report."""

    node: NodeName
    environment: EnvironmentName
    cohort: Cohort
    fingerprint: Fingerprint
    volatile: Mapping[str, Any] = field(default_factory=dict)
    """GPU UUIDs, boot id and timings: different in each run, never part of the fingerprint."""

    @property
    def file_name(self) -> str:
        """`<node>.<environment id>.json`, without characters that are special in file names or shells."""
        return f"{safe_name(self.node.name)}.{safe_name(self.environment.id)}.json"


def safe_name(name: str) -> str:
    """A node's name, made safe for use in a file name and as one word of a line.

    A name in which characters were replaced gets a hash, so that two different names never become equal.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_LONGEST].lstrip(".-") or "_"
    if safe == name:
        return safe
    return f"{safe[: _LONGEST - 9]}-{hex_digest(name)[:8]}"
