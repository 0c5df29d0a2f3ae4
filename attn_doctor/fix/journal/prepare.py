"""Prepares every step of a plan beside what it changes: nothing but the run's own folder is written."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.allowed import check_file
from attn_doctor.fix.edits import environment
from attn_doctor.fix.edits.splices import diff, digest, spliced
from attn_doctor.fix.journal.exchange import Exchange, Folder, Swap, folder_like
from attn_doctor.fix.journal.file_state import state_of
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import put, sync_file_system
from attn_doctor.model.plans import FileEdit, Install, Plan


class StepFailed(AttnDoctorError):
    """A step could not be prepared."""

    exit_status = 4


class Stale(AttnDoctorError):
    """The files or facts for which the plan was made have changed."""

    exit_status = 3


#: Installs beside the environment, and says what is to be exchanged. Raises StepFailed, Stale, OSError.
Staging = Callable[[Install, Run], Swap]


def check_files(plan: Plan) -> None:
    """Raises Stale when a file differs from the plan's, or must not be changed by a plan."""
    for step in plan.steps:
        if isinstance(step.change, FileEdit):
            _checked(step.change, plan)


def prepare(plan: Plan, run: Run, *, stage: Staging) -> Swap:
    """Prepares every step, and writes down what is to be exchanged.

    Raises StepFailed or Stale; nothing was changed then.
    """
    whole = Swap()
    for number, step in enumerate(plan.steps):
        try:
            if isinstance(step.change, FileEdit):
                whole = whole.joined(_edited(step.change, plan, run, number))
            else:
                whole = whole.joined(stage(step.change, run))
        except OSError as error:
            raise StepFailed(
                f"a change could not be prepared: {error.strerror or error}",
                about=str(error.filename or _about(step.change)),
                hint="Nothing was changed.",
            ) from None
    names = [one.file for one in whole.exchanges]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise StepFailed(
            "two steps of the plan change one file", about=twice, hint="Take them one by one, with --only."
        )
    sync_file_system(run.folder)
    whole.write(run)
    return whole


def _about(change: FileEdit | Install) -> str:
    return change.file if isinstance(change, FileEdit) else f"install {' '.join(change.requirements)}"


def _checked(edit: FileEdit, plan: Plan) -> tuple[Path, bytes | None]:
    hint = "Make a new plan."
    try:
        configs = (*plan.configs, *environment.files(Path(plan.prefix)))
        file = check_file(edit.file, configs=configs, roots=plan.projects, prefix=plan.prefix)
    except Refused as error:
        raise Stale(
            str(error), about=edit.file, hint="A plan may touch named configurations, the project and the target."
        ) from None
    try:
        content = file.read_bytes() if file.exists() else None
    except OSError as error:
        raise Stale(f"the file cannot be read: {error.strerror}", about=edit.file, hint=hint) from None
    if (None if content is None else digest(content)) != edit.before:
        raise Stale("the file has been changed since the plan was made", about=edit.file, hint=hint)
    try:
        shown = diff(edit.file, content or b"", spliced(content or b"", edit.splices))
    except Refused as error:
        raise Stale(str(error), about=edit.file, hint=hint) from None
    if shown != edit.diff:  # the user agreed to the diff; the splices must produce exactly that
        raise Stale("the plan shows another change than it would make", about=edit.file, hint=hint)
    return file, content


def _edited(edit: FileEdit, plan: Plan, run: Run, number: int) -> Swap:
    """The edited copy, with mode and owner of the file. Raises Stale, OSError."""
    file, content = _checked(edit, plan)
    try:
        after = spliced(content or b"", edit.splices)
    except Refused as error:
        raise Stale(str(error), about=edit.file) from None
    if digest(after) != edit.after:
        raise Stale("the plan's own edits do not give what it says", about=edit.file, hint="Make a new plan.")
    before = state_of(file, edit.before or "")
    mode = stat.S_IMODE(file.stat().st_mode) if before is not None else 0o666 & ~_umask()
    made = _new_folders(file)
    staged = run.folder / "edits" / str(number)
    staged.parent.mkdir(exist_ok=True)
    put(staged, after, part=staged.with_name(f"{number}.part"), mode=mode)
    if before is not None:
        _give(staged, file)
    elif os.geteuid() == 0:  # what root adds to somebody's environment is theirs
        _give(staged, next(one for one in file.parents if one.is_dir()))
    staged.chmod(mode)  # after chown, which may clear bits of it
    boundary("edited")
    exchange = Exchange(
        file=str(file),
        owner="",
        before=before,
        after=state_of(staged, edit.after),
        kept=f"kept/edit-{number}",
        staged=str(staged.relative_to(run.folder)),
    )
    return Swap(exchanges=(exchange,), made=made)


def _give(staged: Path, like: Path) -> None:
    """Gives the copy owner and group of the file, as far as this user's rights allow."""
    owner = like.stat()
    for uid in (owner.st_uid, -1):  # only root may change the owner; anybody may give a file to a group of theirs
        with contextlib.suppress(OSError):
            os.chown(staged, uid, owner.st_gid)
            return


def _new_folders(file: Path) -> tuple[Folder, ...]:
    missing = [folder for folder in reversed(file.parents) if not folder.exists()]
    above = next(folder for folder in file.parents if folder.exists())
    return tuple(folder_like(folder, above) for folder in missing)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
