"""Carries out a plan step by step; the journal announces each step before it is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.allowed import check_file
from attn_doctor.fix.edits import environment
from attn_doctor.fix.edits.splices import diff, digest, spliced
from attn_doctor.fix.journal.backups import keep, part_of, to_json
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import put, sha256_of
from attn_doctor.model.plans import FileEdit, Install, Plan


class StepFailed(AttnDoctorError):
    """A step failed; the caller undoes the earlier steps."""

    exit_status = 4


class Stale(AttnDoctorError):
    """The files or facts for which the plan was made have changed."""

    exit_status = 3


Installing = Callable[[Install, Run, int], None]


def check_files(plan: Plan) -> None:
    """Raises Stale when a file differs from the plan's, or must not be changed by a plan."""
    for step in plan.steps:
        if isinstance(step.change, FileEdit):
            _checked(step.change, plan)


def apply(plan: Plan, run: Run, *, install: Installing, done: frozenset[int] = frozenset()) -> None:
    """Makes every unfinished step.

    Raises StepFailed or Stale; all steps begun are in the journal by then.
    """
    for number, step in enumerate(plan.steps):
        if number in done:
            continue
        try:
            if isinstance(step.change, FileEdit):
                _edit(step.change, plan, run, number)
            else:
                install(step.change, run, number)
        except OSError as error:
            raise StepFailed(
                f"a change could not be made: {error.strerror or error}",
                about=str(error.filename or _about(step.change)),
                hint="What had been changed is put back.",
            ) from None


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


def _edit(edit: FileEdit, plan: Plan, run: Run, number: int) -> None:
    if _is_after(edit):
        return
    file, content = _checked(edit, plan)
    try:
        after = spliced(content or b"", edit.splices)
    except Refused as error:
        raise Stale(str(error), about=edit.file) from None
    if digest(after) != edit.after:
        raise Stale("the plan's own edits do not give what it says", about=edit.file, hint="Make a new plan.")
    mode = stat.S_IMODE(file.stat().st_mode) if content is not None else 0o666 & ~_umask()
    folders = [folder for folder in reversed(file.parents) if not folder.exists()]
    kept = keep([file], run, number)
    if kept[0].sha256 != edit.before:
        raise Stale("the file has been changed since the plan was made", about=edit.file, hint="Make a new plan.")
    run.write(
        f"step-{number}.json",
        {
            "kind": "edit-file",
            "kept": to_json(kept),
            "after": {edit.file: edit.after},
            "folders": [str(folder) for folder in folders],
        },
    )
    run.note("changing", step=number, kind="edit-file", file=edit.file)
    for folder in folders:
        folder.mkdir()
    put(file, after, part=part_of(file, run), mode=mode)
    boundary("replaced")
    run.note("changed", step=number)


def _is_after(edit: FileEdit) -> bool:
    """True when the edit is already made, as in a resumed run."""
    return edit.before != edit.after and sha256_of(Path(edit.file)) == edit.after


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
