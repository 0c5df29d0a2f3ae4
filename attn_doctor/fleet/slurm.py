"""What Slurm says of its nodes: which there are, and which can be asked now."""

from __future__ import annotations

from collections.abc import Mapping

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.machine.streaming import output_of

_SOON = 30.0
#: `sinfo -o %t`; anything else, and whatever carries a `*` (does not answer), cannot take a step now.
_USABLE = frozenset({"idle", "mix", "alloc", "plnd", "resv"})


def nodes_of_job(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """The nodes of the job that this process runs in, None outside of one."""
    written = environment.get("SLURM_JOB_NODELIST")
    return unfold(written, about="SLURM_JOB_NODELIST") if written else None


def nodes(*, partition: str | None = None, among: tuple[str, ...] | None = None) -> dict[str, str]:
    """State of each node, with the admin's reason where there is one; empty for a node that can be asked now.

    Raises AttnDoctorError where Slurm does not answer.
    """
    # One line a node, not folded; %H (when) is left out, since it would differ on each.
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
    """`--expect slurm`: the nodes of this job; outside of one, all that Slurm has.

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
