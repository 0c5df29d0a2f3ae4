"""What tells one node's attention stack from another's: flat facts, how much each matters, and their hash.

Pure: what the facts are made of is in diagnose/fingerprint.py, their JSON form in formats/report_v1.py. Null means that
it was looked at and is not there, which is a value like any other; `Unknown` means that it could not be looked at.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from attn_doctor.model.facts import Unknown
from attn_doctor.model.libraries import distributions

Trait: TypeAlias = str | int | Unknown | None


class Importance(str, Enum):
    """What it means when two nodes that should be equal differ in a fact."""

    CRITICAL = "critical"
    """It decides which kernel runs, in which dtype, or whether ranks can talk to each other."""
    BENIGN = "benign"
    """Worth a line; equal jobs run on both."""
    IGNORED = "ignored"
    """Different on equal nodes: kept out of the fingerprint."""


#: The first pattern that fits a fact's name decides; what fits none is critical, so that a new fact is never lost.
#: A pattern has one star at most.
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
                "flashinfer-python",
            )
        ),
    ),
    (
        Importance.BENIGN,
        (
            # NVIDIA's wheels among them: two write one file and the last one wins, so the file counts (libraries.*).
            # https://github.com/marin-community/marin/issues/7344
            "packages.*",
            "libraries.torchvision.*", "libraries.torchaudio.*",
            "libraries.libstdc++.so*", "libraries.libgomp*", "library_path.*",
            "env.NCCL_DEBUG", "env.NCCL_DEBUG_*",
            "env.LD_LIBRARY_PATH", "env.LD_PRELOAD", "env.PYTHONPATH",  # what they lead to is in libraries and packages
            "env.CUDA_HOME", "env.CUDA_PATH", "env.CC", "env.TORCH_CUDA_ARCH_LIST", "env.PYTORCH_ROCM_ARCH",
            "env.FLASH_ATTENTION_FORCE_BUILD", "env.FLASH_ATTENTION_SKIP_CUDA_BUILD", "env.FLASH_ATTN_CUDA_ARCHS",
            "env.DS_SKIP_CUDA_CHECK", "env.CUDA_LAUNCH_BLOCKING", "env.CUDA_MODULE_LOADING",
            "driver", "driver_cuda", "gpu", "python_release", "kernel", "glibc", "os", "container",
        ),
    ),
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def importance(name: str) -> Importance:
    """How much a difference in this fact matters."""
    for answer, patterns in TABLE:
        if any(_fits(name, pattern) for pattern in patterns):
            return answer
    return Importance.CRITICAL


def _fits(name: str, pattern: str) -> bool:
    # fnmatch makes a regular expression of each pattern, which takes longer than all the fingerprint's comparisons.
    begin, star, end = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(begin) + len(end) and name.startswith(begin) and name.endswith(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The facts of one node and environment that equal ones share, hashed. Made by `fingerprint_of`."""

    sha256: str
    critical: str
    """The same over the critical facts alone."""
    facts: Mapping[str, Trait] = field(repr=False)
    """By name, sorted. A name that is not there is absent, as null is."""


def fingerprint_of(traits: Mapping[str, Trait]) -> Fingerprint:
    """The fingerprint of these facts, in whatever order they come; ignored ones are left out."""
    kept = {name: traits[name] for name in sorted(traits) if importance(name) is not Importance.IGNORED}
    critical = {name: trait for name, trait in kept.items() if importance(name) is Importance.CRITICAL}
    return Fingerprint(sha256=_hash(kept), critical=_hash(critical), facts=kept)


def _hash(traits: Mapping[str, Trait]) -> str:
    from hashlib import sha256  # loads OpenSSL, which `status` does without

    # Absent facts are left out, so that a doctor that knows one package more hashes a node without it as before;
    # reasons are left out, since they tell numbers and places that differ from node to node.
    counted = [
        [name, {"unknown": True} if isinstance(trait, Unknown) else trait]
        for name, trait in sorted(traits.items())
        if trait is not None
    ]
    return sha256(json.dumps(counted, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A fact in which two fingerprints differ."""

    name: str
    importance: Importance
    old: Trait
    new: Trait

    @property
    def unlooked(self) -> bool:
        """One side could not be looked at: whether they differ is not known."""
        return isinstance(self.old, Unknown) or isinstance(self.new, Unknown)


def differences(old: Mapping[str, Trait], new: Mapping[str, Trait]) -> Iterator[Change]:
    """What differs, critical facts first, by name. Where neither could be looked at, nothing is told.

    A name that is missing on one side is absent there.
    """
    names = sorted({*old, *new}, key=lambda name: (importance(name) is not Importance.CRITICAL, name))
    for name in names:
        before, after = old.get(name), new.get(name)
        if before == after or (isinstance(before, Unknown) and isinstance(after, Unknown)):
            continue
        yield Change(name=name, importance=importance(name), old=before, new=after)
