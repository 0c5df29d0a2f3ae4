"""Hook files for schedulers and health checkers: the templates in this folder, with placeholders @@LIKE_THIS@@ filled
in.
"""

from __future__ import annotations

import hashlib
import json
import re
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
    K8S_DAEMONSET = "k8s-daemonset"
    NPD = "npd"
    GPUD = "gpud"
    ANSIBLE = "ansible"
    PBS = "pbs"
    LSF = "lsf"
    FLUX = "flux"
    SKYPILOT = "skypilot"


#: Files of each hook; the first one is the hook, the others accompany it.
FILES: Mapping[Hook, tuple[str, ...]] = {
    Hook.SLURM_JOB: ("slurm-job.sh",),
    Hook.SLURM_HEALTHCHECK: ("slurm-healthcheck.sh",),
    Hook.SLURM_TASKPROLOG: ("slurm-taskprolog.sh",),
    Hook.K8S: ("k8s.yaml",),
    Hook.K8S_DAEMONSET: ("k8s-daemonset.yaml",),
    Hook.NPD: ("npd.json", "npd-check.sh"),
    Hook.GPUD: ("gpud.yaml",),
    Hook.ANSIBLE: ("ansible.yml",),
    Hook.PBS: ("pbs.sh",),
    Hook.LSF: ("lsf.sh",),
    Hook.FLUX: ("flux.sh",),
    Hook.SKYPILOT: ("skypilot.yaml",),
}

#: Hooks that submit a job for each node: their file holds the scheduler, the source and the command that submits one,
#: `_FRAME` everything else.
_A_JOB_A_NODE = frozenset({Hook.PBS, Hook.LSF, Hook.FLUX})
_FRAME = "job-a-node.sh"

#: Options that apply only to some hooks; the others refuse them.
TAKES: Mapping[Hook, tuple[str, ...]] = {
    Hook.SLURM_JOB: ("--check-arg", "--fix", "--plan", "--unsafe-fixes", "--fix-arg"),
    Hook.SLURM_HEALTHCHECK: ("--check-arg", "--verdicts"),
    Hook.SLURM_TASKPROLOG: ("--check-arg", "--verdicts"),
    Hook.K8S: ("--check-arg", "--nodes"),
    Hook.K8S_DAEMONSET: ("--check-arg",),
    Hook.ANSIBLE: ("--check-arg",),
    Hook.PBS: ("--check-arg",),
    Hook.LSF: ("--check-arg",),
    Hook.FLUX: ("--check-arg",),
    Hook.SKYPILOT: ("--check-arg",),
}


#: The head of a manifest with a Job for each node.
_EACH = """\
# A Job for each node, pinned to it, written by {version}; the image is the one that training uses, with
# attn-doctor in it.
#
#     kubectl apply -f k8s.yaml
#     kubectl wait --for=condition=complete --timeout=20m job -l app=attn-doctor
#     kubectl logs -l app=attn-doctor --tail=-1 --max-log-requests=64 | attn-doctor fleet merge - --expect NODES
"""


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
    nodes: Sequence[str] = ()
    """k8s: a Job for each of these nodes instead of one for as many as the file says."""
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
        text = text if hook not in _A_JOB_A_NODE else _framed(text, name)
        values = _values(places, _shell if name.endswith(".sh") else _listed)
        for place, value in values.items():
            text = text.replace(f"@@{place}@@", value)
        found[name] = _a_job_each(text, places.nodes) if hook is Hook.K8S and places.nodes else text
    return found


def _framed(text: str, name: str) -> str:
    """The whole script of a hook that submits a job for each node."""
    scheduler, source, submit = text.split("\n", 2)
    frame = files(__package__).joinpath(_FRAME).read_text()
    parts = {"SCHEDULER": scheduler[2:], "SOURCE": source[2:], "FILE": name, "SUBMIT": submit.rstrip("\n")}
    for place, value in parts.items():
        frame = frame.replace(f"@@{place}@@", value)
    return frame


def _a_job_each(text: str, nodes: Sequence[str]) -> str:
    """The manifest with one Job for each node: a Job of many pods can use one node twice, and another never."""
    job = text.partition("apiVersion: batch/v1\n")[2]
    job = re.sub(r"  completionMode: .*?(?=  activeDeadlineSeconds)", "  backoffLimit: 1\n", job, flags=re.DOTALL)
    job = re.sub(r"      nodeSelector:\n.*\n", "", job)
    pinned = (
        "      affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n"
        "            nodeSelectorTerms:\n              - matchFields:\n"
        "                  - {key: metadata.name, operator: In, values: [@@NODE@@]}\n"
    )
    job = re.sub(r"      affinity:\n.*?(?=      containers:)", pinned, job, flags=re.DOTALL)
    jobs = []
    for node in nodes:
        mine = hashlib.sha256(node.encode()).hexdigest()[:6]  # two long names may be cut to one
        name = re.sub(r"[^a-z0-9-]", "-", node.lower()).strip("-")[:40].strip("-")
        one = job.replace("  name: attn-doctor\n", f"  name: attn-doctor-{name}-{mine}\n", 1)
        jobs.append(f"apiVersion: batch/v1\n{one.replace('@@NODE@@', json.dumps(node))}")
    version = re.search(r"attn-doctor \S+(?=;)", text)
    return _EACH.format(version=version[0] if version else "attn-doctor") + "---\n".join(jobs)


def _values(places: Places, quote: Callable[..., str]) -> dict[str, str]:
    return {
        "VERSION": places.version,
        "DOCTOR": quote(*places.doctor),
        "DOCTORSHELL": _shell(*places.doctor),
        "SCRIPT": json.dumps(f"{places.folder}/npd-check.sh"),
        "COMMACHECK": "".join(f", {json.dumps(word)}" for word in places.check),
        "DOCTORITEM": "\n            - ".join(json.dumps(word) for word in places.doctor),
        "ITEMSCHECK": "".join(f"\n            - {json.dumps(word)}" for word in places.check),
        "ITEMSPYTHON": f"\n            - --python\n            - {json.dumps(places.python)}" if places.python else "",
        "COMMAPYTHON": f', "--python", {json.dumps(places.python)}' if places.python else "",
        "SHELLPYTHON": f" --python {_shell(places.python)}" if places.python else "",
        "SHELLCHECK": "".join(f" {_shell(word)}" for word in places.check),
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
