"""`advise`: instructions and commands that a person carries out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_doctor.fix.packages.install_commands import install_command
from attn_doctor.fix.packages.typable_commands import typable
from attn_doctor.fix.treatments import Treatment
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import Advise, install_request


class _Advise(Treatment[Advise]):
    def described(self, action: Advise) -> Sequence[str]:
        return (action.text, *(["", *(f"      {command}" for command in action.commands)] if action.commands else []))

    def commands(self, action: Advise, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        installs = (install_command(install_request([action]), facts),) if action.requirements else ()
        return typable((*action.commands, *filter(None, installs)), facts)


TREATMENT = _Advise()
