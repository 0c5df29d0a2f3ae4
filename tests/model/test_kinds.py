"""One record for each kind of fact, and nothing else that spells a list of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import attn_doctor
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.kinds import KINDS, PLURAL, Kind
from attn_doctor.model.vocabulary import TERMS, ValueType, term_of
from attn_doctor.recipes.schema.recipe_file import _Question
from attn_doctor.report.words import phrases

_ROOT = Path(attn_doctor.__file__).parent
_LISTED = [kind for kind in KINDS if kind.heading]


def _attributes(kind: Kind) -> set[str]:
    return {term.name.rpartition(".")[2] for term in TERMS if term.name.partition(".")[0] == kind.name}


def test_each_has_terms_that_fit_its_record() -> None:
    """What a record names are attributes that there are; a plural kind has a subject in each of its terms."""
    for kind in KINDS:
        names = [term.name for term in TERMS if term.name.partition(".")[0] == kind.name]

        assert names, kind.name
        assert all((".*" in name) is (kind.plural or kind.name == "env") for name in names), kind.name
        assert {kind.leading, kind.words, *kind.belongs_to} - {""} <= _attributes(kind), kind.name


def test_what_comes_several_to_a_node_is_listed() -> None:
    """Its list is in the vocabulary once, by the probe that some term says, and has words in a report."""
    for kind in KINDS:
        rows = [term for term in TERMS if term.name == f"listed.{kind.name}"]

        assert bool(kind.heading) is bool(rows) is bool(kind.probe) is (kind.plural or kind.name == "env"), kind.name
        for row in rows:
            assert row.kind is ValueType.INTEGER, kind.name
            assert row.probe == kind.probe
            fact = Fact(name=FactName.parse(row.name), state=Known(3), how="")
            assert phrases.evidence(fact) == f"{kind.heading}: 3"
        assert len(rows) <= 1, kind.name


def test_recipes_can_judge_them_one_at_a_time() -> None:
    """The schema of recipes takes each plural kind in for_each."""
    for kind in sorted(PLURAL):
        attribute = sorted(_attributes(next(one for one in KINDS if one.name == kind)))[0]

        asked = _Question.model_validate({"fact": f"{kind}.{attribute}", "for_each": kind, "present": True})

        assert asked.for_each == kind


def test_recipes_cannot_judge_others_one_at_a_time() -> None:
    """A kind that comes once, and a word that is none, are refused with what there is."""
    for kind in ("driver", "gpus", ""):
        with pytest.raises(ValueError, match="extension, gpu"):
            _Question.model_validate({"fact": "gpu.name", "for_each": kind, "present": True})


def test_every_term_is_of_a_kind() -> None:
    """No fact is of a kind without a record, and no name stands twice."""
    kinds = [kind.name for kind in KINDS]

    assert {term.name.partition(".")[0] for term in TERMS} == {*kinds, "listed"}
    assert len(set(kinds)) == len(kinds)
    assert len({term.name for term in TERMS}) == len(TERMS)
    assert all(term_of(FactName.parse(term.name)) is term for term in TERMS)


def test_what_nobody_looked_at_is_open_unless_it_was_not_asked_for() -> None:
    """A kind that is looked at on request leaves no question open, neither by its list nor by its members."""
    for kind in KINDS:
        for spelled in [f"{kind.name}.0.x", *([f"listed.{kind.name}"] if kind.heading else [])]:
            state = FactSet().fact(FactName.parse(spelled)).state
            assert isinstance(state, Unknown), spelled
            assert state.asked is not bool(kind.on_request), spelled
            assert kind.on_request in state.reason, spelled


def _lists(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Every literal of several strings and nothing else, of a table three: its line and the strings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            parts: list[ast.expr | None] = list(node.elts)
        elif isinstance(node, ast.Dict):
            parts = list(node.keys)
        else:
            continue
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(texts) > 1 + isinstance(node, ast.Dict) and len(texts) == len(parts):
            yield node.lineno, set(texts)


def _spelled_lists(source: str) -> list[tuple[int, set[str]]]:
    plural = {kind.name for kind in KINDS if kind.plural}
    return [(line, texts) for line, texts in _lists(ast.parse(source)) if texts <= plural]


@pytest.mark.long
def test_nothing_else_spells_a_list_of_kinds() -> None:
    """A kind that is added is added in one place: lists of kinds are derived from the records."""
    files = [file for file in _ROOT.rglob("*.py") if "patient" not in file.relative_to(_ROOT).parts]
    own = _ROOT / "model" / "kinds.py"
    found = {
        f"{file.relative_to(_ROOT)}:{line}": sorted(texts)
        for file in files
        if file != own
        for line, texts in _spelled_lists(file.read_text())
    }

    assert len(files) > 100
    assert found == {}


def test_a_list_of_kinds_is_recognised() -> None:
    """As a tuple, a set, the keys of a dict, and inside Literal; not where other words stand among them."""
    for source in ('A = ("gpu", "xid")', 'B = frozenset({"cell", "speed"})', 'C = {"import": 1, "gpu": 2, "xid": 3}',
                   'D: Literal["gpu", "patch"]'):  # fmt: skip
        assert _spelled_lists(source), source
    assert not _spelled_lists('E = ("gpu", "driver_cuda"); F = ("gpu",); G = "gpu"')
