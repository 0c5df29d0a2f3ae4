"""The address of a recipe's page: the same in every format, and of a page that the site makes."""

from __future__ import annotations

import io
import json
import re

import pytest

from attn_doctor.machine.own_command import own_name
from attn_doctor.model import recipe_pages
from attn_doctor.model.report import Report
from attn_doctor.recipes import shelf
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.report import picker, recipes_json
from attn_doctor.report.renderer import EXPLAIN, Manner
from attn_doctor.report.terminal import recipe as recipe_page
from attn_doctor.workflows.explain import ExplainRequest, explain
from docs.site_pages import on_config, site_pages
from tests.conftest import CHECKOUT

SITE = "https://docs.example/doctor/"
TEXT = "RuntimeError: FlashAttention only support fp16 and bf16 data type"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the day when a person publishes the site."""
    monkeypatch.setattr(recipe_pages, "SITE", SITE)


@pytest.fixture(scope="module")
def told() -> Report:
    """An error with two causes of the shelf."""
    return explain(ExplainRequest(texts=(TEXT,)))


def written(report: Report, name: str, *, verbose: bool = False) -> str:
    """The report in a format."""
    stream = io.StringIO()
    picker.pick(EXPLAIN, name, as_json=False, output=None).write(report, stream, Manner(verbose=verbose))
    return stream.getvalue()


@pytest.mark.usefixtures("published")
def test_the_site_makes_the_page_of_every_address() -> None:
    """`…/errors/ID/` is what mkdocs makes of `errors/ID.md`; an index leads nowhere else."""
    made = {name.removesuffix(".md") + "/" for name in site_pages() if name.startswith(recipe_pages.FOLDER)}
    addresses = {str(recipe_pages.address(one)) for one in (*shelf.bundled(), *shelf.families())}

    assert {address.removeprefix(SITE) for address in addresses} == made


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("form", ["text", "plain", "markdown", "html", "json", "sarif"])
def test_every_format_tells_it(told: Report, form: str) -> None:
    """Of the first cause, in short too; whole, so that it can be clicked."""
    first = told.diagnosis.findings[0]
    text = written(told, form)

    assert re.search(rf"(?:^|[\s\">]){re.escape(f'{SITE}errors/{first.id}/')}(?:$|[\s\"<])", text, re.MULTILINE)
    assert f"explain {first.id}" not in text or form in ("plain", "html")  # the next step
    if form == "sarif":
        rules = json.loads(text)["runs"][0]["tool"]["driver"]["rules"]
        assert [one["helpUri"] for one in rules] == [f"{SITE}errors/{one.id}/" for one in told.diagnosis.findings]


@pytest.mark.parametrize("form", ["text", "plain", "markdown", "html"])
def test_until_then_the_command_is_told(told: Report, form: str) -> None:
    """No address is made up; what is typed instead is whole."""
    command = "attn-doctor" if form in ("markdown", "html") else own_name()
    assert f"{command} explain {told.diagnosis.findings[0].id}" in written(told, form)
    assert recipe_pages.SITE or "/errors/" not in written(told, form)


def test_the_page_of_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain ID`: the file of the checkout with its heading; once published, the address."""
    for recipe in (shelf.bundled()[0], shelf.families()[0]):
        stream = io.StringIO()
        recipe_page.write(recipe, stream)
        (told,) = re.findall(r"^  page +(.*)$", stream.getvalue(), re.MULTILINE)
        file, _, heading = told.partition("#")
        with (CHECKOUT / file).open() as page:
            assert f"## {heading}\n" in page.read()
        monkeypatch.setattr(recipe_pages, "SITE", SITE)
        stream = io.StringIO()
        recipe_page.write(recipe, stream)
        assert stream.getvalue().splitlines()[-1].split() == ["page", f"{SITE}errors/{recipe.id}/"]
        monkeypatch.undo()
    assert json.loads(recipes_json.dumps(shelf.bundled()[:1]))["recipes"][0]["page"] is None


def test_it_has_one_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """mkdocs is told by the same constant, and nothing else names it."""

    class Config:
        site_url = "http://127.0.0.1:8000/"

    monkeypatch.setattr(recipe_pages, "SITE", SITE)
    assert on_config(Config()).site_url == SITE
    assert "site_url" not in (CHECKOUT / "mkdocs.yml").read_text()


def test_every_recipe_is_explained_by_its_id() -> None:
    """Those too that are asked of each GPU, package or attention call: here there is none."""

    def shown(recipe: Recipe) -> str:
        stream = io.StringIO()
        recipe_page.write(recipe, stream)
        return stream.getvalue()

    pages = {one.id: shown(one) for one in (*shelf.bundled(), *shelf.families())}
    assert [id_ for id_, page in pages.items() if not page.startswith(id_)] == []
    assert [id_ for id_, page in pages.items() if TEMPLATE.search(page.partition("\n  why ")[0])] == []
