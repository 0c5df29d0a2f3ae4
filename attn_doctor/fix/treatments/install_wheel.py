"""`install-wheel`: the wheel that a package's authors publish for the node, which a person downloads and names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attn_doctor.fix.packages.typable_commands import typable
from attn_doctor.fix.treatments import NotForThisNode, PlannedTreatment
from attn_doctor.fix.treatments.install_packages import INSTALLS_AT, plan_installation
from attn_doctor.model.facts import FactSet
from attn_doctor.model.package_versions import accepts
from attn_doctor.model.remedies import InstallWheel
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.wheels import (
    NotTold,
    NoWheel,
    Wheel,
    fitting,
    has_none_for,
    name_to_read,
    newest_for_torch,
    node_of,
    page_of,
)

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder


#: What a wheel is named after, in the order of its name.
_WHAT_THE_NAME_HOLDS = (
    '{python} -c "import sys, torch; print(torch.version.cuda, torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI,'
    ' sys.version)"'
)
#: Their setup.py fetches the published wheel for the torch that it finds, and compiles where there is none.
_FETCHED_BY_SETUP = (
    "{python} -m pip install --force-reinstall --no-cache-dir --no-deps --no-build-isolation {requirement}"
)


class _InstallWheel(PlannedTreatment[InstallWheel]):
    order = INSTALLS_AT

    def described(self, action: InstallWheel) -> Sequence[str]:
        return (f"Installs the wheel of `{action.package}{action.version}` that its authors publish for the node.",)

    def completed(self, action: InstallWheel, facts: FactSet) -> InstallWheel:
        return replace(action, text=_published(action, facts))

    def commands(self, action: InstallWheel, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        try:
            wheel = _wheel(action, facts)
        except NotTold:
            python = shlex.quote(facts.text("python.executable") or "python")
            named = f"{action.package}{action.version}"
            look = _WHAT_THE_NAME_HOLDS.format(python=python)
            if "?" in named or facts.text("node.system") not in (None, "Linux"):
                return typable((look,), facts)
            if has_none_for(action.package, facts, action.version):
                return ()  # as where all is known: what is built from source is another action's
            if release := newest_for_torch(action.package, facts, action.version):
                # Its newest release may have none for an older torch, and would be compiled for hours.
                named = f"{action.package}=={release}"
            return typable((_FETCHED_BY_SETUP.format(python=python, requirement=shlex.quote(named)), look), facts)
        except NoWheel:
            return ()
        return (
            f"curl -fL -o {wheel.file} {wheel.url}",
            *typable((f"attn-doctor fix --unsafe-fixes --wheel {wheel.file}",), facts),
        )

    def obstacle(self, action: InstallWheel, facts: FactSet, wheels: Mapping[str, str]) -> str:
        version = wheels.get(action.package)
        if version is None:
            try:
                wheel = _wheel(action, facts)
            except NoWheel as error:
                raise NotForThisNode(str(error)) from None
            return f"its wheel has to be fetched first, and named with --wheel {wheel.file}"
        if accepts(action.version, version):
            return ""
        return f"the wheel that was named is {action.package} {version}, and this fix asks for {action.version}"

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        plan_installation(builder, chosen)


def _wheel(action: InstallWheel, facts: FactSet) -> Wheel:
    return fitting(action.package, node_of(facts), action.version)


def _published(action: InstallWheel, facts: FactSet) -> str:
    try:
        return f"The published wheel for this node: {_wheel(action, facts).url}"
    except NoWheel as error:
        if isinstance(error, NotTold) and has_none_for(action.package, facts, action.version):
            here = f"torch {facts.text('torch.version')} and Python {facts.text('python.version')}"
            return f"None is published for {here}. All of them: {page_of(action.package)}."
        if isinstance(error, NotTold):
            return (
                "Its own setup fetches the published wheel for this torch, and compiles where there is none. All of"
                f" them: {page_of(action.package)}. The name holds CUDA, torch, C++ ABI and Python, which the"
                f" command prints: {name_to_read(action.package)}. Which one fits cannot be told: {error}"
                " (--assume NAME=VALUE)."
            )
        return f"None is published for this node: {error}. All of them: {page_of(action.package)}."


TREATMENT = _InstallWheel()
