"""The folders in which a run keeps its journal: the environment, and projects of files that lie outside of it."""

from __future__ import annotations

import os
from pathlib import Path

from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.journal import journal
from attn_doctor.model.plans import Install, Plan


def known_homes(prefix: Path, configs: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders that may contain journals: the environment, the projects of the named files, the current project."""
    here = Path.cwd() / "file"
    projects = (project_of(Path(os.path.realpath(one))) for one in (*configs, here))
    return tuple(dict.fromkeys([Path(os.path.realpath(prefix)), *projects]))


def homes_of(plan: Plan) -> tuple[Path, tuple[Path, ...]]:
    """The home of a plan's journal, and all homes to lock, since files in each of them change."""
    prefix = Path(plan.prefix)
    installs = any(isinstance(step.change, Install) for step in plan.steps)
    inside = any(Path(file).is_relative_to(prefix) for file in plan.files)
    home = journal.home_of(prefix, plan.projects, installs=installs or inside)
    projects = {Path(root) for root in plan.projects if any(Path(file).is_relative_to(root) for file in plan.files)}
    return home, tuple({home, *projects, *({prefix} if installs or inside else ())})
