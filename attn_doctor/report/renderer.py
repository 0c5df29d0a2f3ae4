"""The description that each file of `renderers/` gives of itself, and the kinds of results.

Plain classes, because `status` loads this file in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from attn_doctor.model.findings import Severity
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.report import Report
    from attn_doctor.model.stack import StackAnswer
    from attn_doctor.recipes.recipe import Recipe
    from attn_doctor.report.comparison import Compared
    from attn_doctor.report.standing import NodeStanding

R = TypeVar("R")


class Kind(Generic[R]):
    """A kind of result: the class of the value, and the command that returns it."""

    def __init__(self, name: str) -> None:
        self.name = name


CHECK: Kind[Report] = Kind("check")
TRACE: Kind[Report] = Kind("trace")
EXPLAIN: Kind[Report] = Kind("explain")
FLEET: Kind[FleetVerdict] = Kind("fleet")
COMPARISON: Kind[Compared] = Kind("compare")
STATUS: Kind[NodeStanding] = Kind("status")
PLAN: Kind[StackAnswer] = Kind("plan")
SDPA: Kind[tuple[str, Mapping[str, Any]]] = Kind("check --explain-sdpa")
"""The call, and the facts about it."""
RECIPES: Kind[tuple[Recipe, ...]] = Kind("recipes")

#: Those that are one report (attn-doctor/report/v1), by the command that makes it.
OF_COMMAND = {kind.name: kind for kind in (CHECK, TRACE, EXPLAIN)}


class Media(Enum):
    """The main reader of a format."""

    PERSON = "person"
    PROGRAM = "program"


class Manner:
    """The amount of detail that a person wants."""

    __slots__ = ("fail_on", "masked", "verbose")

    def __init__(self, *, verbose: bool = False, masked: bool = True, fail_on: Severity | None = None) -> None:
        self.verbose = verbose
        """Every fact, and all evidence."""
        self.masked = masked
        """Names of users and hosts are hidden, in formats that are made to be shown around."""
        self.fail_on = fail_on
        """The mildest severity that fails the command, for formats that count failures; None: error."""


Write = Callable[[R, IO[str], Manner], None]


class Page(Generic[R]):
    """The function that writes one kind of result in a format."""

    def __init__(self, kind: Kind[R], write: Write[R], *, suffixes: tuple[str, ...] | None = None) -> None:
        self.kind = kind
        self.write = write
        self.suffixes = suffixes
        """Suffixes of output files that select it for this kind of result; None: those of the format."""


class Renderer:
    """One format."""

    def __init__(
        self,
        name: str,
        *,
        suffixes: tuple[str, ...] = (),
        media: Media,
        pages: tuple[Page[Any], ...],
        collected: bool = False,
        in_english: bool | None = None,
    ) -> None:
        self.name = name
        """Value of --format, and name of the file."""
        self.suffixes = suffixes
        """Suffixes of output files that select it without --format: `.md`."""
        self.media = media
        self.pages = pages
        """The kinds of results that it renders."""
        self.collected = collected
        """Reports in this format are collected: a report that only explains why nothing could be examined is better
        than none.
        """
        self.in_english = media is Media.PROGRAM if in_english is None else in_english
        """Whatever language is spoken: programs look for its words."""

    def ends(self, kind: Kind[R]) -> tuple[str, ...]:
        """Suffixes of output files that select the format for that kind of result."""
        page = self.page(kind)
        return () if page is None else self.suffixes if page.suffixes is None else page.suffixes

    def page(self, kind: Kind[R]) -> Page[R] | None:
        """The page for that kind of result; None when the format cannot write it."""
        return next((page for page in self.pages if page.kind is kind), None)
