"""The request to `fix`, the questions to the user, and the result."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.packages.installers import Sources
from attn_doctor.model.plans import Plan, Remaining, Step
from attn_doctor.probe.kernels.trials import TrialRequest
from attn_doctor.quick_dataclasses import dataclass, field


class WhichInstaller(str, Enum):
    """The installer that changes packages."""

    AUTO = "auto"
    PIP = "pip"
    UV = "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """Options of a fix: the target, the findings to fix, and how."""

    python: str | None = None
    """Interpreter or environment folder; None: the active one, as machine/candidates.py finds it."""
    as_module: bool = False
    """Without `python`: the interpreter that this code runs in."""
    quick: bool = False
    """Reads files only: nothing is imported or run."""
    timeout: float = 60.0
    """Seconds for each import and each sample."""
    configs: tuple[Path, ...] = ()
    """Training configurations, which are examined and fixed as well."""
    gpu: str | None = None
    assumptions: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    """Folders of recipes in addition to the bundled ones."""
    accept: Path | None = None
    """A file of accepted findings, which are not fixed."""
    trace: str | None = None
    """The factory of the run to trace; None to examine the environment itself."""
    autocast: str | None = None
    """Run the factory inside torch.autocast with this dtype."""
    kernels: TrialRequest | None = None
    """The attention kernels to run, before and after."""
    only: tuple[str, ...] = ()
    """Recipes or libraries whose findings are fixed; empty: all. Every recipe is evaluated all the same."""
    skip: tuple[str, ...] = ()
    remedies: tuple[tuple[str, str], ...] = ()
    """(finding, remedy) chosen by the user."""
    unsafe: bool = False
    """Include steps that change packages, precision or behaviour."""
    dry_run: bool = False
    save_plan: Path | None = None
    """Write the plan to this file, and change nothing."""
    plan_file: Path | None = None
    """Carry this plan out instead of a new one."""
    resume: bool = False
    """Finish an interrupted run."""
    yes: bool = False
    """Take the steps without asking."""
    installer: WhichInstaller = WhichInstaller.AUTO
    sources: Sources = field(default_factory=Sources)
    wheels: tuple[Path, ...] = ()
    """Wheel files downloaded by the user, for a remedy that needs one."""
    allow_unmet: bool = False
    """Replace packages although others need the release that is there."""
    even_if_used: bool = False
    """Change packages although programs run from the environment."""
    wait: float = 0.0
    """Seconds to wait for another run that holds the lock."""

    @property
    def shows_only(self) -> bool:
        """True when nothing is to be changed."""
        return self.dry_run or self.save_plan is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to the user; yes leads to a change."""

    plan: Plan
    assumed: Remaining | None = None
    """Fix this finding although it rests on an assumption? None: take these steps?"""
    steps: tuple[Step, ...] = ()
    """Steps of the plan that are taken together, since they fix the same."""


class FixEnding(Enum):
    """How a fix ended."""

    SHOWN = "the plan was shown or saved: nothing was to be changed"
    NO_STEPS = "the plan holds no step"
    NEEDS_UNSAFE = "the plan holds unsafe steps, and nobody allowed them"
    DECLINED = "the person said no"
    CURED = "carried out, and proved by examining again"
    NOT_CURED = "carried out, found not to fix it, and put back"
    NO_RUN = "nothing was there to resume"
    TAKEN_BACK = "the run that was resumed was being undone: it is undone now"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixResult:
    """The result, and the changes made."""

    ending: FixEnding
    exit_status: int
    plan: Plan | None = None
    beside: tuple[str, ...] = ()
    """Errors outside --only, of a plan that was only shown."""
    run: Run | None = None
    """The journal of the changes."""
    troubles: tuple[str, ...] = ()
    """Why the finding was not fixed."""

    @property
    def outcome(self) -> str:
        """How it ended, in one word for programs."""
        if self.ending is FixEnding.NO_STEPS and self.plan is not None and self.plan.left:
            if any(one.unavailable for one in self.plan.left):
                return "could-not-be-had"
            consent = any(one.needs_unsafe or one.needs_naming for one in self.plan.left)
            return "left-for-consent" if consent else "left"
        return _OUTCOMES[self.ending]

    @property
    def cured(self) -> tuple[str, ...]:
        """Findings that are gone in the second examination."""
        if self.ending is not FixEnding.CURED or self.plan is None:
            return ()
        return tuple(dict.fromkeys(cured.finding for step in self.plan.steps for cured in step.cures))


_OUTCOMES = {
    FixEnding.SHOWN: "shown",
    FixEnding.NO_STEPS: "nothing-to-fix",
    FixEnding.NEEDS_UNSAFE: "left-for-consent",
    FixEnding.DECLINED: "left-for-consent",
    FixEnding.CURED: "fixed",
    FixEnding.NOT_CURED: "put-back",
    FixEnding.NO_RUN: "nothing-to-resume",
    FixEnding.TAKEN_BACK: "put-back",
}
