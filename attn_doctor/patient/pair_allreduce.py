"""How fast two nodes sum a tensor across both: torch's own all-reduce, of one process or several on each.

    python pair_allreduce.py BACKEND MEGABYTES SECONDS

Started by srun (`fleet pairs`), which numbers the processes; MASTER_ADDR and MASTER_PORT say where they meet. The first
prints one line: AD-PAIR and the bandwidth of the bus in GB/s, as nccl-tests count it
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from datetime import timedelta

_WARM_UP, _LEAST, _MOST = 2, 3, 50


def main(backend: str, megabytes: str, seconds: str) -> None:
    """Measures for at most this many seconds."""
    import torch
    import torch.distributed as dist

    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    if backend == "auto":
        backend = "nccl" if torch.cuda.is_available() else "gloo"
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("SLURM_LOCALID", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    # NCCL otherwise guesses the GPU from the rank, which is another one where processes of several nodes are numbered.
    named = "device_id" in inspect.signature(dist.init_process_group).parameters  # not before torch 2.3
    bound = {"device_id": device} if backend == "nccl" and named else {}
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=timedelta(seconds=float(seconds)), **bound)
    values = torch.ones(int(megabytes) * 2**20 // 4, device=device)

    def once() -> float:
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(values)
        if backend == "nccl":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    first = [once() for _ in range(_WARM_UP)][-1]
    # All have to agree on how often: the slowest says it.
    rounds = torch.tensor([max(_LEAST, min(_MOST, int(float(seconds) / 4 / max(first, 1e-6))))], device=device)
    dist.all_reduce(rounds, op=dist.ReduceOp.MIN)
    taken = sorted(once() for _ in range(int(rounds.item())))
    if rank == 0:
        moved = values.numel() * 4 * 2 * (world - 1) / world
        print(f"AD-PAIR {moved / taken[len(taken) // 2] / 1e9:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:4])
