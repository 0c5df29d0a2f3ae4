"""Makes fingerprint and cohort from facts and names. Equal nodes give equal ones, for any folders and any user.

Never from assumed facts: a fingerprint describes the real node.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from attn_doctor.model import fingerprint
from attn_doctor.model.facts import Absent, FactName, FactSet, Known, State, Unknown
from attn_doctor.model.fingerprint import Fingerprint, Trait
from attn_doctor.model.identity import Cohort
from attn_doctor.model.libraries import libraries

#: Traits that are one fact each. torch's own file is more reliable than its metadata, and contains the build.
_PLAIN = {
    "python_release": "python.version",
    "cuda_runtime": "torch.cuda",
    "rocm_runtime": "torch.hip",
    "torch_commit": "torch.git_version",
    "gpu_count": "listed.gpu",
    "driver": "driver.version",
    "driver_cuda": "driver.cuda",
    "kernel": "node.kernel",
    "machine": "node.machine",
    "os": "node.os",
    "container": "node.container",
    "glibc": "libc.version",
}

#: Libraries that are listed even when absent.
_NAMED_WHEN_ABSENT = (
    "libraries.libtorch_cuda.so", "libraries.libnccl.so.2", "libraries.libtriton.so",
    *(f"libraries.{module}" for library in libraries() for module in library.kernels_in),
)  # fmt: skip


#: Traits of the host and the fabric that are one fact each.
_OF_HOST = {
    "iommu": "node.iommu",
    "acs_bridges": "node.acs_bridges",
    "hugepages": "node.hugepages",
    "transparent_hugepages": "node.transparent_hugepages",
    "clock_synchronized": "node.clock_synchronized",
}

#: Traits that count what a node has several of, and the attributes that are counted: addresses and names of devices
# differ between equal nodes, how many of which sort there are does not.
_COUNTED = {
    "nics": ("nic", ("model",)),
    "nic_firmware": ("nic", ("model", "firmware")),
    "nic_links": ("nic", ("link", "mbps")),
    "nic_pcie": ("nic", ("pcie_width", "pcie_speed")),
    "rdma_devices": ("rdma", ("model",)),
    "rdma_firmware": ("rdma", ("model", "firmware")),
    "rdma_ports": ("rdma", ("link_layer", "state")),
    "rdma_rate": ("rdma", ("rate",)),
    "gpu_mig": ("gpu", ("mig",)),
    "gpu_pcie": ("gpu", ("pcie_width", "pcie_generation")),
    "gpu_persistence": ("gpu", ("persistence",)),
    "gpu_ecc": ("gpu", ("ecc",)),
    "gpu_row_remapping": ("gpu", ("row_remapping",)),
    "gpu_nvlinks": ("gpu", ("nvlinks_up", "nvlinks")),
}

#: How the numbers among these are written.
_UNITS = {
    "pcie_width": "x{}", "pcie_generation": "generation {}", "mbps": "{} Mb/s",
    "nvlinks_up": "{} of", "nvlinks": "{} up",
}  # fmt: skip

#: Families of traits, and the listings that say which there are.
_FAMILIES = {
    "packages.*": ("listed.package",),
    "libraries.*": ("listed.extension", "listed.library"),
    "library_path.*": ("listed.extension", "listed.library"),
    "env.*": ("listed.env",),
    "kernel_modules.*": ("listed.kernel_module",),
    "limits.*": ("listed.limit",),
}


class Places:
    """Names that differ between equal nodes, with a placeholder for each: folders, the node, the user."""

    def __init__(
        self, *, folders: Iterable[tuple[str, str]] = (), hosts: Iterable[str] = (), users: Iterable[str] = ()
    ) -> None:
        """`folders` are (path, placeholder) pairs: (`/opt/venv`, `prefix`). Longer paths are replaced first."""
        self._folders = sorted(
            ((path.rstrip("/"), word) for path, word in folders if path.strip("/")), key=lambda one: (-len(one[0]), one)
        )
        self._names = [
            *((name, "node") for name in sorted({*hosts}, key=lambda one: (-len(one), one)) if name),
            # A user name of one or two letters would also match inside other words; root is the same everywhere.
            *((name, "user") for name in sorted({*users}) if len(name) > 2 and name != "root"),
        ]

    def without(self, text: str) -> str:
        """The text with `{prefix}`, `{home}`, `{node}`, `{user}` in place of these names."""
        for path, word in self._folders:
            text = re.sub(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)", f"{{{word}}}", text)
        for name, word in self._names:
            text = re.sub(rf"(?<![\w.{{-]){re.escape(name)}(?![\w}}-])", f"{{{word}}}", text)
        return text


def fingerprint_from(facts: FactSet, *, packages: Iterable[str], places: Places) -> Fingerprint:
    """The fingerprint of these facts. `packages` are the distributions to list even when they are absent."""
    states: dict[str, State] = {name: facts.fact(fact).state for name, fact in _PLAIN.items()}
    for package in {*packages, *facts.subjects("package")}:
        states[f"packages.{package}"] = facts.fact(f"package.{package}.version").state
    if isinstance(facts.fact("torch.version").state, Known):
        states["packages.torch"] = facts.fact("torch.version").state
    states["python"] = _minor(facts.fact("python.version").state)
    states["compute_capability"] = _of_gpus(facts, "compute_capability")
    states["gpu"] = _of_gpus(facts, "name")
    for module in facts.subjects("extension"):
        states[f"libraries.{module}"] = facts.fact(f"extension.{module}.identity").state
        states[f"library_path.{module}"] = facts.fact(f"extension.{module}.path").state
    for library in facts.subjects("library"):
        states[f"libraries.{library}"] = facts.fact(f"library.{library}.identity").state
        states[f"library_path.{library}"] = facts.fact(f"library.{library}.path").state
    for name in _NAMED_WHEN_ABSENT:
        listing = facts.fact("listed.library" if ".so" in name else "listed.extension").state
        states.setdefault(name, listing if isinstance(listing, Unknown) else Absent("not there"))
    for variable in facts.subjects("env"):
        state = facts.fact(f"env.{variable}").state
        if not isinstance(state, Absent):  # unset ones would be all possible names
            states[f"env.{variable}"] = state
    states |= _of_host(facts)
    for family, listings in _FAMILIES.items():
        # A member that could not be listed is not absent: without this it would count as such.
        named = (FactName.parse(listing) for listing in listings)
        unlisted = [facts[one].state for one in named if one in facts and isinstance(facts[one].state, Unknown)]
        if unlisted:
            states[family] = unlisted[0]
    return fingerprint.fingerprint_of({name: _trait(name, state, places) for name, state in states.items()})


def _of_host(facts: FactSet) -> dict[str, State]:
    """Host and fabric. Without the probe (a report of a log, of assumptions) there are none of these."""
    states = {name: facts.fact(fact).state for name, fact in _OF_HOST.items() if FactName.parse(fact) in facts}
    for name, (kind, attributes) in _COUNTED.items():
        if FactName.parse(f"listed.{kind}") in facts:
            states[name] = _counted(facts, kind, attributes)
    for module in facts.subjects("kernel_module"):
        version = facts.fact(f"kernel_module.{module}.version").state
        states[f"kernel_modules.{module}"] = Known("loaded") if isinstance(version, Absent) else version
    for limit in facts.subjects("limit"):
        # Registered memory is locked: without RDMA the limit of that is as good as any.
        if limit != "memlock" or facts.value("listed.rdma") != 0:
            states[f"limits.{limit}"] = facts.fact(f"limit.{limit}.soft").state
    return states


def _counted(facts: FactSet, kind: str, attributes: tuple[str, ...]) -> State:
    """`7 × InfiniBand ACTIVE, 1 × InfiniBand DOWN`; absent when there is none of the kind."""
    listed = facts.fact(f"listed.{kind}").state
    if isinstance(listed, Unknown):
        return listed
    counts: dict[str, int] = {}
    for subject in facts.subjects(kind):
        states = [facts.fact(f"{kind}.{subject}.{attribute}").state for attribute in attributes]
        unknown = next((state for state in states if isinstance(state, Unknown)), None)
        if unknown is not None:
            return unknown
        words = _member_words(attributes, states)
        counts[words] = counts.get(words, 0) + 1
    text = ", ".join(f"{count} × {words}" for words, count in sorted(counts.items()))
    return Known(text) if text else Absent("there is none")


def _member_words(attributes: tuple[str, ...], states: list[State]) -> str:
    """`x16 32.0 GT/s`: what is known of one member, in a word each."""
    words = []
    for attribute, state in zip(attributes, states, strict=True):
        if isinstance(state, Known):
            value = {True: "on", False: "off"}[state.value] if isinstance(state.value, bool) else state.value
            words.append(_UNITS.get(attribute, "{}").format(value))
    return " ".join(words) or f"no {attributes[0].replace('_', ' ')}"


def cohort_of(facts: FactSet, *, partition: str | None, environment: str) -> Cohort:
    """The cohort of a node: the key that equal nodes share."""
    count = facts.value("listed.gpu")
    return Cohort(
        gpu=_distinct(facts, "name"),
        compute_capability=_distinct(facts, "compute_capability"),
        gpu_count=count if isinstance(count, int) else None,
        partition=partition,
        environment=environment,
    )


def _trait(name: str, state: State, places: Places) -> Trait:
    match state:
        case Known(bool() as yes):
            return "yes" if yes else "no"
        case Known(int() as number):
            return number
        case Known(str() as path) if name.startswith("library_path."):
            return places.without(posixpath.normpath(path))  # RPATHs of wheels contain `..`
        case Known(value):
            # Only in paths: on a node called `h100` the same word may mean the GPU.
            return places.without(str(value)) if name.startswith("env.") else str(value)
        case Unknown(reason):
            return Unknown(places.without(reason))
        case Absent():
            return None
    raise AssertionError(state)


def _minor(state: State) -> State:
    if isinstance(state, Known):
        return Known(".".join(str(state.value).split(".")[:2]))
    return state


def _of_gpus(facts: FactSet, attribute: str) -> State:
    listed = facts.fact("listed.gpu").state
    if isinstance(listed, Unknown):
        return listed
    for index in facts.subjects("gpu"):
        state = facts.fact(f"gpu.{index}.{attribute}").state
        if isinstance(state, Unknown):
            return state
    names = _distinct(facts, attribute)
    return Known(", ".join(names)) if names else Absent("no GPU")


def _distinct(facts: FactSet, attribute: str) -> tuple[str, ...]:
    values = (facts.value(f"gpu.{index}.{attribute}") for index in facts.subjects("gpu"))
    return tuple(sorted({str(value) for value in values if value is not None}))
