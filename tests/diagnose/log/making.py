"""Small recipes for tests of the engine alone, and the facts that a recipe's own cases name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attn_doctor.model.facts import Fact, FactSet, Known, Origin
from attn_doctor.recipes.build import build
from attn_doctor.recipes.recipe import Case, Recipe


def made(id_: str, *logs: dict[str, Any], **more: Any) -> Recipe:
    """A recipe with these [[log]] tables."""
    table = {
        "format": 1,
        "id": id_,
        "title": id_,
        "severity": "warning",
        "checked": "2026-11-21",
        "status": "stable",
        "since": "0.1.0",
        "what": "a test",
        "why": "a test",
        "reference": [],
        "log": list(logs),
        "case": [],
        **more,
    }
    return build(table, library="tests", origin="a test", file=Path("none"), sha256="0")


def given(case: Case) -> FactSet:
    """The facts that a case names beside its log."""
    return FactSet(
        Fact(name=name.of("0") if name.each else name, state=Known(value), how="the case", origin=Origin.ASSUMED)
        for name, value in case.facts
    )
