"""A driver that does not know the GPU of its node: a conflict of the node itself, whatever is wanted. Pure."""

from __future__ import annotations

from packaging.version import InvalidVersion

from attn_doctor.model.stack import Alternative, Clash, PlannedNode
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.drivers import SOURCE, unfit_for


def driver_clash(node: PlannedNode) -> tuple[Clash, PlannedNode, str] | None:
    """The conflict, the node with the nearest driver that knows its GPUs, and those drivers in words.

    None when the driver knows them, or that is not known.
    """
    try:
        unfit = unfit_for(node.driver, node.capabilities) if node.driver else None
    except InvalidVersion:
        return None
    if unfit is None or unfit_for(unfit.branch, node.capabilities) is not None:
        return None
    gpu = f"{node.gpu} ({unfit.capability})"
    words = f"driver {node.driver} does not know this GPU: {gpu} needs {unfit.words}, whatever is installed"
    return Clash(wants=(), words=words, sources=(SOURCE,)), replace(node, driver=unfit.branch), unfit.words


def with_driver(drivers: str, node: PlannedNode, one: Alternative) -> Alternative:
    """The alternative that fulfils all else, once the node has such a driver; one that ends a conflict as it is."""
    if one.ends is not None:
        return one
    gives_up = " and ".join(filter(None, (f"driver {node.driver}", one.gives_up)))
    return replace(one, title=f"with {drivers}: {one.title}", gives_up=gives_up)
