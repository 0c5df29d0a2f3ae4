"""What was asked of `attn-doctor fix`: its options read, mistakes and contradictions refused.

Nothing is examined here: what needs the target is in fix_session.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from attn_doctor.cli.shared import each, names
from attn_doctor.diagnose.assume import assume
from attn_doctor.errors import BadInput
from attn_doctor.fix.packages import installers
from attn_doctor.formats import plan_v1
from attn_doctor.machine.files import check_output, read_input
from attn_doctor.model.facts import FactSet
from attn_doctor.model.plans import Plan
from attn_doctor.planning.choose import Policy
from attn_doctor.probe.kernels.known_kernels import Mode
from attn_doctor.probe.kernels.trials import TrialRequest
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import NamedGpu
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.workflows import kernels as kernel_trials


class WhichInstaller(str, Enum):
    """Which installer changes packages."""

    AUTO = "auto"
    PIP = "pip"
    UV = "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person asked for. Files and folders that matter once there is a target are still as they were typed.

    Raises BadInput where a question would have to be asked and nobody is there to answer.
    """

    recipes: tuple[Recipe, ...]
    policy: Policy
    assumptions: tuple[str, ...]
    save_plan: Path | None
    gpu: NamedGpu | None
    kernels: TrialRequest | None
    """Which attention kernels are run, before and after."""
    saved: Plan | None
    """The plan that is carried out instead of a new one."""
    plan_file: Path | None
    """Where it was read."""
    python: str | None
    """The interpreter to examine; None where it is looked for."""
    quick: bool
    configs: tuple[Path, ...]
    accept_file: Path | None
    trace: str | None
    """The factory of the run that is traced; None where the environment itself is examined."""
    autocast: str | None
    timeout: float
    """In seconds, for each import and each sample."""
    installer: WhichInstaller
    sources: installers.Sources
    wheels: tuple[Path, ...]
    stash: bool
    """What is replaced is copied aside first."""
    yes: bool
    dry_run: bool
    resume: bool
    even_if_used: bool
    wait: float
    """In seconds, for another run that holds the lock."""
    verbose: bool

    def __post_init__(self) -> None:
        """Raises BadInput."""
        if not (self.yes or self.shows_only or self.resume) and not sys.stdin.isatty():
            raise BadInput(
                "nobody can be asked: this is no terminal",
                about="attn-doctor fix",
                hint="--yes takes the plan's safe steps without asking; --dry-run shows it.",
            )

    @property
    def shows_only(self) -> bool:
        """Whether nothing is to be changed."""
        return self.dry_run or self.save_plan is not None


def picked(
    folders: list[Path] | None, only: list[str] | None, skip: list[str] | None
) -> tuple[tuple[Recipe, ...], tuple[str, ...]]:
    """The recipes to judge by, and the ids of those that --only lets mend (none: all of them). Raises BadInput."""
    every = shelf.shelf(each(folders))
    asked = names(only, "--only")
    kept = shelf.Selection(skip=names(skip, "--skip")).pick(every)
    return kept, tuple(one.id for one in shelf.Selection(only=asked).pick(every)) if asked else ()


def named(recipes: tuple[Recipe, ...], only: list[str] | None, remedy: list[str] | None) -> tuple[str, ...]:
    """The findings that a person named by themselves, not by their library. Raises BadInput."""
    words = {*names(only, "--only"), *(finding for finding, _ in remedies(remedy))}
    return tuple(one.id for one in recipes if words & {one.id, *one.aliases})


def remedies(values: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Each --remedy as (finding, remedy). Raises BadInput."""
    return tuple(_pair(one) for one in each(values))


def assumptions(values: list[str] | None) -> tuple[str, ...]:
    """Each --assume. Raises BadInput for one that cannot be read, before anything is examined for it."""
    assume(FactSet(), each(values))
    return each(values)


def writable(save_plan: Path | None) -> Path | None:
    """The --save-plan. Raises BadInput where no plan could be written, before anything is examined for it."""
    if save_plan is not None:
        check_output(save_plan, flag="--save-plan")
    return save_plan


def kernels_asked(
    mode: Mode | None, backend: list[str] | None, *, quick: bool, trace: str | None
) -> TrialRequest | None:
    """The --kernels. Raises BadInput, also for what --quick and --trace contradict."""
    asked = kernel_trials.asked(mode, each(backend), (), None, None, quick=quick)
    if asked is not None and trace is not None:
        raise BadInput(
            "a traced run or the kernels, not both", about="--trace --kernels", hint="Leave out one of them."
        )
    return asked


def saved_plan(file: Path | None) -> Plan | None:
    """The --plan. Raises BadInput where there is none in the file."""
    if file is None:
        return None
    try:
        text = read_input(file, most=64 << 20).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(f"the plan cannot be read: {said}", about=f"--plan {file}") from None
    return plan_v1.loads(text, about=f"--plan {file}")


def _pair(text: str) -> tuple[str, str]:
    finding, equals, remedy = text.partition("=")
    if not equals or not finding or not remedy:
        raise BadInput("that names no remedy", about=f"--remedy {text}", hint="Write --remedy FINDING=REMEDY.")
    return finding, remedy
