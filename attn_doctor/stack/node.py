"""The node of an examined environment, as plans are made for it."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import InvalidVersion, Version

from attn_doctor.model.facts import FactSet
from attn_doctor.model.stack import PlannedNode
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.stack_packages import as_capability


def node_of(facts: FactSet) -> PlannedNode:
    """The node as far as the facts say; what they do not say is empty.

    Of GPUs of several generations the oldest is its GPU, and the others have to be served as well.
    """
    gpus = facts.subjects("gpu")
    told = {facts.text(f"gpu.{index}.compute_capability") for index in gpus} - {None}
    capabilities = sorted((one for one in told if one is not None), key=as_capability)
    names = dict.fromkeys(facts.text(f"gpu.{index}.name") or "" for index in gpus)
    python = facts.text("python.version") or ""
    return PlannedNode(
        gpu=", ".join(filter(None, names)) or "the GPU there" if capabilities else "",
        capability=capabilities[0] if capabilities else "",
        more=tuple(capabilities[1:]),
        driver=facts.text("driver.version") or "",
        python=".".join(python.split(".")[:2]),
        glibc=facts.text("libc.version") or "",
        machine=facts.text("node.machine") or "",
    )


def together(nodes: Sequence[PlannedNode]) -> PlannedNode | None:
    """One node whose plans serve all of these: their GPUs, the oldest driver and C library.

    None where no plan can: several Pythons or processors, GPUs of AMD beside NVIDIA's, one without a known GPU.
    """
    first = nodes[0]
    same = {(one.python, one.machine, one.amd, bool(one.capability)) for one in nodes}
    if len(same) > 1:
        return None
    capabilities = sorted({each for one in nodes for each in one.capabilities}, key=as_capability)
    try:
        driver = min((one.driver for one in nodes if one.driver), key=Version, default="")
    except InvalidVersion:
        return None
    return replace(
        first,
        gpu=", ".join(dict.fromkeys(one.gpu for one in nodes if one.gpu)),
        capability=capabilities[0] if capabilities else "",
        more=tuple(capabilities[1:]),
        driver=driver,
        glibc=min((one.glibc for one in nodes), key=Version),
        assumed=tuple(dict.fromkeys(words for one in nodes for words in one.assumed)),
    )
