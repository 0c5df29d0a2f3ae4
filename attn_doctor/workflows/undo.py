"""Undoes a run of `fix`."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal import undo as undoing
from attn_doctor.fix.journal.homes import known_homes, runs_about
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.prune import prune
from attn_doctor.machine.candidates import candidates
from attn_doctor.machine.own_command import typed
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.quick_dataclasses import dataclass

#: What lies in an environment that was fixed, or is a virtual one.
_MARKS = (journal.FOLDER, "pyvenv.cfg")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """The run, and the environment it changed."""

    which: str | None = None
    """Its id; None: the last run that is not undone yet."""
    python: str | None = None
    """The interpreter or environment folder that was changed."""
    as_module: bool = False
    """Without `python`: the interpreter that this code runs in."""
    configs: tuple[Path, ...] = ()
    """Configurations that were changed: the journal may be in their projects."""
    force: bool = False
    """Restore files although another program has changed them since."""
    leave: tuple[str, ...] = ()
    """Packages that stay as they are."""
    wait: float = 0.0
    """Seconds to wait for another run that holds the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What was restored."""

    run: Run | None
    """None: there was nothing to undo."""
    undone: undoing.Undone = undoing.Undone()


def runs(request: UndoRequest) -> tuple[Run, ...]:
    """All runs in the environment and in the current project, including undone ones, the last one at the end.

    Raises TargetUnusable when neither files nor the interpreter say where the environment is.
    """
    prefix = _prefix(request)
    homes = known_homes(prefix, request.configs)
    return tuple(sorted((run for home in homes for run in runs_about(prefix, home)), key=lambda one: one.id))


def undo(request: UndoRequest) -> UndoResult:
    """Restores every byte that the run changed.

    Raises BadInput when there is no such run or package, Held when another run does not end in time, ChangedSince,
    StillAlive, UndoFailed.
    """
    every = [run for run in runs(request) if request.which in (None, run.id)]
    if not every and request.which is not None:
        raise BadInput("there is no such run", about=f"undo {request.which}", hint=f"`{_lists(request)}` prints them.")
    waiting = [run for run in every if run.state not in ("undone", "pruned")]
    if not waiting:
        if request.which is not None and every[-1].state == "pruned":
            raise BadInput("the run was pruned: its old files are gone", about=f"undo {request.which}")
        return UndoResult(run=None)
    run = waiting[-1]
    with journal.held((run.home,), wait=request.wait):
        return UndoResult(run=run, undone=undoing.undo(run, force=request.force, leave=request.leave))


def pruned(request: UndoRequest, *, keep: int) -> tuple[tuple[Run, int], ...]:
    """Removes the old files of all but the last `keep` runs; returns the runs, and the bytes that were freed.

    Raises Held, JournalUnusable.
    """
    prefix = _prefix(request)
    homes = tuple(home for home in known_homes(prefix, request.configs) if journal.runs(home))
    with journal.held(homes, wait=request.wait):
        return tuple(one for home in homes for one in prune(runs_about(prefix, home), keep=keep))


def _prefix(request: UndoRequest) -> Path:
    prefix = _prefix_by_files(request)
    if prefix is None:
        with scratch() as folder:
            target = examine_target(
                request.python, as_module=request.as_module, folder=folder, timeout=60.0, isolated=True
            )
        prefix = target.prefix
    return prefix


def _prefix_by_files(request: UndoRequest) -> Path | None:
    """The environment, where its files say so: its interpreter may be what is broken. None when they do not."""
    try:
        python = candidates(request.python, as_module=request.as_module).first.python
    except AttnDoctorError:
        if request.python is None:
            return None
        python = Path(request.python)
    folders = (python.absolute(), python.absolute().parent.parent)
    return next((one for one in folders if any((one / name).exists() for name in _MARKS)), None)


def _lists(request: UndoRequest) -> str:
    named = ("--python", request.python) if request.python is not None else ()
    return typed("undo", "--list", *named, *(word for one in request.configs for word in ("--config", str(one))))
