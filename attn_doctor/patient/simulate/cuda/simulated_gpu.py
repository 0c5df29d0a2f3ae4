"""The simulated GPU as a value: its capability and its sizes.

Names and the table of products belong to the doctor (recipes/gpus.toml); this file converts the plain dict that the
doctor sends. Needs neither torch nor Triton.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple, TypedDict

# Threads per multiprocessor, by compute capability:
# https://github.com/NVIDIA/cccl/blob/main/libcudacxx/include/cuda/__device/arch_traits.h
_THREADS = {
    (7, 5): 1024,
    (8, 6): 1536,
    (8, 7): 1536,
    (8, 9): 1536,
    (11, 0): 1536,
    (12, 0): 1536,
    (12, 1): 1536,
}
_OPTIN = {
    (6, 0): 49152,
    (6, 1): 49152,
    (7, 0): 98304,
    (7, 2): 98304,
    (7, 5): 65536,
    (8, 0): 166912,
    (8, 6): 101376,
    (8, 7): 166912,
    (8, 9): 101376,
    (9, 0): 232448,
    (10, 0): 232448,
    (10, 3): 232448,
    (11, 0): 232448,
    (12, 0): 101376,
    (12, 1): 101376,
}


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU, given by its name or its compute capability."""

    name: str
    capability: Tuple[int, int]
    """Compute capability, (major, minor)."""
    shared_memory: int
    """Bytes of shared memory that one thread block can opt in to."""
    memory_mib: Optional[int] = None
    """None: unknown."""
    multi_processor_count: Optional[int] = None
    """None: unknown."""

    @property
    def arch(self) -> int:
        """The capability as Triton and ptxas write it: 90 for 9.0, 120 for 12.0."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def threads_per_multiprocessor(self) -> int:
        return _THREADS.get(self.capability, 2048)

    @property
    def shared_memory_per_multiprocessor(self) -> int:
        """From 8.0 on the driver reserves 1 KiB of each block."""
        return self.shared_memory + (1024 if self.capability >= (8, 0) else 0)


def capability(text: object) -> Tuple[int, int]:
    """(9, 0) from "9.0", "sm_90", "90a", 90 or (9, 0). Raises ValueError for anything else."""
    if isinstance(text, (tuple, list)) and len(text) == 2:
        return int(text[0]), int(text[1])
    digits = str(text).strip().lower().replace("sm_", "").replace("sm", "").rstrip("af")
    major, dot, minor = digits.partition(".")
    if not dot:
        major, minor = digits[:-1], digits[-1:]
    if not (major.isdigit() and minor.isdigit() and len(minor) == 1):
        raise ValueError(f"not a compute capability: {text!r}")
    return int(major), int(minor)


class Described(TypedDict, total=False):
    """A GPU as a request names it; what is not there is not known."""

    compute_capability: str
    name: Optional[str]
    shared_memory_bytes: Optional[int]
    memory_mib: Optional[int]
    multi_processor_count: Optional[int]
    index: int
    """Index of a GPU that is present."""
    assumed: bool
    """It is not present."""
    named: bool
    """The user chose it."""


def from_request(gpu: Described) -> Gpu:
    """The Gpu in a request.

    `gpu` has "compute_capability" and may have "name", "shared_memory_bytes", "memory_mib" and "multi_processor_count".
    Without shared memory, the limit of its capability is used; an unknown capability then raises ValueError, because an
    invented limit would give a meaningless verdict.
    """
    cc = capability(gpu["compute_capability"])
    shared = gpu.get("shared_memory_bytes") or _OPTIN.get(cc)
    if not shared:
        raise ValueError(f"how much shared memory a block has on compute capability {cc[0]}.{cc[1]} is not known")
    return Gpu(
        name=gpu.get("name") or f"sm_{cc[0]}{cc[1]}",
        capability=cc,
        shared_memory=int(shared),
        memory_mib=gpu.get("memory_mib"),
        multi_processor_count=gpu.get("multi_processor_count"),
    )
