"""The site: a page a recipe under an error text that it knows, indexes that lead to each, a strict build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor.recipes import shelf
from docs.site_pages import errors, site_pages
from tests.conftest import CHECKOUT as ROOT
from tests.documented import PAGES

#: Pages whose links are followed.
LINKING = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
_LINK = re.compile(r"\]\((errors/[\w-]+\.md)\)")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages that only the site has."""
    return site_pages()


def test_every_error_text_leads_to_its_page(made: dict[str, str]) -> None:
    """Every recipe has a page, titled with an error that it knows; no index leads nowhere."""
    for recipe in shelf.bundled():
        page = made[f"errors/{recipe.id}.md"]
        assert all(line in page for line in errors(recipe))
        assert f"attn-doctor explain {recipe.id}" in page
    for index in ("by-error.md", "by-package.md", "by-gpu.md"):
        linked = set(_LINK.findall(made[index]))
        assert linked
        assert linked <= set(made)
    assert {f"errors/{one.id}.md" for one in shelf.bundled()} <= set(_LINK.findall(made["by-package.md"]))


def test_a_gpu_has_what_is_about_it(made: dict[str, str]) -> None:
    """What asks for GPUs before Ampere stands at 7.5 and not at 9.0."""
    sections = dict(re.findall(r"## Compute capability (\S+)\n(.*?)(?=\n## |\Z)", made["by-gpu.md"], re.DOTALL))

    assert "errors/gpu-before-ampere.md" in sections["7.5"]
    assert "errors/gpu-before-ampere.md" not in sections["9.0"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_recipes_in_commands_exist(page: Path) -> None:
    """`attn-doctor explain ID` in docs names a recipe."""
    known = {name for one in shelf.shelf() for name in (one.id, *one.aliases)}
    named = re.findall(r"attn-doctor explain ([a-z0-9]+(?:-[a-z0-9]+)+)(?![\w.])", page.read_text())

    assert set(named) <= known


_WITHIN = re.compile(r"\]\(((?!https?:|mailto:)[^)\s]+)\)|(?:src|srcset|href)=\"((?!https?:)[^\"]+)\"")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```|(?<!`)``(?!`)[^\n]*?(?<!`)``(?!`)|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The fragments of a page's headings, as GitHub and mkdocs make them."""
    headings = _HEADING.findall(re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", one).lower() for one in headings)
    return {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in plain}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_within_is_dead(page: Path) -> None:
    """Each leads to a file that is there, and to a heading of it."""
    for link in filter(None, (one for pair in _WITHIN.findall(_CODE.sub("", page.read_text())) for one in pair)):
        file, _, fragment = link.partition("#")
        there = (page.parent / file) if file else page
        assert there.exists(), link
        if fragment:
            assert fragment in anchors(there.read_text()), link


@pytest.mark.heavy
@pytest.mark.registry
def test_it_builds_strictly(tmp_path: Path) -> None:
    """No link is dead, no page is lost. mkdocs-material comes from the registry."""
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    install = [home / "bin" / "python", "-m", "pip", "install", "--quiet", f"{ROOT}[site]"]
    subprocess.run(install, check=True, timeout=600)
    checkout = tmp_path / "checkout"
    for name in ("docs", "README.md", "mkdocs.yml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        checkout.mkdir(exist_ok=True)
        copy(ROOT / name, checkout / name)
    build = [home / "bin" / "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    done = subprocess.run(build, cwd=checkout, capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "site/errors/fp32-promoted-before-kernel/index.html").is_file()
