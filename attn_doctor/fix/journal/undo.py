"""Undoes a run, using only its journal; can be interrupted and repeated at any point."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fix.journal import run_commands
from attn_doctor.fix.journal.changed_since import Changed, changed_since, set_aside_others
from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.swap import ChangedSince, swap_back
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass


class UndoFailed(AttnDoctorError):
    """Something could not be restored; `about` names it, and the journal is kept."""

    exit_status = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What was restored, and what was not."""

    files: int = 0
    left: tuple[str, ...] = ()
    """Files that somebody else put where the run had put none: they stay."""
    found: str = ""
    """Folder with what stood in the place of restored files; empty when nothing did."""


def undo(run: Run, *, force: bool = False, leave: Collection[str] = ()) -> Undone:
    """Restores everything that the run changed.

    `force` restores also what somebody else changed since: what stands there is set aside, whole distributions at a
    time. `leave`: distributions that stay as they are. Raises BadInput for one that the run did not change,
    ChangedSince, UndoFailed, JournalUnusable, StillAlive.
    """
    if run.state in ("undone", "pruned"):
        return Undone()
    run.check_format()
    run.check_ended()
    if not run.reached("swapping"):
        return _finish(run, Undone())
    whole = Swap.read(run)
    staying = _staying(run, whole, leave)
    swap = whole.without(staying)
    try:
        _check(run, swap, force=force, staying=staying)
        # On a full disk the files matter more than the journal: a second undo finds them restored.
        with contextlib.suppress(OSError):
            run.note("undoing", leave=sorted(staying))
        count, left = swap_back(run, swap)
    except OSError as error:
        raise UndoFailed(
            f"not everything could be put back: {error.strerror or error}",
            about=f"{error.filename or ''}\nthe journal with every file as it was: {run.folder}".strip(),
            hint=f"Mend what stands in the way, then: {run_commands.undo(run)}",
        ) from None
    found = run.folder / "found"
    left = (*left, *(f"{one.name}, as it is" for one in whole.distributions if one.name in staying))
    return _finish(run, Undone(files=count, left=left, found=str(found) if found.is_dir() else ""))


def _finish(run: Run, undone: Undone) -> Undone:
    with contextlib.suppress(OSError):
        run.note("undone", left=list(undone.left))
    run.discard_prepared()
    return undone


def _staying(run: Run, swap: Swap, leave: Collection[str]) -> frozenset[str]:
    """The distributions to leave: those that are named, and those of an undo that was cut off. Raises BadInput."""
    known = {one.name for one in swap.distributions}
    named = {canonical_name(one) for one in leave}
    if named - known:
        raise BadInput(
            f"run {run.id} did not change {', '.join(sorted(named - known))}",
            about=f"undo --leave {' '.join(leave)}",
            hint=f"It changed {', '.join(sorted(known)) or 'no package'}.",
        )
    begun = (entry.get("leave") or () for entry in run.entries() if entry["at"] == "undoing")
    return frozenset(named.union(*begun))


def _check(run: Run, swap: Swap, *, force: bool, staying: Collection[str]) -> None:
    changed = changed_since(run, swap)
    if not changed:
        return
    if not force:
        words = [one.words for one in changed]
        more = f"\nand {len(words) - 10} more" if len(words) > 10 else ""
        raise ChangedSince(
            "somebody else changed since what the run had changed",
            about="\n".join(words[:10]) + more,
            hint=f"Nothing was put back. {_without(run, changed)}`{run_commands.undo(run, '--force')}` puts back "
            f"everything, and moves what is there now to {run.folder / 'found'}.",
        )
    with contextlib.suppress(OSError):
        run.note("undoing", leave=sorted(staying))
    set_aside_others(run, swap, [one.owner for one in changed if one.owner])


def _without(run: Run, changed: Iterable[Changed]) -> str:
    """How all else is put back, where only packages changed."""
    owners = [one.owner for one in changed]
    if not all(owners):
        return ""
    options = [word for owner in dict.fromkeys(owners) for word in ("--leave", owner)]
    return f"`{run_commands.undo(run, *options)}` leaves what was changed and puts back the rest. "
