"""Which files a plan may change: the named configurations, files of the affected projects, and the target
environment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import Plan
from attn_doctor.probe.packages.patches import NOTE

#: Files that mark the root of a project.
_ROOT_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")


def project_of(file: Path) -> Path:
    """The project of a file: the nearest folder above it that contains a root mark, else the file's own folder.

    Never a home directory or the root folder: a stray .git there does not make everything below it one project.
    """
    home = Path.home()
    for folder in file.parents:
        if folder in (home, Path(folder.anchor)):
            break
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return folder
    return file.parent


def check_plan(plan: Plan, *, prefix: Path, here: Path) -> None:
    """Checks that a plan read from a file changes only this target, and the projects of its own configurations of the
    environment, or of the current folder. Raises Refused.
    """
    if plan.prefix != os.path.realpath(prefix):
        raise Refused(f"the plan is for the environment {plan.prefix}, and its interpreter is of {prefix}")
    known = {str(project_of(Path(one))) for one in (*plan.configs, plan.prefix, str(here.resolve() / "file"))}
    foreign = [one for one in plan.projects if one not in known]
    if foreign:
        raise Refused(f"the plan speaks of a project that is not the current one: {foreign[0]}")


def _is_patchable(path: Path) -> bool:
    if not {"site-packages", "dist-packages"} & set(path.parts[:-1]):
        return False
    noted = path.parent.name.endswith(".dist-info") and path.name in ("RECORD", NOTE)
    return noted or (path.suffix == ".py" and path.parent.name not in ("site-packages", "dist-packages"))


def check_file(file: str, *, configs: Iterable[str], roots: Iterable[str], prefix: str = "") -> Path:
    """The file, when it is one of the configurations or below one of the roots.

    Below `prefix`, the target's environment, only a package's Python source and its records in dist-info may be
    changed, even when the environment is inside the project. Links are resolved first: a plan names the file itself, so
    that redirecting a link later has no effect. Raises Refused.
    """
    path = Path(file)
    if not path.is_absolute() or ".." in path.parts or "\0" in file:
        raise Refused(f"{file!r} is no plain absolute path")
    real = Path(os.path.realpath(path))
    if real != path:
        raise Refused(f"{file} is reached through a link; it is {real}")
    # Configurations and roots were resolved when they were named.
    installed = bool(prefix) and path.is_relative_to(prefix)
    if installed and not _is_patchable(path) and file not in set(configs):
        raise Refused(f"{file} is a file of the environment that no plan may touch")
    if not installed and file not in set(configs) and not any(path.is_relative_to(root) and root for root in roots):
        raise Refused(f"{file} is neither a named configuration nor inside the project or the environment")
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise Refused(f"{file} cannot be looked at: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{file} is no regular file")
    return path
