"""Finds the installer for a target: uv, the target's own pip, or the pip of attn-doctor's environment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

from attn_doctor.fix.packages.installed import installed
from attn_doctor.fix.packages.installers import REPORTS, Installer, Sources
from attn_doctor.fix.packages.scheme import sites
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target

#: The first pip with `pip --python`.
_FOR_ANOTHER = Version("22.3")


def installer_for(asked: str, target: Target, sources: Sources, folder: Path) -> Installer:
    """uv when the target has it or it is on PATH, else the target's own pip, else ours with `--python`.

    Raises Refused when there is none.
    """
    if target.externally_managed:
        raise Refused("the environment belongs to the system's package manager (EXTERNALLY-MANAGED)")
    own = target.python.parent / "uv"
    found = shutil.which("uv")
    uv = str(own) if own.is_file() else found and str(Path(found).absolute())  # started elsewhere
    if asked in ("auto", "uv") and uv:
        return Installer(kind="uv", command=(uv,), target=target, sources=sources, folder=folder)
    if sources.torch_backend and not sources.torch_backend.replace(".", "").isalnum():
        raise Refused(f"--torch-backend {sources.torch_backend} names no build of torch")
    if sources.torch_backend == "auto":
        raise Refused("--torch-backend auto is uv's: with pip name the build, for example --torch-backend cu128")
    if asked in ("auto", "pip") and target.told.get("has_pip"):
        version = _pip_version(target)
        return Installer(
            kind="pip",
            command=(str(target.python), "-m", "pip"),
            target=target,
            sources=sources,
            folder=folder,
            reports=version is None or version >= REPORTS,
        )
    ours = _our_pip()
    if asked in ("auto", "pip") and ours is not None and ours >= _FOR_ANOTHER:
        command = (sys.executable, "-m", "pip", "--python", str(target.python))
        return Installer(
            kind="pip", command=command, target=target, sources=sources, folder=folder,
            whose=f"the pip {ours} that attn-doctor runs beside, since the environment has none",
        )  # fmt: skip
    if asked == "auto":
        raise Refused("the environment has no pip, uv is not on PATH, and attn-doctor has no pip of its own (22.3)")
    raise Refused(f"there is no {asked}")


def _pip_version(target: Target) -> Version | None:
    """Version of the target's own pip; None when its metadata does not contain it (then it counts as a recent one)."""
    here = installed(sites(target))
    try:
        return Version(here["pip"].version)
    except (KeyError, InvalidVersion):
        return None


def _our_pip() -> Version | None:
    import importlib.metadata  # with all of email, for one pip in many

    try:
        return Version(importlib.metadata.version("pip"))
    except (importlib.metadata.PackageNotFoundError, InvalidVersion):
        return None
