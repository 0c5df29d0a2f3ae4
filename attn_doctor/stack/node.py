"""The node of an examined environment, as plans are made for it."""

from __future__ import annotations

from attn_doctor.model.facts import FactSet
from attn_doctor.model.stack import PlannedNode
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
