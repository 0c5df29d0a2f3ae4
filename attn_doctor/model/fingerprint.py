"""Fingerprint of a node's attention stack: flat facts, the importance of each, and a hash over them.

No input or output: diagnose/fingerprint.py selects the facts, formats/report_v1.py writes them as JSON. None means
absent, which is a value like any other; `Unknown` means that the probe could not look.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from attn_doctor.model.digests import sha256
from attn_doctor.model.facts import Unknown
from attn_doctor.model.libraries import distributions
from attn_doctor.quick_dataclasses import dataclass, field

Trait: TypeAlias = str | int | Unknown | None


class Importance(str, Enum):
    """How much a difference in a fact matters between nodes that should be equal."""

    CRITICAL = "critical"
    """Decides which kernel runs, in which dtype, or whether ranks can communicate."""
    BENIGN = "benign"
    """Reported, but equal jobs run on both nodes."""
    IGNORED = "ignored"
    """Differs between equal nodes; not part of the fingerprint."""


#: The first pattern that matches a fact's name decides. A fact that matches none is critical, so that a new fact is
# never ignored by accident. A pattern has one star at most.
TABLE: tuple[tuple[Importance, tuple[str, ...]], ...] = (
    (
        Importance.IGNORED,
        (
            "env.CUDA_VISIBLE_DEVICES", "env.NVIDIA_VISIBLE_DEVICES",  # each rank's own
            "env.NCCL_HOSTID", "env.NCCL_DEBUG_FILE", "env.NCCL_*_DUMP_FILE", "env.NCCL_COMM_ID",
            "env.TORCH_NCCL_DEBUG_INFO_*",
            "env.TRITON_*_DIR", "env.TRITON_HOME", "env.TRITON_CACHE_*",
        ),
    ),
    (
        Importance.CRITICAL,
        tuple(
            f"packages.{name}"
            for name in (
                *distributions(),
                "torch", "triton", "pytorch-triton", "pytorch-triton-rocm", "transformers", "x-transformers",
                "causal-conv1d", "mamba-ssm", "bitsandbytes", "nvidia-cutlass-dsl", "deepspeed", "vllm", "sglang",
                "sgl-kernel", "sglang-kernel", "llamafactory", "accelerate", "peft", "kernels", "tilelang",
                "flashinfer-python", "natten", "spas-sage-attn", "apache-tvm-ffi", "text-generation-server", "lmdeploy",
                "autoawq-kernels", "auto-gptq", "exllamav2",
            )
        ),
    ),
    (
        Importance.BENIGN,
        (
            # Includes NVIDIA's wheels. Two of them can write the same file and the last one wins, so the file itself
            # counts (libraries.*).
            # https://github.com/marin-community/marin/issues/7344
            "packages.*",
            "libraries.torchvision.*", "libraries.torchaudio.*",
            "libraries.libstdc++.so*", "libraries.libgomp*", "library_path.*",
            "env.NCCL_DEBUG", "env.NCCL_DEBUG_*",
            "env.LD_LIBRARY_PATH", "env.LD_PRELOAD", "env.PYTHONPATH",  # the files they lead to count
            "env.CUDA_HOME", "env.CUDA_PATH", "env.CC", "env.TORCH_CUDA_ARCH_LIST", "env.PYTORCH_ROCM_ARCH",
            "env.FLASH_ATTENTION_FORCE_BUILD", "env.FLASH_ATTENTION_SKIP_CUDA_BUILD", "env.FLASH_ATTN_CUDA_ARCHS",
            "env.DS_SKIP_CUDA_CHECK", "env.CUDA_LAUNCH_BLOCKING", "env.CUDA_MODULE_LOADING",
            "driver", "driver_cuda", "gpu", "python_release", "kernel", "glibc", "os", "container",
            # Host and fabric: slower, or a setting. What keeps ranks from reaching each other is critical: a port that
            # is down, a lost adapter or NVLink, memory that cannot be locked for RDMA; so are MIG and failed rows.
            "nics", "nic_firmware", "nic_links", "nic_pcie", "rdma_firmware", "rdma_rate", "gpu_pcie",
            "gpu_persistence", "gpu_ecc", "iommu", "acs_bridges", "hugepages", "transparent_hugepages",
            "clock_synchronized", "kernel_modules.*", "limits.nofile", "limits.nproc", "limits.stack",
        ),
    ),
)  # fmt: skip


#: Facts of a fingerprint that come once, and the first words of those that come several times (`packages.torch`).
NAMES = (
    "python", "python_release", "cuda_runtime", "rocm_runtime", "torch_commit", "gpu_count", "gpu",
    "compute_capability", "driver", "driver_cuda", "kernel", "machine", "os", "container", "glibc", "iommu",
    "acs_bridges", "hugepages", "transparent_hugepages", "clock_synchronized", "nics", "nic_firmware", "nic_links",
    "nic_pcie", "rdma_devices", "rdma_firmware", "rdma_ports", "rdma_rate", "gpu_mig", "gpu_pcie",
    "gpu_persistence", "gpu_ecc", "gpu_row_remapping", "gpu_nvlinks",
)  # fmt: skip
FAMILIES = ("packages", "libraries", "library_path", "env", "kernel_modules", "limits")


@functools.lru_cache(maxsize=4096)
def importance(name: str) -> Importance:
    """How much a difference in this fact matters."""
    for answer, patterns in TABLE:
        if any(fits(name, pattern) for pattern in patterns):
            return answer
    return Importance.CRITICAL


def fits(name: str, pattern: str) -> bool:
    """True when a fact of this name is meant by the pattern, which has one star at most."""
    # fnmatch would compile a regular expression for each pattern, which takes longer than all comparisons.
    begin, star, end = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(begin) + len(end) and name.startswith(begin) and name.endswith(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The hashed facts of one node and environment; equal nodes have equal fingerprints. Made by `fingerprint_of`."""

    sha256: str
    critical: str
    """SHA-256 over the critical facts alone."""
    facts: Mapping[str, Trait] = field(repr=False)
    """Fact name -> value, sorted by name. A missing name means absent, as None does."""


def fingerprint_of(traits: Mapping[str, Trait]) -> Fingerprint:
    """Computes the fingerprint of these facts, in any order; ignored facts are left out."""
    kept = {name: traits[name] for name in sorted(traits) if importance(name) is not Importance.IGNORED}
    critical = {name: trait for name, trait in kept.items() if importance(name) is Importance.CRITICAL}
    return Fingerprint(sha256=hash_of(kept), critical=hash_of(critical), facts=kept)


def hash_of(traits: Mapping[str, Trait | Mapping[str, object]]) -> str:
    """SHA-256 over facts; an unknown one may be as it is written, {"unknown": reason}."""
    # Absent facts are left out, so that a release that examines one more package gives the same hash on a node without
    # it.
    # Reasons are left out, since they contain numbers and paths that differ from node to node.
    counted = [
        [name, {"unknown": True} if isinstance(trait, (Unknown, Mapping)) else trait]
        for name, trait in sorted(traits.items())
        if trait is not None
    ]
    return sha256(json.dumps(counted, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A fact that differs between two fingerprints."""

    name: str
    importance: Importance
    old: Trait
    new: Trait

    @property
    def unlooked(self) -> bool:
        """True when one side is unknown, so that nobody can say whether they differ."""
        return isinstance(self.old, Unknown) or isinstance(self.new, Unknown)


def whole_family(name: str) -> str:
    """The name in a fingerprint for "none of this kind could be listed": `packages.*`."""
    return f"{name.partition('.')[0]}.*"


def differences(old: Mapping[str, Trait], new: Mapping[str, Trait]) -> Iterator[Change]:
    """Yields the differences, critical facts first, then by name. Facts unknown on both sides are skipped.

    A name that is missing on one side counts as absent there, unless none of its kind could be listed there.
    """
    names = sorted({*old, *new}, key=lambda name: (importance(name) is not Importance.CRITICAL, name))
    for name in names:
        if name.endswith(".*"):
            continue  # compared through the facts that it represents
        before, after = _trait_in(old, name), _trait_in(new, name)
        if before == after or (isinstance(before, Unknown) and isinstance(after, Unknown)):
            continue
        yield Change(name=name, importance=importance(name), old=before, new=after)


def _trait_in(facts: Mapping[str, Trait], name: str) -> Trait:
    trait = facts.get(name)
    return facts.get(whole_family(name)) if trait is None else trait
