"""Decides on which GPUs a compiled file runs, from the targets that nvcc compiled it for."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Default targets of nvcc 11 and 12: `-arch` in the compiler driver's manual.
#: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/
_DEFAULT_TARGETS = frozenset({"sm_52", "compute_52"})
_AS_OLD = re.compile(r"(?:sm|compute)_[3-6]\d$")


def runs(code: str, gpu: tuple[int, int]) -> bool:
    """True when GPU code of this target runs on a GPU of this compute capability.

    Machine code (`sm_86`) runs on its own major with the same or a later minor; PTX (`compute_80`) on any equal or
    newer GPU; `a` targets only on their own; `f` targets on their family.
    https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/ (GPU Feature List, Virtual and Real Architectures)
    """
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", code)
    if match is None:
        return False
    form, suffix = match[1], match[4]
    target = (int(match[2]), int(match[3]))
    if suffix == "a":
        return gpu == target
    if form == "compute" and not suffix:
        return gpu >= target
    return gpu[0] == target[0] and gpu[1] >= target[1]


def lacking(codes: Sequence[str], gpus: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The GPUs that none of these targets supports.

    nvcc's default target is ignored when there are others: it comes from single objects compiled without a target.
    compute_52 of a helper kernel would run on every newer GPU, but the file's other kernels would not. A file meant for
    such old GPUs has code for others of their generations as well.
    """
    others = [code for code in codes if code not in _DEFAULT_TARGETS]
    meant = others if others and not any(_AS_OLD.match(code) for code in others) else codes
    return [gpu for gpu in gpus if not any(runs(code, gpu) for code in meant)]
