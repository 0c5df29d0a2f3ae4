"""`json`: one object for programs, with its schema's name. Keys may be added later, never renamed or removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from attn_doctor.machine.printable import json_text
from attn_doctor.report.renderer import (
    CHECK,
    COMPARISON,
    EXPLAIN,
    FLEET,
    PLAN,
    RECIPES,
    SDPA,
    STATUS,
    TRACE,
    Manner,
    Media,
    Page,
    Renderer,
)
from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.report import Report
    from attn_doctor.model.stack import StackAnswer
    from attn_doctor.recipes.recipe import Recipe
    from attn_doctor.report.comparison import Compared
    from attn_doctor.report.standing import NodeStanding


def _report(report: Report, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.formats import report_v1

    stream.write(report_v1.dumps(report))


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.formats import fleet_v1

    stream.writelines(fleet_v1.pieces(verdict, doctor_version=__version__))


def _comparison(compared: Compared, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report import comparison

    stream.write(json_text(comparison.to_json(compared), indent=2) + "\n")


def _plan(answer: StackAnswer, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.formats import stack_v1

    stream.write(stack_v1.dumps(answer))


def _standing(standing: NodeStanding, stream: IO[str], manner: Manner) -> None:
    stream.write(json_text(standing.to_json()) + "\n")


def _call(explained: tuple[str, Mapping[str, Any]], stream: IO[str], manner: Manner) -> None:
    call, answer = explained
    stream.write(json_text({"call": call, **answer}, indent=2) + "\n")


def _recipes(recipes: tuple[Recipe, ...], stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report import recipes_json

    stream.write(recipes_json.dumps(recipes))


RENDERER = Renderer(
    "json",
    suffixes=(".json",),
    media=Media.PROGRAM,
    pages=(
        Page(CHECK, _report),
        Page(TRACE, _report),
        Page(EXPLAIN, _report),
        Page(FLEET, _fleet),
        Page(COMPARISON, _comparison),
        Page(PLAN, _plan),
        Page(STATUS, _standing),
        Page(SDPA, _call),
        Page(RECIPES, _recipes),
    ),
)
