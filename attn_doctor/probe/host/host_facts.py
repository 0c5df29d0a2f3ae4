"""Host and fabric: adapters and their links, RDMA ports, IOMMU, limits, huge pages, kernel modules, the clock.

host_reads.py reads them, in the process that asks the driver; here its answer becomes facts.
"""

from __future__ import annotations

import marshal
from pathlib import Path
from typing import Any

from attn_doctor.model.facts import Fact, Value
from attn_doctor.probe.fact_notes import FactNotes

#: Fact -> key of the answer, and how the value was found.
_OF_NODE = (
    ("node.iommu", "iommu", "/sys/kernel/iommu_groups of GPUs and adapters"),
    ("node.acs_bridges", "acs_bridges", "configuration space of the PCI bridges above GPUs and adapters"),
    ("node.hugepages", "hugepages", "/sys/kernel/mm/hugepages"),
    ("node.transparent_hugepages", "transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled"),
)
#: Attribute -> key of the answer.
_NIC = {
    "model": "model", "driver": "driver", "firmware": "firmware", "interface": "interface", "link": "link",
    "mbps": "mbps", "pcie_width": "width", "pcie_max_width": "max_width", "pcie_speed": "speed",
    "pcie_max_speed": "max_speed",
}  # fmt: skip
_PORT = {
    "model": "model", "firmware": "firmware", "state": "state", "physical_state": "physical", "rate": "rate",
    "link_layer": "layer",
}  # fmt: skip
_PCI, _PORTS, _MODULES, _LIMITS = "/sys/bus/pci/devices", "/sys/class/infiniband", "/sys/module", "getrlimit"


def probe(answer: Path) -> tuple[Fact, ...]:
    """The facts of the answer in this file; all unknown when it is not there."""
    try:
        found: dict[str, Any] = marshal.loads(answer.read_bytes())  # noqa: S302 - our own process wrote it, here
    except (OSError, ValueError, EOFError, TypeError):
        lost = {"unknown": "reading /sys did not end in time: a port or an adapter whose firmware hangs?"}
        found = dict.fromkeys(("nics", "rdma", "modules", "limits", "clock", *(key for _, key, _ in _OF_NODE)), lost)
    notes = FactNotes()
    for name, key, how in _OF_NODE:
        _note(notes, name, found.get(key), how)
    _note_each(notes, "nic", found["nics"], "address", _NIC, _PCI)
    _note_each(notes, "rdma", found["rdma"], "name", _PORT, _PORTS)
    _note_modules(notes, found["modules"])
    _note_limits(notes, found["limits"])
    _note_clock(notes, found["clock"])
    return notes.facts()


def _note(notes: FactNotes, name: str, value: Any, how: str) -> None:
    reason = _reason(value)
    if reason is not None:
        notes.unknown(name, how, reason)
    else:
        said: Value | None = value
        notes.known_or_absent(name, said, how)


def _reason(value: Any) -> str | None:
    """Why it could not be looked at."""
    return value["unknown"] if isinstance(value, dict) and set(value) == {"unknown"} else None


def _note_each(notes: FactNotes, kind: str, members: Any, subject: str, attributes: dict[str, str], how: str) -> None:
    if _reason(members) is not None:
        notes.unknown(f"listed.{kind}", how, str(_reason(members)))
        return
    notes.known(f"listed.{kind}", len(members), how)
    for member in members:
        for attribute, key in attributes.items():
            _note(notes, f"{kind}.{member[subject]}.{attribute}", member[key], f"{how}/{member[subject]}")


def _note_modules(notes: FactNotes, modules: Any) -> None:
    if _reason(modules) is not None:
        notes.unknown("listed.kernel_module", _MODULES, str(_reason(modules)))
        return
    notes.known("listed.kernel_module", len(modules), _MODULES)
    for name, version in modules.items():
        notes.known(f"kernel_module.{name}.loaded", True, f"{_MODULES}/{name}")
        _note(notes, f"kernel_module.{name}.version", version or None, f"{_MODULES}/{name}/version")


def _note_limits(notes: FactNotes, limits: Any) -> None:
    if _reason(limits) is not None:
        notes.unknown("listed.limit", _LIMITS, str(_reason(limits)))
        return
    notes.known("listed.limit", len(limits), _LIMITS)
    for name, (soft, hard) in limits.items():
        notes.known(f"limit.{name}.soft", soft, _LIMITS)
        notes.known(f"limit.{name}.hard", hard, _LIMITS)


def _note_clock(notes: FactNotes, clock: Any) -> None:
    for name, key in (("node.clock_synchronized", "synchronized"), ("node.clock_error_ms", "error_ms")):
        _note(notes, name, clock if _reason(clock) is not None else clock[key], "adjtimex")
