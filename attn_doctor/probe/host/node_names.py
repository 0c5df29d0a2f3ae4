"""Names of nodes and environments, by which reports of the same one are recognized. Reads only names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.model.digests import hex_digest
from attn_doctor.model.identity import EnvironmentName, NodeName

if TYPE_CHECKING:
    from attn_doctor.machine.target import Target  # starts processes, which `status` does not need


def node_name(environment: Mapping[str, str]) -> NodeName:
    """Slurm's name of the node; Kubernetes' name (NODE_NAME, set in the pod by the downward API); or the host name."""
    hostname = os.uname().nodename
    for variable in ("SLURMD_NODENAME", "NODE_NAME"):
        name = environment.get(variable, "").strip()
        if name:
            return NodeName(name=name, hostname=hostname, named_by=variable)
    return NodeName(name=hostname, hostname=hostname, named_by="hostname")


def environment_name(target: Target, environment: Mapping[str, str], node: NodeName) -> EnvironmentName:
    """The environment's short id: a hash of its folder (without the node's name), its Python and its image."""
    prefix = str(target.prefix)
    image = _image(environment)
    minor = ".".join(target.version.split(".")[:2])
    known_by = "\0".join((without_node(prefix, node), minor, image or ""))
    digest = hex_digest(known_by)
    return EnvironmentName(id=digest[:10], prefix=prefix, image=image)


def without_node(text: str, node: NodeName) -> str:
    """The path with `{node}` in place of this node's name: /local/n17/venv becomes /local/{node}/venv."""
    names = {node.name, node.hostname, node.name.partition(".")[0], node.hostname.partition(".")[0]}
    for name in sorted(names, key=lambda one: (-len(one), one)):
        if name:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "{node}", text)
    return text


def boot_id(root: Path = Path("/")) -> str | None:
    """The kernel's boot id, which changes at each restart."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def _image(environment: Mapping[str, str]) -> str | None:
    # Docker and containerd do not show the image inside; Slurm's own runtime names the bundle.
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER"):
        if environment.get(variable):
            return environment[variable]
    return None
