"""Puts last what installs a published wheel where none is published for what the log tells.

Only for logs: on a node, `fix` says why no wheel fits before it plans what comes next.
"""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Remedy
from attn_doctor.model.remedies import InstallWheel
from attn_doctor.recipes.data.wheels import NotTold, NoWheel, fitting, node_of


def existing_first(remedies: Iterable[Remedy], facts: FactSet) -> list[Remedy]:
    """The remedies in their order, those last whose wheel does not exist."""
    if any(facts.text(name) is None for name in ("torch.version", "torch.cuda", "python.version")):
        return list(remedies)
    return sorted(remedies, key=lambda one: _wants_a_wheel_that_is_not(one, facts))


def _wants_a_wheel_that_is_not(remedy: Remedy, facts: FactSet) -> bool:
    for action in (one.action for one in remedy.actions):
        if isinstance(action, InstallWheel) and "?" not in action.version:  # ? stands for an unknown fact
            try:
                fitting(action.package, node_of(facts), action.version)
            except NotTold:
                return False
            except NoWheel:
                return True
    return False
