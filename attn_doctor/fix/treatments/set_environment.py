"""`set-environment`: sets a variable when the environment is activated. All variables are in the same activation
files.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.fix.packages.typable_commands import typable
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.treatments import PlannedTreatment
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import SetEnvironment

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder


class _SetEnvironment(PlannedTreatment[SetEnvironment]):
    order = 30

    def described(self, action: SetEnvironment) -> Sequence[str]:
        return (f"Sets `{action.name}={action.value}`.",)

    def commands(self, action: SetEnvironment, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        return typable((f"export {action.name}={shlex.quote(action.value)}",), facts)

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        from attn_doctor.fix.edits import environment
        from attn_doctor.fix.plan_builder import cured

        wanted: dict[str, str] = {}
        cures: list[Chosen] = []
        for one in chosen:
            asked = one.actions(SetEnvironment)
            clash = [each.name for each in asked if wanted.get(each.name, each.value) != each.value]
            if clash:
                reason = f"another fix wants {clash[0]} to be {wanted[clash[0]]}"
                builder.leave(one, reason)
                continue
            wanted.update((each.name, each.value) for each in asked)
            cures.append(one)
        if not cures:
            return
        try:
            edits = environment.planned(Path(builder.prefix), wanted)
        except (Refused, OSError) as error:
            reason = str(error.strerror if isinstance(error, OSError) else error)
            for one in cures:
                builder.leave(one, reason)
            return
        for edit in edits:
            builder.add(edit, cures, tuple(cured(one) for one in cures))


TREATMENT = _SetEnvironment()
