"""What is asked of `fix`, what a person is asked in turn, and how it ended."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.packages.installers import Sources
from attn_doctor.model.plans import Plan, Remaining
from attn_doctor.probe.kernels.trials import TrialRequest
from attn_doctor.quick_dataclasses import dataclass, field


class WhichInstaller(str, Enum):
    """Which installer changes packages."""

    AUTO = "auto"
    PIP = "pip"
    UV = "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRequest:
    """What is examined, what of it is cured, and how."""

    python: str | None = None
    """Interpreter or environment folder; None: the active one, as machine/candidates.py finds it."""
    as_module: bool = False
    """Without `python`: the interpreter that this code runs in."""
    quick: bool = False
    """Look at files only: nothing is imported or run."""
    timeout: float = 60.0
    """Seconds for each import and each sample."""
    configs: tuple[Path, ...] = ()
    """Training configurations, examined and cured as well."""
    gpu: str | None = None
    assumptions: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    """Folders of recipes beside the bundled ones."""
    accept: Path | None = None
    """Known findings, which are left as they are."""
    trace: str | None = None
    """The factory of the run that is traced; None where the environment itself is examined."""
    autocast: str | None = None
    """Run it inside torch.autocast of this dtype."""
    kernels: TrialRequest | None = None
    """Which attention kernels are run, before and after."""
    only: tuple[str, ...] = ()
    """Recipes or libraries whose findings are cured; none: all. Every recipe is judged all the same."""
    skip: tuple[str, ...] = ()
    remedies: tuple[tuple[str, str], ...] = ()
    """(finding, remedy) that a person chose."""
    unsafe: bool = False
    """Plan steps that change packages, precision or behaviour, too."""
    dry_run: bool = False
    save_plan: Path | None = None
    """Write the plan there, and change nothing."""
    plan_file: Path | None = None
    """Carry this plan out instead of a new one."""
    resume: bool = False
    """Finish a run that was cut off."""
    yes: bool = False
    """Take the steps without asking."""
    installer: WhichInstaller = WhichInstaller.AUTO
    sources: Sources = field(default_factory=Sources)
    wheels: tuple[Path, ...] = ()
    """Files that a person fetched, for a fix that asks for one."""
    stash: bool = True
    """What is replaced is copied aside first."""
    even_if_used: bool = False
    """Change packages under programs that run from the environment."""
    wait: float = 0.0
    """Seconds, for another run that holds the lock."""

    @property
    def shows_only(self) -> bool:
        """Whether nothing is to be changed."""
        return self.dry_run or self.save_plan is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked; yes changes something."""

    plan: Plan
    assumed: Remaining | None = None
    """Is this finding to be cured although it rests on an assumption? None: are the steps of the plan to be taken?"""


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
    """How it ended, and what was changed."""

    ending: FixEnding
    exit_status: int
    plan: Plan | None = None
    beside: tuple[str, ...] = ()
    """Errors that were not asked about, of a plan that was only shown."""
    run: Run | None = None
    """The journal of what was carried out."""
    troubles: tuple[str, ...] = ()
    """Why it did not fix the finding."""

    @property
    def cured(self) -> tuple[str, ...]:
        """Findings that are gone, as the second examination showed."""
        if self.ending is not FixEnding.CURED or self.plan is None:
            return ()
        return tuple(dict.fromkeys(cured.finding for step in self.plan.steps for cured in step.cures))
