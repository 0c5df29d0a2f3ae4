"""The folders in which a run keeps its journal: the environment, the user's own folder where the packages lie there,
and projects of files that lie outside of both.
"""

from __future__ import annotations

import os
from pathlib import Path

from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal.journal import Run
from attn_doctor.model.plans import Install, Plan


def known_homes(prefix: Path, configs: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders that may contain journals: the environment, the user's own folder, the projects of the named files,
    the current project.
    """
    here = Path.cwd() / "file"
    projects = (project_of(Path(os.path.realpath(one))) for one in (*configs, here))
    users = () if (prefix / "pyvenv.cfg").exists() else (users_base(),)
    return tuple(dict.fromkeys([Path(os.path.realpath(prefix)), *users, *projects]))


def users_base() -> Path:
    """The folder of the user's own packages, as Python finds it (site.USER_BASE): several interpreters share it."""
    return Path(os.path.realpath(os.environ.get("PYTHONUSERBASE") or Path("~/.local").expanduser()))


def runs_about(prefix: Path, home: Path) -> tuple[Run, ...]:
    """The runs of a home, without those of another interpreter in a folder that several share."""
    found = journal.runs(home)
    if home != users_base() or Path(os.path.realpath(prefix)) == home:
        return found
    return tuple(run for run in found if run.prefix in ("", os.path.realpath(prefix)))


def homes_of(plan: Plan) -> tuple[Path, tuple[Path, ...]]:
    """The home of a plan's journal, and all homes to lock, since files in each of them change."""
    prefix = Path(plan.prefix)
    installs = any(isinstance(step.change, Install) for step in plan.steps)
    inside = any(Path(file).is_relative_to(prefix) for file in plan.files)
    users = next((step.change.users_base for step in plan.steps if isinstance(step.change, Install)), "")
    home = journal.home_of(prefix, plan.projects, installs=installs or inside)
    if users:
        home = Path(os.path.realpath(users))
    projects = {Path(root) for root in plan.projects if any(Path(file).is_relative_to(root) for file in plan.files)}
    return home, tuple({home, *projects, *({prefix} if inside or (installs and not users) else ())})
