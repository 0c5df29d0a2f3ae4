"""The treatments: one file for each kind of action, with the name of the kind (`set-config` in set_config.py).

A treatment gives the commands that a person would type, and plans the change. The change itself (a file edit, an
installation) is made and undone elsewhere in fix/.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import Action

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder

A = TypeVar("A", bound=Action)


class NotForThisNode(Exception):
    """The action's package does not exist for this node; the next remedy is tried."""


class Treatment(ABC, Generic[A]):
    """One kind of action. The modules that edit and resolve are imported only for planning: check needs commands
    alone.
    """

    @abstractmethod
    def described(self, action: A) -> Sequence[str]:
        """Description of the action for the pages of recipes, line by line."""

    def completed(self, action: A, facts: FactSet) -> A:
        """The action with the texts that depend on this node filled in."""
        return action

    def commands(self, action: A, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        """The commands that a person would type for this target; `bound`: kind -> subject of the finding."""
        return ()

    def obstacle(self, action: A, facts: FactSet, wheels: Mapping[str, str]) -> str:
        """What a person has to do before it can be planned; empty when nothing.

        `wheels`: package -> version of the wheel files named by the user. Raises NotForThisNode.
        """
        return ""


class PlannedTreatment(Treatment[A]):
    """One that a program carries out. Any other is carried out by a person."""

    order: ClassVar[int]
    """Position among the steps of a plan."""

    @abstractmethod
    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        """Adds the steps for all findings whose remedy has an action of this kind, or records why there are none."""


def treatment_of(action: A) -> Treatment[A]:
    """The treatment of an action."""
    return cast("Treatment[A]", _of_kind(action.kind))


@cache
def _of_kind(kind: str) -> object:
    return importlib.import_module(f"{__name__}.{kind.replace('-', '_')}").TREATMENT
