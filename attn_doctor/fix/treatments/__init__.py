"""What each kind of action means: one file a kind, named as the kind is (`set-config` in set_config.py).

A treatment says what a person would type and plans the change. Making it and putting it back are those of the change
that it plans (a file edit, an installation).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import Action

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder

A = TypeVar("A", bound=Action)


class NotForThisNode(Exception):
    """What the action would bring is not to be had for this node; the next remedy's turn."""


class Treatment(Generic[A]):
    """One kind of action. Plans import what edits and resolves when they are made: check asks for commands alone."""

    order: ClassVar[int | None] = None
    """Its place among the steps of a plan; None: a person has to do it."""

    def described(self, action: A) -> Sequence[str]:
        """What it does, as the pages of recipes say it, line by line."""
        raise NotImplementedError

    def completed(self, action: A, facts: FactSet) -> A:
        """The action, whose texts are filled, with what only this node tells."""
        return action

    def commands(self, action: A, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        """What a person would type for this target; `bound`: the subjects that the finding is about, by kind."""
        return ()

    def obstacle(self, action: A, facts: FactSet, wheels: Mapping[str, str]) -> str:
        """What a person has to do before it can be planned; empty when nothing is.

        `wheels`: versions of the wheel files that were named, by package. Raises NotForThisNode.
        """
        return ""

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        """Adds the steps for all the findings whose remedy has an action of this kind, or says why there are none."""
        raise NotImplementedError


def treatment_of(action: A) -> Treatment[A]:
    """The treatment of an action."""
    return cast("Treatment[A]", _of_kind(action.kind))


@cache
def _of_kind(kind: str) -> object:
    return importlib.import_module(f"{__name__}.{kind.replace('-', '_')}").TREATMENT
