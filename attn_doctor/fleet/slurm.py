"""The nodes that Slurm has, and their states."""

from __future__ import annotations

from collections.abc import Mapping

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.machine.streaming import output_of

_SOON = 30.0
#: States from `sinfo -o %t` in which a node accepts a step. A `*` means that the node does not answer.
_USABLE = frozenset({"idle", "mix", "alloc", "plnd", "resv"})


def nodes_of_job(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """The nodes of the job in which this process runs; None outside a job."""
    written = environment.get("SLURM_JOB_NODELIST")
    return unfold(written, about="SLURM_JOB_NODELIST") if written else None


def nodes(*, partition: str | None = None, among: tuple[str, ...] | None = None) -> dict[str, str]:
    """Node -> why it cannot be used, with the admin's reason if there is one; empty when it can.

    Raises AttnDoctorError when Slurm does not answer.
    """
    # One line per node, not folded; %H (the time) is left out, since it would differ on each.
    line = ["sinfo", "-h", "-N", "-o", "%N|%t|%E", *(["-p", partition] if partition else [])]
    found: dict[str, str] = {}
    for row in output_of(line, timeout=_SOON).splitlines():
        name, state, reason = (*row.split("|", 2), "", "")[:3]
        name, state = name.strip(), state.strip()
        if not name or (among is not None and name not in among):
            continue
        usable = state.rstrip("~#!%$@^+") in _USABLE
        said = "" if reason.strip() in ("", "none") else f": {reason.strip()}"
        found.setdefault(name, "" if usable else f"Slurm says {state}{said}")
    if among is not None:
        found.update({name: "Slurm knows no such node" for name in among if name not in found})
    return found


def expected(environment: Mapping[str, str]) -> tuple[str, ...]:
    """`--expect slurm`: the nodes of this job; outside a job, all nodes of Slurm.

    Raises BadInput.
    """
    job = nodes_of_job(environment)
    if job is not None:
        return job
    try:
        every = tuple(nodes())
    except AttnDoctorError as error:
        raise BadInput(
            f"Slurm does not say which nodes there are: {error.what}",
            about="--expect slurm",
            hint="Name the nodes: --expect 'gpu[001-016]'.",
        ) from None
    return every
