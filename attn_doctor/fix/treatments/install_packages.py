"""`install-packages`: one call of the installer for the whole plan, including wheels named by the user."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attn_doctor.fix.packages.install_commands import install_command, other_names
from attn_doctor.fix.packages.typable_commands import typable
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.treatments import PlannedTreatment
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import InstallPackages, InstallWheel, install_request
from attn_doctor.quick_dataclasses import replace

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder
    from attn_doctor.model.plans import Install

#: Last in a plan; one step for all kinds of action that install.
INSTALLS_AT = 40
_FLAGS = {
    "no_deps": "--no-deps",
    "no_cache": "--no-cache-dir",
    "force_reinstall": "--force-reinstall",
    "no_build_isolation": "--no-build-isolation",
}


class _InstallPackages(PlannedTreatment[InstallPackages]):
    order = INSTALLS_AT

    def described(self, action: InstallPackages) -> Sequence[str]:
        flags = " ".join(flag for name, flag in _FLAGS.items() if getattr(action, name))
        return (f"Installs `{' '.join(action.requirements)}`{f' with `{flags}`' if flags else ''}.",)

    def commands(self, action: InstallPackages, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        request = install_request([action])
        command = install_command(request, facts)
        return typable((*_removals(request.requirements, facts), command), facts) if command else ()

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        plan_installation(builder, chosen)


def _removals(requirements: Sequence[str], facts: FactSet) -> tuple[str, ...]:
    """Two distributions must not own the same files: one with another name for the same library is removed first."""
    renamed = other_names(requirements, facts)
    if not renamed:
        return ()
    python = facts.text("python.executable") or "python"
    if facts.value("python.has_pip") is False:
        return (shlex.join(["uv", "pip", "uninstall", "--python", python, *renamed]),)
    return (shlex.join([python, "-m", "pip", "uninstall", "-y", *renamed]),)


def plan_installation(builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
    """One step that installs for all of them, or for those that can be installed."""
    from attn_doctor.fix.edits import pins

    try:
        install = _resolved(builder, chosen)
    except Refused as error:
        # All are installed by one call: one that is not available must not prevent the others.
        refused = _refused_alone(builder, chosen) if len(chosen) > 1 else {}
        for number, one in enumerate(chosen):
            if number in refused or not refused:
                builder.leave(one, refused.get(number, error))
        if refused and len(refused) < len(chosen):
            plan_installation(builder, [one for number, one in enumerate(chosen) if number not in refused])
        return
    notes = dict.fromkeys(note for one in chosen for note in one.notes)
    edits, told = pins.planned(install.changes, builder.manifests)
    builder.add_installation(replace(install, warnings=(*notes, *install.warnings, *told)), chosen, edits)


def _resolved(builder: PlanBuilder, chosen: Sequence[Chosen]) -> Install:
    """Resolves the packages of all findings in one call of the installer. Raises Refused."""
    asked: list[InstallPackages | InstallWheel] = []
    for one in chosen:
        asked += [*one.actions(InstallPackages), *one.actions(InstallWheel)]
    return builder.resolve(install_request(asked))


def _refused_alone(builder: PlanBuilder, chosen: Sequence[Chosen]) -> dict[int, Refused]:
    """Why not, for each finding whose packages cannot be installed even alone."""
    refused: dict[int, Refused] = {}
    for number, one in enumerate(chosen):
        try:
            _resolved(builder, [one])
        except Refused as error:
            refused[number] = error
    return refused


TREATMENT = _InstallPackages()
