"""Proves a prepared change on the shadow of the environment, before anything is exchanged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from threading import Thread

from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.prepare import StepFailed
from attn_doctor.fix.journal.run_plan import Proof
from attn_doctor.fix.proof import broken_imports, newly_unmet
from attn_doctor.fix.shadow import Shadow, Stopped
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.findings import Diagnosis, Finding
from attn_doctor.model.plans import Install, Plan, Step
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix.session import Session, again
from attn_doctor.workflows.fix.shadowed import folders_of, has_its_own_folder
from attn_doctor.workflows.subject import Say


class ShadowInMaking:
    """The shadow of a target, which is made while an installer works."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._thread: Thread | None = None
        self._failed: OSError | None = None
        self.shadow = Shadow()

    def place(self, run: Run) -> Shadow:
        """Says which folders it is of, and where it will lie."""
        for number, one in enumerate(folders_of(self._target, whole=has_its_own_folder(self._target))):
            self.shadow.folders[one] = str(run.folder / "shadow" / str(number))
        return self.shadow

    def begin(self, run: Run) -> None:
        """Begins, once."""
        if self._thread is not None:
            return
        self.place(run)
        folder = run.folder / "shadow"
        shutil.rmtree(folder, ignore_errors=True)
        self._thread = Thread(target=self._make, args=(folder,), daemon=True)
        self._thread.start()

    def finish(self) -> Shadow:
        """Waits until it is whole. Raises OSError."""
        if self._thread is not None:
            self._thread.join()
        if self._failed is not None:
            raise self._failed
        return self.shadow

    def stop(self) -> None:
        """Nobody wants it any more: afterwards nothing is written."""
        self.shadow.stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir()
            for one in tuple(self.shadow.folders):
                self.shadow.add(one, self.shadow.folders[one])
        except OSError as error:
            self._failed = error
        except Stopped:
            return


def prove(session: Session, plan: Plan, run: Run, swap: Swap, making: ShadowInMaking, say: Say) -> Proof | None:
    """Examines the environment as it would be; None where no step changes a file of it.

    Raises StepFailed when that cannot be examined; nothing was changed.
    """
    target = session.target
    folder = run.folder / "shadow"
    whole = has_its_own_folder(target)
    shadow = making.place(run)
    inside = {one.file for one in swap.exchanges if shadow.of(one.file) is not None}
    steps = tuple(step for step in plan.steps if _is_about(step, inside))
    outside = any(one.file not in inside and one.owner for one in swap.exchanges)
    if not steps or (outside and not inside):
        making.stop()
        return None
    making.begin(run)
    say("making a shadow")
    try:
        making.finish().exchange(run, swap)
    except OSError as error:
        raise StepFailed(
            f"the environment's shadow cannot be made: {error.strerror or error}",
            about=str(error.filename or folder),
            hint="Nothing was changed.",
        ) from None
    private = session.folder / "proof"
    private.mkdir()
    tried = _tried(target, shadow, private, whole=whole, timeout=session.given.request.timeout)
    trying = replace(session, target=tried, folder=private)
    after = again(trying, say)
    changed = frozenset(one.name for one in swap.distributions)
    broken = () if session.given.request.allow_unmet else newly_unmet(target, tried)
    if not session.given.request.quick and not broken:
        broken = broken_imports(target, tried, changed, timeout=session.given.request.timeout, folder=private)
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


def _is_about(step: Step, inside: set[str]) -> bool:
    return isinstance(step.change, Install) or step.change.is_list or step.change.file in inside


def _tried(target: Target, shadow: Shadow, folder: Path, *, whole: bool, timeout: float) -> Target:
    if whole:
        prefix = os.path.realpath(target.prefix)
        python = Path(shadow.folders[prefix]) / target.python.relative_to(target.prefix)
        return examine_target(str(python), as_module=False, folder=folder, timeout=timeout)
    told = dict(target.told)
    for name in ("purelib", "platlib"):
        told[name] = shadow.of(os.path.realpath(told[name])) or told[name]
    told["sys_path"] = [shadow.of(os.path.realpath(one)) or one if one else one for one in told["sys_path"]]
    return replace(target, told=told, in_place_of=tuple(shadow.folders.items()))


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
