"""How many compilers a build may start at once: as many as fit into memory, whatever the package would choose."""

from __future__ import annotations

import os
from pathlib import Path

from attn_doctor.model.facts import FactSet

#: GiB per nvcc thread, and threads per job.
#: https://github.com/Dao-AILab/flash-attention/pull/2079
_PER_THREAD, _THREADS = 5, 2


def environment(facts: FactSet, *, root: Path = Path("/")) -> dict[str, str]:
    """MAX_JOBS and NVCC_THREADS for this node, unless the user has set them."""
    cpus = facts.value("node.cpus")
    sizes = [size for size in (facts.value("node.memory_mib"), _limit_mib(root)) if isinstance(size, int)]
    by_memory = min(sizes) // 1024 // (_PER_THREAD * _THREADS) if sizes else 1
    jobs = max(1, min(by_memory, cpus if isinstance(cpus, int) else 1))
    wanted = {"MAX_JOBS": str(jobs), "NVCC_THREADS": str(_THREADS)}
    return {name: os.environ.get(name) or value for name, value in wanted.items()}


def _limit_mib(root: Path) -> int | None:
    """Memory limit of the container; its /proc/meminfo shows the host's memory."""
    for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = (root / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text) // 2**20
    return None
