"""Formats are found by lying in a folder and chosen in one place; nothing else knows which there are."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import attn_doctor
from attn_doctor.cli import front, with_typer
from attn_doctor.cli.check import check
from attn_doctor.cli.delivery import Delivery
from attn_doctor.errors import BadInput
from attn_doctor.report import picker, renderers
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
    Kind,
    Media,
)

HOUSE = Path(attn_doctor.__file__).parent
KINDS: tuple[Kind[object], ...] = (CHECK, TRACE, EXPLAIN, FLEET, COMPARISON, STATUS, SDPA, PLAN, RECIPES)  # type: ignore[assignment]


def test_each_file_says_what_it_is() -> None:
    """Its name is the file's, it renders something, and no end of a name means two formats of one result."""
    every = [picker._load(name) for name in sorted(picker._files())]

    assert [one.name for one in every] == sorted(picker._files())
    assert all(one.pages and isinstance(one.media, Media) for one in every)
    for kind in KINDS:
        ends = [end for one in every if one.page(kind) for end in one.ends(kind)]
        assert sorted(ends) == sorted(set(ends))
        assert all(end.startswith(".") and end == end.lower() for end in ends)


@pytest.mark.parametrize(
    "kind", [CHECK, TRACE, EXPLAIN, FLEET, COMPARISON, STATUS, SDPA, PLAN], ids=lambda one: one.name
)
def test_text_comes_first_and_json_is_there(kind: Kind[object]) -> None:
    """Text where nothing is asked for; what --json is short for is offered everywhere."""
    assert picker.names(kind)[0] == picker.DEFAULT == picker.pick(kind).renderer.name
    assert picker.JSON in picker.names(kind)
    assert picker.pick(kind, "text", as_json=True).renderer.name == picker.JSON


@pytest.mark.parametrize(
    ("form", "output", "expected"),
    [
        (None, None, "text"),
        (None, "r.md", "markdown"),
        (None, "a.b/R.JSON", "json"),
        (None, "r.jsonl", "ndjson"),
        (None, "node.prom", "prometheus"),
        (None, "/dev/termination-log", "text"),
        (None, "r.html", "html"),
        (None, ".json", "text"),  # a name, and no end of one
        ("summary", "r.md", "summary"),
        ("text", "r.json", "text"),
    ],
)
def test_the_name_of_the_output_decides_where_nothing_else_does(
    form: str | None, output: str | None, expected: str
) -> None:
    """--format before the end of --output's name before text."""
    assert picker.pick(CHECK, form, output=output).renderer.name == expected


def test_a_folder_of_reports_is_no_format(tmp_path: Path) -> None:
    """A folder may be called anything."""
    (tmp_path / "reports.md").mkdir()

    assert Delivery(form=None, output=str(tmp_path / "reports.md")).picked.renderer.name == "text"
    assert Delivery(form=None, output=str(tmp_path / "new.md")).picked.renderer.name == "markdown"


@pytest.mark.parametrize("form", ["bogus", "docker-compose", "__init__", "../text", "", "text "])
def test_what_is_not_there_is_refused_with_what_is(form: str) -> None:
    """The error lists what this result can be written as. An empty name asks for nothing."""
    if not form:
        assert picker.pick(CHECK, form).renderer.name == "text"
        return
    with pytest.raises(BadInput) as refused:
        picker.pick(CHECK, form)

    assert all(name in refused.value.hint for name in picker.names(CHECK))
    assert form in refused.value.about


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A format that nobody has heard of, as one file."""
    (tmp_path / "bare.py").write_text(
        textwrap.dedent(
            """
            from attn_doctor.report.renderer import CHECK, Media, Page, Renderer

            def _write(report, stream, manner):
                stream.writelines(f"{one.id}\\n" for one in report.diagnosis.findings)

            RENDERER = Renderer("bare", suffixes=(".bare",), media=Media.PERSON, pages=(Page(CHECK, _write),))
            """
        )
    )
    monkeypatch.setattr(renderers, "__path__", [*renderers.__path__, str(tmp_path)])
    yield "bare"
    sys.modules.pop("attn_doctor.report.renderers.bare", None)


def test_a_new_format_is_one_file(bare: str) -> None:
    """The picker, the command line without typer and with it, its help and its errors take it from the folder."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("check")(with_typer.declared(check))

    assert bare in picker.names(CHECK)
    assert bare not in picker.names(FLEET)
    assert picker.pick(CHECK, output="r.bare").renderer.name == bare
    assert front.parsed(check, ["--format", bare])[0]["format_"] == bare
    assert f"|{bare}|" in "".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert f"'{bare}'" in CliRunner().invoke(app, ["--format", "bogus"]).output


def _listed(tree: ast.Module, names: set[str]) -> Iterator[int]:
    """Lines where two names of formats stand together."""
    for node in ast.walk(tree):
        near: list[ast.AST] = []
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            near = [*node.elts]
        elif isinstance(node, ast.Dict):
            near = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.ClassDef):
            near = [one.value for one in node.body if isinstance(one, ast.Assign)]
        elif isinstance(node, ast.BoolOp):
            near = [side for one in node.values if isinstance(one, ast.Compare) for side in one.comparators]
        words = {one.value for one in near if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        if len(words & names) > 1:
            yield int(getattr(node, "lineno", 0))


@pytest.mark.long
def test_nothing_but_the_picker_knows_the_list() -> None:
    """No Enum, no tuple, no chain of comparisons elsewhere holds two of the names."""
    names = picker._files() - {"uv", "docker", "conda"}  # elsewhere those are the programs
    planted = "class F:\n    A = 'text'\n    B = 'json'\nif x == 'html' or x == 'json': pass\ny = ['ndjson', 'chunks']"
    assert list(_listed(ast.parse(planted), names)) == [1, 4, 5]

    found = [
        f"{file.relative_to(HOUSE)}:{line}"
        for file in sorted(HOUSE.rglob("*.py"))
        if not file.is_relative_to(HOUSE / "patient") and not file.is_relative_to(HOUSE / "report" / "renderers")
        for line in _listed(ast.parse(file.read_text()), names)
    ]

    assert found == []


@pytest.mark.process
def test_a_list_of_formats_costs_little() -> None:
    """All files are read for it, and rich, tables of kernels and typer are not."""
    code = (
        "from attn_doctor.report import picker, renderer; picker.names(renderer.CHECK); import sys; print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "attn_doctor.report.renderers.markdown" in loaded
    assert not {"rich", "typer", "pydantic", "attn_doctor.report.words.kernels"} & {*loaded}
