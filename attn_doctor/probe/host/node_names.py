"""What a node and an environment are called, so that reports of one of them find together. Reads nothing but names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.model.identity import EnvironmentName, NodeName

if TYPE_CHECKING:
    from attn_doctor.machine.target import Target  # starts processes, which `status` does not


def node_name(environment: Mapping[str, str]) -> NodeName:
    """Slurm's name of the node; Kubernetes' (the pod names it NODE_NAME by the downward API); the host name."""
    hostname = os.uname().nodename
    for variable in ("SLURMD_NODENAME", "NODE_NAME"):
        name = environment.get(variable, "").strip()
        if name:
            return NodeName(name=name, hostname=hostname, named_by=variable)
    return NodeName(name=hostname, hostname=hostname, named_by="hostname")


def environment_name(target: Target, environment: Mapping[str, str], node: NodeName) -> EnvironmentName:
    """The environment's short id: of its folder (the node's name in it replaced), its Python and its image."""
    prefix = str(target.prefix)
    image = _image(environment)
    minor = ".".join(target.version.split(".")[:2])
    known_by = "\0".join((without_node(prefix, node), minor, image or ""))
    import hashlib  # OpenSSL: not for `status`

    digest = hashlib.sha256(known_by.encode(errors="surrogateescape")).hexdigest()
    return EnvironmentName(id=digest[:10], prefix=prefix, image=image)


def without_node(text: str, node: NodeName) -> str:
    """A path with `{node}` where it names this node: /local/n17/venv is /local/{node}/venv."""
    names = {node.name, node.hostname, node.name.partition(".")[0], node.hostname.partition(".")[0]}
    for name in sorted(names, key=lambda one: (-len(one), one)):
        if name:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "{node}", text)
    return text


def boot_id(root: Path = Path("/")) -> str | None:
    """What the kernel calls this run of the node; another one after each restart."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def _image(environment: Mapping[str, str]) -> str | None:
    # Docker and containerd tell nothing of the image inside; Slurm's own runtime names the bundle.
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER"):
        if environment.get(variable):
            return environment[variable]
    return None
