"""Makes a plan from a diagnosis. Reads files and asks the resolver it is given; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.edits.pins import Manifests
from attn_doctor.fix.plan_builder import Chosen, PlanBuilder, Resolve
from attn_doctor.fix.treatments import PlannedTreatment, treatment_of
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.plans import Ground, Plan
from attn_doctor.model.remedies import Action
from attn_doctor.planning.choose import Policy, choose
from attn_doctor.recipes.recipe import Recipe


def plan(
    diagnosis: Diagnosis,
    facts: FactSet,
    recipes: Iterable[Recipe],
    policy: Policy,
    *,
    doctor_version: str,
    python: Path,
    prefix: Path,
    configs: tuple[Path, ...],
    resolve: Resolve,
    projects: tuple[Path, ...] = (),
    here: Path | None = None,
    manifests: Manifests | None = None,
    sealed: bool = False,
    site_folders: tuple[str, ...] = (),
) -> Plan:
    """Makes the plan. `here` is the current project; a `sealed` environment belongs to the system's package manager.
    `manifests`: where lists of packages lie. `site_folders`: of an interpreter that has no folder of its own.

    Equal diagnoses, facts, policies and resolver answers give equal plans.
    """
    chosen, stay = choose(diagnosis, facts, tuple(recipes), policy)
    named = tuple(os.path.realpath(one) for one in configs)
    of_configs = [str(project_of(Path(one))) for one in named]
    builder = PlanBuilder(
        facts=facts,
        configs=named,
        projects=tuple(dict.fromkeys([*(os.path.realpath(one) for one in projects), *of_configs])),
        prefix=os.path.realpath(prefix),
        here=os.path.realpath(here) if here is not None else "",
        sealed=sealed,
        manifests=manifests or Manifests(),
        left=list(stay),
        resolve=resolve,
    )
    for treatment, these in _by_treatment(chosen):
        treatment.plan(builder, these)
    return Plan(
        doctor_version=doctor_version,
        python=str(python),
        prefix=builder.prefix,
        configs=builder.configs,
        projects=builder.projects,
        steps=tuple(builder.steps),
        left=tuple(builder.left),
        grounds=tuple(Ground(name=str(name), state=fact.state) for name, fact in sorted(builder.grounds.items())),
        site_folders=site_folders,
    )


def _by_treatment(chosen: Iterable[Chosen]) -> Iterator[tuple[PlannedTreatment[Action], list[Chosen]]]:
    """Groups by treatment, in the order of a plan's steps; kinds of action with the same position are planned
    together.
    """
    planned: dict[int, tuple[PlannedTreatment[Action], dict[int, Chosen]]] = {}
    for number, one in enumerate(chosen):
        for proposed in one.remedy.actions:
            treatment = treatment_of(proposed.action)
            if isinstance(treatment, PlannedTreatment):
                planned.setdefault(treatment.order, (treatment, {}))[1][number] = one
    for order in sorted(planned):
        treatment, these = planned[order]
        yield treatment, list(these.values())
