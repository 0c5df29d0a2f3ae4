"""Hook files for schedulers and health checkers: the templates in this folder, with placeholders @@LIKE_THIS@@ filled
in.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from importlib.resources import files

from attn_doctor.quick_dataclasses import dataclass


class Hook(str, Enum):
    """The program that calls attn-doctor."""

    SLURM_JOB = "slurm-job"
    SLURM_HEALTHCHECK = "slurm-healthcheck"
    SLURM_TASKPROLOG = "slurm-taskprolog"
    K8S = "k8s"
    NPD = "npd"
    GPUD = "gpud"


#: Files of each hook; the first one is the hook, the others accompany it.
FILES: Mapping[Hook, tuple[str, ...]] = {
    Hook.SLURM_JOB: ("slurm-job.sh",),
    Hook.SLURM_HEALTHCHECK: ("slurm-healthcheck.sh",),
    Hook.SLURM_TASKPROLOG: ("slurm-taskprolog.sh",),
    Hook.K8S: ("k8s.yaml",),
    Hook.NPD: ("npd.json", "npd-check.sh"),
    Hook.GPUD: ("gpud.yaml",),
}

#: Options that apply only to some hooks; the others refuse them.
TAKES: Mapping[Hook, tuple[str, ...]] = {
    Hook.SLURM_JOB: ("--check-arg", "--fix", "--plan", "--unsafe-fixes", "--fix-arg"),
    Hook.SLURM_HEALTHCHECK: ("--check-arg", "--verdicts"),
    Hook.SLURM_TASKPROLOG: ("--check-arg", "--verdicts"),
    Hook.K8S: ("--check-arg",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Values of the placeholders."""

    version: str
    doctor: Sequence[str]
    python: str
    """Empty: the interpreter active when the hook runs (slurm-taskprolog alone)."""
    reviewed: Sequence[str] = ()
    """Arguments for `fix` that restrict it to reviewed remedies."""
    check: Sequence[str] = ()
    deep: str = "auto"
    timeout: int = 300
    image: str = "REGISTRY/IMAGE:TAG"
    slurm_conf: str = ""
    """The path of slurm.conf where it is not the usual one; empty: as slurmd has it."""
    verdicts: str = ""
    """The folder of full verdicts; empty: none."""
    folder: str = "/etc/attn-doctor"
    """Folder in which the hook's files will be installed."""


def written(hook: Hook, places: Places) -> dict[str, str]:
    """File name -> text. Every value is quoted for the type of its file."""
    found = {}
    for name in FILES[hook]:
        text = files(__package__).joinpath(name).read_text()
        values = _values(places, _shell if name.endswith(".sh") else _listed)
        for place, value in values.items():
            text = text.replace(f"@@{place}@@", value)
        found[name] = text
    return found


def _values(places: Places, quote: Callable[..., str]) -> dict[str, str]:
    return {
        "VERSION": places.version,
        "DOCTOR": quote(*places.doctor),
        "DOCTORSHELL": _shell(*places.doctor),
        "SCRIPT": json.dumps(f"{places.folder}/npd-check.sh"),
        "COMMACHECK": "".join(f", {json.dumps(word)}" for word in places.check),
        "COMMAPYTHON": f', "--python", {json.dumps(places.python)}' if places.python else "",
        "PYTHON": quote(places.python),
        "REVIEWED": quote(*places.reviewed),
        "CHECK": quote(*places.check),
        "DEEP": quote(places.deep),
        "TIMEOUT": str(places.timeout),
        "IMAGE": quote(places.image),
        "FOLDER": quote(places.folder),
        "VERDICTS": quote(places.verdicts) if places.verdicts else "",
        "SLURMCONF": quote(places.slurm_conf),
    }


def _shell(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _listed(*words: str) -> str:
    """Items of a JSON list, which YAML reads as well."""
    return ", ".join(json.dumps(word) for word in words)
