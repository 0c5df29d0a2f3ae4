"""`fleet pairs`: measures all-reduce between pairs of a job's nodes, round by round, and names the slow node."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.fleet import slurm
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.fleet.pairs import Measured, Pair, PairVerdict, again, judge_pairs, measured_by, rounds_of
from attn_doctor.machine.process import Running
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.streaming import output_of
from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass, field

_SCRIPT = Path(__file__).parents[2] / "patient" / "pair_allreduce.py"
#: Seconds for srun around a pair's own.
_AROUND = 30.0
#: Ports from here on; each job and pair has its own.
_PORT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRequest:
    """The nodes, and how to measure."""

    python: Path
    """Interpreter with torch, on all nodes."""
    nodes: str | None = None
    """A node set within the job; None: all of its nodes."""
    rounds: int = 4
    backend: str = "auto"
    megabytes: int = 256
    timeout: int = 60
    """Seconds for one pair."""
    per_node: int = 1
    """Processes, and GPUs, on each node."""
    srun_args: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)


def measure_pairs(request: PairsRequest, *, say: Callable[[str], None]) -> PairVerdict:
    """Measures round by round, all pairs of a round at once.

    Raises BadInput outside of a Slurm job, and for fewer than two nodes.
    """
    job = slurm.nodes_of_job(os.environ)
    if job is None:
        raise BadInput(
            "it measures between the nodes of a Slurm job",
            about="fleet pairs",
            hint="sbatch --nodes=16 --gpus-per-node=1 --wrap 'attn-doctor fleet pairs --python ENV', or salloc first.",
        )
    nodes = job if request.nodes is None else unfold(request.nodes, about=f"--nodes {request.nodes}")
    if len(nodes) < 2 or set(nodes) - set(job):
        raise BadInput(
            "two nodes of the job make a pair", about=f"--nodes {request.nodes or ','.join(nodes)}", hint="Name more."
        )
    rounds = rounds_of(nodes, request.rounds)
    addresses = _addresses(nodes)
    measured: list[Measured] = []
    with scratch() as folder:
        for number, pairs in enumerate(rounds, start=1):
            say(f"round {number} of {len(rounds)}: {len(pairs)} pairs")
            begun = [
                (pair, _started(request, pair, addresses, at, folder)) for at, pair in enumerate(pairs, len(measured))
            ]
            measured += [measured_by(pair, running.wait(request.timeout + _AROUND)) for pair, running in begun]
        for pair in again(judge_pairs(measured, request.policy)):
            say(f"again, by itself: {pair[0]} with {pair[1]}")
            running = _started(request, pair, addresses, len(measured), folder)
            measured.append(measured_by(pair, running.wait(request.timeout + _AROUND)))
    return judge_pairs(measured, request.policy)


def _addresses(nodes: Sequence[str]) -> dict[str, str]:
    """Node -> where it is reached: its name, unless Slurm knows it by another address."""
    said = slurm.records(output_of(["scontrol", "show", "node", "-o", ",".join(nodes)], timeout=slurm.SOON))
    known = {one["NodeName"]: one["NodeAddr"] for one in said if one.get("NodeName") and one.get("NodeAddr")}
    return {node: known.get(node, node) for node in nodes}


def _started(request: PairsRequest, pair: Pair, addresses: dict[str, str], number: int, folder: Path) -> Running:
    job = int(re.sub(r"\D", "", os.environ.get("SLURM_JOB_ID", "")) or 0)
    command = [
        # Sorted, so that process 0 is on the first: srun numbers by its own order of nodes.
        "srun", "--overlap", f"--nodelist={','.join(pair)}", "--nodes=2", f"--ntasks={2 * request.per_node}",
        f"--ntasks-per-node={request.per_node}", "--kill-on-bad-exit=1", *request.srun_args,
        "timeout", "-k", "5", str(request.timeout), str(request.python), str(_SCRIPT), request.backend,
        str(request.megabytes), str(request.timeout),
    ]  # fmt: skip
    environment = {
        **os.environ,
        "MASTER_ADDR": addresses[min(pair, key=_as_srun_orders)],
        "MASTER_PORT": str(_PORT + (job * 97 + number) % 10_000),
    }
    return Running(command, folder=folder, name=f"pair-{number}", environment=environment)


def _as_srun_orders(node: str) -> tuple[object, ...]:
    """Slurm numbers tasks along its own list of nodes, in which n2 comes before n10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", node))
