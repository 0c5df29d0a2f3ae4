"""Reads from torch's message of a full GPU whether it is this process that fills it, or another one."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.quick_patterns import when_used

_SIZE = r"(?P<{0}>\d+(?:\.\d+)?) (?P<{0}_unit>GiB|MiB)"
_TOTAL = when_used(r"total capacity of " + _SIZE.format("total"))
_OF_ONE = when_used(r"\bProcess (?P<pid>\d{1,9}) has " + _SIZE.format("held") + r" memory in use")
_OWN = when_used(r"\bthis process has " + _SIZE.format("own") + r" memory in use")
_TORCHS = when_used(
    r"Of the allocated memory "
    + _SIZE.format("taken")
    + r" is allocated by PyTorch, and "
    + _SIZE.format("kept")
    + r" is reserved by PyTorch"
)
#: GiB that a process has beside torch's memory: CUDA itself, its kernels, its libraries.
_BESIDE_TORCH = 2.5
#: Share of the GPU from which on others fill it, and how near two processes are that do the same.
_MUCH, _ALIKE = 0.4, 0.1


def held_by_others(message: str) -> Iterator[tuple[str, str]]:
    """`memory_held_by`, the number of another process with most of the GPU, where others have more of it
    than this one, and much of it; `memory_twin` beside it where that one is as large as this.

    In a container torch does not know its own number: this process is then the one whose size is that of torch's own
    count with what CUDA takes beside it. Where none is, nothing is said.
    """
    if "memory in use" not in message:
        return
    total, counted, said = _TOTAL.search(message), _TORCHS.search(message), _OWN.search(message)
    held = {one["pid"]: _gib(one["held"], one["held_unit"]) for one in _OF_ONE.finditer(message)}
    if not total or not held:
        return
    if said:
        own = _gib(said["own"], said["own_unit"])
    elif counted:
        torchs = _gib(counted["taken"], counted["taken_unit"]) + _gib(counted["kept"], counted["kept_unit"])
        near = [pid for pid, size in held.items() if 0 <= size - torchs <= _BESIDE_TORCH]
        if not near:
            return
        own = held.pop(min(near, key=lambda pid: held[pid] - torchs))
    else:
        return
    if not held:
        return
    largest = max(held, key=lambda pid: held[pid])
    twin = held[largest] > 1 and abs(held[largest] - own) <= _ALIKE * own
    others = sum(held.values())
    if twin or (others > own and others >= _MUCH * _gib(total["total"], total["total_unit"])):
        yield "memory_held_by", largest
    if twin:
        yield "memory_twin", "twin"


def _gib(number: str, unit: str) -> float:
    return float(number) / (1 if unit == "GiB" else 1024)
