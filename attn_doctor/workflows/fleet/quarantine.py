"""Closes the loop: nodes are drained in Slurm for what was found on them, examined again, and resumed when fit."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fleet import slurm
from attn_doctor.fleet.gather import Gathered, moment
from attn_doctor.fleet.quarantine import Moves, cap_of, moves
from attn_doctor.fleet.reading import Messages, check_sources, read
from attn_doctor.machine.streaming import output_of
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.workflows.fleet.standard import standard

_LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRequest:
    """The reports, and how far it may go."""

    sources: tuple[str, ...]
    most: str | None = None
    """Most nodes that may be out at once: a number, or a share of all that Slurm has; None: as the policy says."""
    apply: bool = False
    max_age: timedelta = timedelta(hours=24)
    golden: Path | None = None
    accept: Path | None = None
    """A site's policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was to be done, and what of it Slurm refused."""

    moves: Moves
    applied: bool
    refused: tuple[tuple[str, str], ...] = ()
    """(node, Slurm's words)"""


def quarantine(request: QuarantineRequest) -> Result:
    """Says or does what the reports call for.

    Raises BadInput for an invalid request, AttnDoctorError when Slurm does not answer.
    """
    check_sources(request.sources)
    held = standard(golden=request.golden, max_age=request.max_age, accept=request.accept)
    states = slurm.drained()
    most = request.most or f"{held.policy.threshold('quarantine-percent'):g}%"
    try:
        cap = cap_of(most, len(states.reasons) + len(states.usable))
    except ValueError:
        raise BadInput("that is no number of nodes", about=f"--max {most}", hint="Write 5 or 2%.") from None
    gathered, heard = Gathered(), Messages()
    gathered.add_all(read(request.sources, heard))
    verdict = held.judged(gathered, heard)
    # A report that is too old, or dated ahead, says nothing of the node as it is now.
    doubtful = {node for node, _ in (*verdict.old, *verdict.skewed)} | {*verdict.same_name}
    doubtful |= {node for node, since in states.since.items() if _newest(gathered, node) <= since}
    todo = moves(verdict, states.reasons, states.usable, cap=cap, doubtful=frozenset(doubtful))
    if not request.apply:
        return Result(moves=todo, applied=False)
    refused = []
    for move in todo.todo:
        words = ["state=resume"] if move.resume else ["state=drain", f"reason={move.reason}"]
        try:
            output_of(["scontrol", "update", f"nodename={move.node}", *words], timeout=slurm.SOON)
        except AttnDoctorError as error:
            refused.append((move.node, error.what))
    return Result(moves=todo, applied=True, refused=tuple(refused))


def _newest(gathered: Gathered, node: str) -> datetime:
    """When the node was examined last; long ago when that is not known."""
    found = [_LONG_AGO]
    for record in gathered.all_records():
        if record.node == node:
            with contextlib.suppress(ValueError):
                found.append(moment(record.created))
    return max(found)
