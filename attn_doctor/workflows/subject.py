"""The target as reports name it, the facts with the user's assumptions, and the recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attn_doctor.diagnose import fingerprint
from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.machine import faults
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet, Origin
from attn_doctor.model.fingerprint import fingerprint_of
from attn_doctor.model.identity import Cohort, Identity
from attn_doctor.model.report import Examined
from attn_doctor.probe.host.node_names import boot_id, environment_name, node_name
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import NamedGpu
from attn_doctor.recipes.recipe import Recipe

#: Receives a short message about each step when it begins.
Say = Callable[[str], None]
#: No node and no interpreter was examined: a log may come from any machine.
NOBODY = Examined(python="", version="", environment="", because="")


def silent(_words: str) -> None:
    """Ignores progress messages."""


def pick_recipes(only: Sequence[str], skip: Sequence[str], folders: Sequence[Path]) -> tuple[Recipe, ...]:
    """The selected recipes, of the bundled ones and those of the folders.

    Raises BadInput for unknown names, and for folders that cannot be read.
    """
    return shelf.Selection(only=tuple(only), skip=tuple(skip)).pick(shelf.shelf(tuple(folders)))


def refuse_unreadable(assumptions: Sequence[str]) -> None:
    """Raises BadInput for an invalid assumption, before anything is examined."""
    assume(FactSet(), assumptions)


def assumed_names(facts: FactSet) -> tuple[str, ...]:
    """Names of the facts that the user assumed."""
    return tuple(str(fact.name) for fact in facts.values() if fact.origin is Origin.ASSUMED)


def as_if(facts: FactSet, gpu: NamedGpu | None, assumptions: tuple[str, ...]) -> FactSet:
    """The facts with the named GPU and the assumptions, and derived facts computed again."""
    if gpu is not None:
        facts = assume_gpu(facts, gpu)
    return derive(assume(facts, assumptions))


def examined(target: Target) -> Examined:
    """The target in the form of a report."""
    return Examined(
        python=str(target.python),
        version=target.version,
        environment=target.environment_kind,
        because=target.because,
        dead=target.dead,
        others=target.others,
    )


def identify(target: Target, facts: FactSet, environment: Mapping[str, str], *, seconds: float) -> Identity:
    """The identity of the report. `facts`: as probed, without assumptions."""
    node = node_name(environment)
    named = environment_name(target, environment, node)
    home = environment.get("HOME", "")
    places = fingerprint.Places(
        folders=(
            (named.prefix, "prefix"), (str(target.prefix.resolve()), "prefix"),
            (str(target.told["base_prefix"]), "base_prefix"), (home, "home"),
        ),
        hosts=(node.name, node.hostname, node.name.partition(".")[0], node.hostname.partition(".")[0]),
        users=(environment.get("USER", ""), environment.get("LOGNAME", ""), Path(home).name),
    )  # fmt: skip

    def cohort(facts: FactSet) -> Cohort:
        partition = environment.get("SLURM_JOB_PARTITION") or None
        return fingerprint.cohort_of(facts, partition=partition, environment=named.id)

    return Identity(
        node=node,
        environment=named,
        cohort=faults.survive("naming of the cohort", lambda: cohort(facts), lambda _reason: cohort(FactSet())),
        fingerprint=faults.survive(
            "taking of the fingerprint",
            lambda: fingerprint.fingerprint_from(facts, packages=BY_NAME, places=places),
            lambda _reason: fingerprint_of({}),
        ),
        volatile={
            "gpu_uuids": [facts.text(f"gpu.{index}.uuid") for index in facts.subjects("gpu")],
            "boot_id": boot_id(),
            "slurm_job": environment.get("SLURM_JOB_ID"),
            "seconds": round(seconds, 3),
        },
    )
