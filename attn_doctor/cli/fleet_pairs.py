"""`attn-doctor fleet pairs`: the node that slows all-reduce down, found by measuring pairs in rotation."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.fleet_answer import AcceptFile
from attn_doctor.cli.guard import guarded
from attn_doctor.errors import BadInput
from attn_doctor.fleet.pairs import PairVerdict
from attn_doctor.machine.candidates import active_environment
from attn_doctor.machine.printable import one_line
from attn_doctor.model.exit_status import Status
from attn_doctor.model.policy import Policy
from attn_doctor.recipes.data import accepted
from attn_doctor.workflows.fleet.pairs import PairsRequest, measure_pairs


class Backend(str, Enum):
    """torch.distributed's."""

    AUTO = "auto"
    NCCL = "nccl"
    GLOO = "gloo"


@guarded
def pairs(
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Environment with torch, on all nodes. Default: the active one.")
    ] = None,
    nodes: Annotated[str | None, typer.Option("--nodes", "-w", metavar="NODESET", help="Of the job's nodes.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Partners that each node meets.")] = 4,
    backend: Annotated[Backend, typer.Option(help="auto: nccl where torch sees a GPU.")] = Backend.AUTO,
    megabytes: Annotated[int, typer.Option(min=1, max=65536, help="Size of the tensor.")] = 256,
    timeout: Annotated[int, typer.Option(min=1, max=3600, metavar="SECONDS", help="Limit for one pair.")] = 60,
    per_node: Annotated[int, typer.Option(min=1, max=64, help="Processes, and GPUs, of each node.")] = 1,
    srun_arg: Annotated[list[str] | None, typer.Option(metavar="ARG", help="One more of srun's. Repeatable.")] = None,
    accept_file: AcceptFile = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Find the node that slows all-reduce down: in a Slurm job, all its nodes in pairs, each round with other partners.

    Uses the network and, with nccl, GPUs of the job: nothing else should run in it meanwhile.

    Exit status: 0 none is slow, 1 a node is slow or its pairs never end, 2 wrong usage, 3 nothing could be measured, or
    too few nodes to tell.
    """
    place = Path(python) if python is not None else active_environment(as_module=started.as_module)
    if place is None:
        raise BadInput("which torch?", about="fleet pairs", hint="Name an environment: --python ENV.")
    request = PairsRequest(
        python=place / "bin" / "python" if place.is_dir() else place.absolute(),
        nodes=nodes,
        rounds=rounds,
        backend=backend.value,
        megabytes=megabytes,
        timeout=timeout,
        per_node=per_node,
        srun_args=tuple(srun_arg or ()),
        policy=accepted.policy(accept_file) if accept_file is not None else Policy(),
    )
    verdict = measure_pairs(request, say=lambda words: print(words, file=sys.stderr))  # noqa: T201
    print(_as_json(verdict) if json_ else "\n".join(one_line(line) for line in _lines(verdict)))  # noqa: T201
    if verdict.slow or verdict.silent:
        return Status.FOUND
    return Status.COULD_NOT_EXAMINE if verdict.unknown or verdict.few else Status.HEALTHY


def _lines(verdict: PairVerdict) -> list[str]:
    lines = [f"{node}: {words}" for node, words in (*verdict.silent, *verdict.slow)]
    lines += [f"{node}: nothing is known: no pair of its partners ended" for node in verdict.unknown]
    if verdict.best:
        (slowest, least), (fastest, most) = verdict.best[0], verdict.best[-1]
        lines.append(f"{len(verdict.best)} nodes, from {least:.2f} GB/s ({slowest}) to {most:.2f} GB/s ({fastest})")
    if verdict.few:
        lines.append("too few nodes to tell a slow one from scatter")
    return lines


def _as_json(verdict: PairVerdict) -> str:
    return json.dumps(
        {
            "nodes": [{"node": node, "best_gbs": best} for node, best in verdict.best],
            "slow": [{"node": node, "what": words} for node, words in verdict.slow],
            "silent": [{"node": node, "what": words} for node, words in verdict.silent],
            "unknown": list(verdict.unknown),
            "too_few": verdict.few,
        }
    )
