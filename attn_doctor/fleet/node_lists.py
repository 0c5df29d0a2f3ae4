"""`--write-lists`: one file per state, one name per line, for `srun --exclude=FILE`, `clush --hostfile=FILE` and
scripts.
"""

from __future__ import annotations

from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import replace_file
from attn_doctor.model.fleet import FleetVerdict, State

FILES: tuple[tuple[str, tuple[State, ...]], ...] = (
    ("fit_nodes.txt", (State.FIT,)),
    ("failing_nodes.txt", (State.FAILS,)),
    ("drifting_nodes.txt", (State.DRIFTS,)),
    ("missing_nodes.txt", (State.MISSING,)),
    ("unreadable_nodes.txt", (State.UNREADABLE,)),
    ("unsure_nodes.txt", (State.UNSURE,)),
    ("exclude_nodes.txt", tuple(state for state in State if state is not State.FIT)),
)


def check(folder: Path) -> None:
    """Creates the folder.

    Raises BadInput when it cannot be written, before anything is examined.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder cannot be made: {error.strerror}", about=f"--write-lists {folder}") from None


def write(verdict: FleetVerdict, folder: Path) -> None:
    """Writes all lists, including empty ones: an outdated list would exclude nodes that are healthy again."""
    for name, states in FILES:
        replace_file(folder / name, "".join(f"{node}\n" for node in verdict.nodes_in(*states)), chosen=True)
