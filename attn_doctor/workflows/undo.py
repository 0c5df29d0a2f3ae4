"""Undoes a run of `fix`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal import undo as undoing
from attn_doctor.fix.journal.homes import known_homes
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.packages import find_installer
from attn_doctor.fix.packages.installers import Sources
from attn_doctor.machine.own_command import typed
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.workflows.subject import Say, silent


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
    sources: Sources = field(default_factory=Sources)
    """Sources of packages, for a run without copies."""
    wait: float = 0.0
    """Seconds to wait for another run that holds the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What was restored."""

    run: Run | None
    """None: there was nothing to undo."""
    files: int = 0


def runs(request: UndoRequest) -> tuple[Run, ...]:
    """All runs in the environment and in the current project, including undone ones, the last one at the end.

    Raises TargetUnusable when the interpreter does not answer.
    """
    return _runs(request, _target(request))


def undo(request: UndoRequest, *, warn: Say = silent) -> UndoResult:
    """Restores every byte that the run changed. `warn` receives the packages that are installed again.

    Raises BadInput when there is no such run, Held when another run does not end in time, UndoFailed.
    """
    target = _target(request)
    every = [run for run in _runs(request, target) if request.which in (None, run.id)]
    if not every and request.which is not None:
        raise BadInput(
            "there is no such run", about=f"undo {request.which}", hint=f"`{_lists(request, target)}` prints them."
        )
    waiting = [run for run in every if run.state != "undone"]
    if not waiting:
        return UndoResult(run=None)
    run = waiting[-1]
    with scratch() as private, journal.held((run.home,), wait=request.wait):
        reinstall = _reinstalling(target, request.sources, private, warn)
        return UndoResult(run=run, files=undoing.undo(run, lenient=request.force, reinstall=reinstall))


def _target(request: UndoRequest) -> Target:
    with scratch() as folder:
        return examine_target(request.python, as_module=request.as_module, folder=folder, timeout=60.0, isolated=True)


def _runs(request: UndoRequest, target: Target) -> tuple[Run, ...]:
    homes = known_homes(target.prefix, request.configs)
    return tuple(sorted((run for home in homes for run in journal.runs(home)), key=lambda one: one.id))


def _lists(request: UndoRequest, target: Target) -> str:
    named = ("--python", str(target.python)) if target.named else ()
    return typed("undo", "--list", *named, *(word for one in request.configs for word in ("--config", str(one))))


def _reinstalling(target: Target, sources: Sources, private: Path, warn: Say) -> undoing.Reinstall:
    """For a run without copies: downloads the old releases before anything is removed."""

    def ready(old: tuple[str, ...], into: Path, kind: str) -> Callable[[], None]:
        warn(f"The run had no copies (--no-stash): installing {' '.join(old)} again.")
        installer = find_installer.installer_for(kind, target, sources, private)
        installer.fetch(old, into, no_cache=False)
        return lambda: installer.install(old, into, reinstall=True)

    return ready
