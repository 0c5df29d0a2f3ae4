"""Proves a prepared change on the shadow of the environment, before anything is exchanged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.fix.altered_names import altered_names
from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.prepare import StepFailed
from attn_doctor.fix.journal.run_plan import Proof
from attn_doctor.fix.packages.installed import dependants, every_installed
from attn_doctor.fix.proof import broken_imports, broken_requirements
from attn_doctor.fix.shadow import Shadow, is_library
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.findings import Diagnosis, Finding
from attn_doctor.model.plans import Install, Plan, Step
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix.session import Session, again
from attn_doctor.workflows.fix.shadowed import folders_of, has_its_own_folder
from attn_doctor.workflows.subject import Say


def prove(session: Session, plan: Plan, run: Run, swap: Swap, say: Say) -> Proof | None:
    """Examines the environment as it would be; None where no step changes a file of it.

    Raises StepFailed when that cannot be examined; nothing was changed.
    """
    target = session.target
    folder = run.folder / "shadow"
    whole, real = has_its_own_folder(target), os.path.realpath(target.prefix)
    shadow = Shadow(
        folders={one: str(folder / str(number)) for number, one in enumerate(folders_of(target, whole=whole))},
        sites=folders_of(target, whole=False),
    )
    inside = {one.file for one in swap.exchanges if shadow.of(one.file) is not None}
    steps = tuple(step for step in plan.steps if _is_about(step, inside))
    outside = any(one.file not in inside and one.owner for one in swap.exchanges)
    if not steps or (outside and not inside):
        return None
    say("making a shadow")
    changed = frozenset(one.name for one in swap.distributions)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        everything = any(is_library(one.file) for one in swap.exchanges)
        shadow.make(folder, _apart(target, swap, changed), everything=everything)
        shadow.exchange(run, swap)
    except OSError as error:
        raise StepFailed(
            f"the environment's shadow cannot be made: {error.strerror or error}",
            about=str(error.filename or folder),
            hint="Nothing was changed.",
        ) from None
    private = session.folder / "proof"
    private.mkdir()
    request, kept = session.given.request, session.kept
    if kept is not None:
        names = altered_names(swap, run, shadow.sites)
        stand_ins = {**shadow.folders, **({str(target.prefix): shadow.folders[real]} if whole else {})}
        if names is None or not kept.go_on(names, stand_ins):
            kept = None
    tried = _tried(target, shadow, private, starts=whole and kept is None, timeout=request.timeout)
    after = again(replace(session, target=tried, folder=private, kept=kept), say)
    broken = () if request.allow_unmet else broken_requirements(target, tried)
    if not request.quick and not broken:
        broken = broken_imports(target, tried, changed, kept, timeout=request.timeout, folder=private)
    if session.kept is not None:
        session.kept.end()
    written = shadow.written_through()
    if written:
        raise StepFailed(
            "what was tried out writes into its own files",
            about="\n".join(written[:5]),
            hint="The environment has nothing of the change; look at these files yourself.",
        )
    shutil.rmtree(folder, ignore_errors=True)
    return Proof(
        plan=replace(plan, steps=steps),
        after=_led_back(after, shadow),
        broken=broken,
        whole=len(steps) == len(plan.steps) and not outside,
    )


def _apart(target: Target, swap: Swap, changed: frozenset[str]) -> Iterator[str]:
    """What must not share a folder with the environment: what changes, what needs that, and the interpreter."""
    yield from (one.file for one in swap.exchanges)
    yield f"{os.path.realpath(target.python.parent)}/{target.python.name}"
    for one in dependants(every_installed(map(str, target.search_path)), changed):
        site = os.path.realpath(one.info.parent)
        yield from (os.path.normpath(f"{site}/{recorded}") for recorded in one.recorded())


def _is_about(step: Step, inside: set[str]) -> bool:
    return isinstance(step.change, Install) or step.change.is_list or step.change.file in inside


def _tried(target: Target, shadow: Shadow, folder: Path, *, starts: bool, timeout: float) -> Target:
    """The target as it would be; where nothing of its start changes, by what it said of itself when it started."""
    if starts:
        prefix = os.path.realpath(target.prefix)
        python = Path(shadow.folders[prefix]) / target.python.relative_to(target.prefix)
        return examine_target(str(python), as_module=False, folder=folder, timeout=timeout)

    def led(path: str) -> str:
        # The interpreter of a virtual environment is a link out of it: the folder above is what counts.
        above, name = os.path.split(path)
        return shadow.of(os.path.realpath(path)) or shadow.of(f"{os.path.realpath(above)}/{name}") or path

    told = dict(target.told)
    for name in ("prefix", "exec_prefix", "executable", "purelib", "platlib", "scripts", "data"):
        told[name] = led(told[name])
    told["sys_path"] = [led(one) if one else one for one in told["sys_path"]]
    return replace(target, python=Path(led(str(target.python))), told=told, in_place_of=tuple(shadow.folders.items()))


def _led_back(after: Diagnosis, shadow: Shadow) -> Diagnosis:
    """The diagnosis with the environment's own paths, to be compared with the one before."""

    def led(text: str) -> str:
        for folder, place in shadow.folders.items():
            text = text.replace(place, folder)
        return text

    def finding(one: Finding) -> Finding:
        return replace(
            one,
            title=led(one.title),
            subjects=tuple(map(led, one.subjects)),
            symptoms=tuple(map(finding, one.symptoms)),
        )

    return replace(after, findings=tuple(map(finding, after.findings)))
