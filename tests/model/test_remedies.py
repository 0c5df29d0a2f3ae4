"""An action is one record, from a recipe's table to a plan: nothing else knows it by its keys."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attn_doctor
from attn_doctor.fix import treatments
from attn_doctor.fix.treatments import PlannedTreatment, Treatment, treatment_of
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import (
    KINDS,
    Action,
    Advise,
    EditSource,
    InstallPackages,
    InstallWheel,
    SetConfig,
    SetEnvironment,
    action_from,
    install_request,
    settings_of,
    with_advice,
)
from attn_doctor.recipes import shelf
from attn_doctor.recipes.schema import actions as schema_actions
from tests.strategies import actions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HOUSE = Path(attn_doctor.__file__).parent
#: The record itself, and what a recipe may say for it.
SPELL_KINDS = ("model/remedies.py", "recipes/schema/actions.py")
#: The border of recipe files and that of reports.
CONVERT = ("model/remedies.py", "recipes/build.py", "formats/findings_v1.py")
#: `install-packages` is also what a plan and a journal call a change, which is another thing.
OF_CHANGES = ("formats/plan_v1.py",)

MAPPINGS = ("dict", "asdict", "vars", "fields")

EACH: tuple[Action, ...] = (
    InstallPackages(requirements=("xformers==1",), no_deps=True),
    InstallWheel(package="flash-attn", version=">=2.8"),
    SetConfig(key="bf16", value="true"),
    EditSource(edit="cast-before-kernel", where="trace.place"),
    SetEnvironment(name="A", value="1"),
    Advise(text="Do it.", commands=("ls",), requirements=("torch",)),
)


def parsing(source: str, room: str) -> Iterator[str]:
    """The places in a module where an action is known by its keys, or its kind by its name."""
    for node in ast.walk(ast.parse(source)):
        at = f"{room}:{getattr(node, 'lineno', 0)}"
        change = room in OF_CHANGES and getattr(node, "value", None) == InstallPackages.kind
        if isinstance(node, ast.Constant) and node.value in KINDS and room not in SPELL_KINDS and not change:
            yield f"{at} spells {node.value}"
        if isinstance(node, ast.Name) and node.id in ("action_from", "settings_of") and room not in CONVERT:
            yield f"{at} calls {node.id}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAPPINGS:
            for each in node.args:
                if isinstance(each, ast.Attribute) and each.attr in ("arguments", "action"):
                    yield f"{at} makes a mapping of .{each.attr}"


@pytest.mark.long
def test_no_module_parses_an_action() -> None:
    """But the one converter, the border of recipes and that of reports."""
    files = {str(file.relative_to(HOUSE)): file for file in HOUSE.rglob("*.py")}
    # What runs in the patient's interpreter knows no remedies; arguments are a call's there.
    rooms = {room: file for room, file in files.items() if not room.startswith("patient/")}

    assert {*SPELL_KINDS, *CONVERT, *OF_CHANGES} <= rooms.keys()
    assert [told for room, file in rooms.items() for told in parsing(file.read_text(), room)] == []


@pytest.mark.parametrize(
    "source",
    [
        "settings = dict(action.arguments)",
        "def planned(one): return asdict(one.action)",
        "if action.kind == 'set-config': pass",
        "DOABLE = frozenset({'edit-source'})",
        "for key, value in settings_of(action).items(): pass",
        "from attn_doctor.model import remedies\nmade = action_from('x', {})",
    ],
)
def test_who_parses_an_action_is_told(source: str) -> None:
    """Each of the ways in which it used to be done."""
    assert list(parsing(source, "report/text.py"))


def test_every_kind_has_a_treatment() -> None:
    """A file each, which is named as the kind is and knows that kind alone."""
    folder = Path(treatments.__file__).parent
    named = {file.stem.replace("_", "-") for file in folder.glob("*.py")} - {"--init--"}

    assert named == set(KINDS)
    for kind in KINDS.values():
        needed = {one.name: one for one in fields(kind) if one.default is MISSING}
        action = action_from(kind.kind, {name: "x" if one.type == "str" else ("x",) for name, one in needed.items()})
        treatment = treatment_of(action)
        assert isinstance(treatment, Treatment)
        assert treatment.described(action)
        assert isinstance(treatment, PlannedTreatment) == (kind is not Advise)


@pytest.mark.parametrize("action", EACH, ids=lambda action: str(action.kind))
def test_what_a_person_types_where_nothing_is_known(action: Action) -> None:
    """No fact is needed to say it, nor to say what is to be read."""
    treatment = treatment_of(action)

    assert all(isinstance(one, str) for one in treatment.commands(action, FactSet(), {}))
    assert treatment.completed(action, FactSet()).kind == action.kind


def test_a_recipe_may_say_what_a_record_holds() -> None:
    """The table of a recipe file and the record have the same keys, with the same values where nothing is said."""
    for kind, table in schema_actions.TABLES.items():
        mine = {one.name: one for one in fields(KINDS[kind])}
        theirs = {name: one for name, one in table.model_fields.items() if name != "kind"}
        more = {"text"} if kind == InstallWheel.kind else set()  # which wheel it is on a node no recipe can know
        assert mine.keys() - more == theirs.keys()
        for name, one in theirs.items():
            assert one.is_required() == (mine[name].default is MISSING)
            assert one.is_required() or (one.default or None) == (mine[name].default or None)
    assert schema_actions.TABLES.keys() == KINDS.keys()


@given(actions)
def test_a_record_and_its_table(action: Action) -> None:
    """A table holds the whole of it."""
    assert action_from(action.kind, settings_of(action)) == action


def test_the_shelf_is_kept_to_the_letter() -> None:
    """Reports give a remedy's settings as its recipe does: the same keys, values and order."""
    seen = 0
    for recipe in shelf.bundled():
        tables = tomllib.loads(recipe.file.read_text()).get("remedy", [])
        written = [table for remedy in tables for table in remedy.get("actions", ())]
        made = [action for remedy in recipe.remedies for action in remedy.actions]
        for table, action in zip(written, made, strict=True):
            given_ = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
            assert list(given_.items()) == [("kind", action.kind), *settings_of(action).items()], recipe.id
            seen += 1
    assert seen > 200


@pytest.mark.parametrize(
    ("kind", "settings", "error"),
    [
        ("set-config", {"key": "a"}, TypeError),
        ("set-config", {"key": "a", "value": 1}, TypeError),
        ("set-config", {"key": "a", "value": "b", "more": "c"}, TypeError),
        ("install-packages", {"requirements": "torch"}, TypeError),
        ("install-packages", {"requirements": ["torch", 1]}, TypeError),
        ("install-packages", {"requirements": ["torch"], "no_deps": "yes"}, TypeError),
        ("restart-node", {}, ValueError),
    ],
)
def test_no_table_of_an_action(kind: str, settings: dict[str, Any], error: type[Exception]) -> None:
    """A setting that is missing, unknown or of another type is told at the door."""
    with pytest.raises(error):
        action_from(kind, settings)


def test_one_request_for_several_actions() -> None:
    """Once what any asks; without dependencies only where each that is resolved says so."""
    both = [
        InstallPackages(requirements=("a==1", "b"), no_deps=True, torch_backend=""),
        InstallPackages(requirements=("b", "c"), no_cache=True, torch_backend="cu128"),
        InstallPackages(requirements=("d==2",), no_deps=True, no_build_isolation=True, force_reinstall=True),
        InstallWheel(package="flash-attn"),
    ]
    request = install_request(both)

    assert (request.requirements, request.builds, request.wheels) == (("a==1", "b", "c"), ("d==2",), ("flash-attn",))
    assert (request.no_deps, request.no_cache, request.reinstall) == (False, True, True)
    assert request.torch_backend == "cu128"
    assert install_request(both[:1]).no_deps
    assert install_request(both[2:3]).no_deps


@given(st.sampled_from(EACH))
def test_words_for_a_person(action: Action) -> None:
    """They change by themselves; an action without any stays as it is."""
    other = with_advice(action, lambda text: text + "!")

    assert other.advice == (f"{action.advice}!" if hasattr(action, "text") else "")
    assert {k: v for k, v in settings_of(other).items() if k != "text"} == {
        k: v for k, v in settings_of(action).items() if k != "text"
    }
