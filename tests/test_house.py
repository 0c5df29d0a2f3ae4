"""The house rules that machines can hold: layers, types, style, and documents that tell the truth."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor import __version__
from attn_doctor.model.exit_status import Status
from attn_doctor.recipes import shelf
from attn_doctor.recipes.schema import actions as schema_actions
from docs.recipe_pages import pages

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


@pytest.mark.parametrize(
    "arguments",
    [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)],
    ids=["style", "format", "types"],
)
def test_tools_are_content(arguments: tuple[str, ...]) -> None:
    """ruff and mypy find nothing."""
    # Where mypy has kept nothing yet nobody will come again: what it would keep is a sixth of its time.
    unkept = arguments == ("mypy",) and not (ROOT / ".mypy_cache").exists()
    found = run(*arguments, *(["--cache-dir", os.devnull] if unkept else []))

    assert found.returncode == 0, found.stdout + found.stderr


def test_layers() -> None:
    """Data goes one way; torch stays inside, the terminal at the top, pydantic in recipes."""
    found = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))], capture_output=True, text=True, cwd=ROOT
    )

    assert found.returncode == 0, found.stdout


#: What reaches a terminal or a person.
_TERMINAL = {"print", "input", "stdin", "stdout", "stderr"}


@pytest.mark.parametrize("file", sorted((ROOT / "attn_doctor" / "workflows").rglob("*.py")), ids=lambda file: file.stem)
def test_workflows_print_and_ask_nothing(file: Path) -> None:
    """A workflow gives a result; what it has to ask or to tell meanwhile goes through its caller."""
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, (ast.Name, ast.Attribute))
    }

    # What a process of the patient's said is an attribute of the same name.
    said = {"stdout", "stderr"} if "completed.std" in file.read_text() else set()
    assert used & _TERMINAL - said == set()


@pytest.mark.parametrize("command", [(), ("check",), ("recipes",)], ids=["attn-doctor", "check", "recipes"])
def test_help_in_the_documents_is_the_real_one(command: tuple[str, ...]) -> None:
    """docs/commands.md shows what --help prints."""
    shown = run("attn_doctor", *command, "--help", COLUMNS="100", TERMINAL_WIDTH="100").stdout.replace(
        "python -m attn_doctor", "attn-doctor"
    )

    # Words only: releases of the command line library break lines in different places.
    assert shown.split()
    assert " ".join(shown.split()) in " ".join((ROOT / "docs" / "commands.md").read_text().split())


def test_every_recipe_is_documented() -> None:
    """docs/recipes.md lists the shelf."""
    listed = (ROOT / "docs" / "recipes.md").read_text()

    assert [recipe.id for recipe in shelf.bundled() if f"`{recipe.id}`" not in listed] == []


def test_kinds_of_actions_are_documented() -> None:
    """docs/recipes.md says what a recipe may say of an action in the words of the schema."""
    assert schema_actions.documented() in (ROOT / "docs" / "recipes.md").read_text()


def test_recipe_pages_are_current() -> None:
    """docs/recipes/ is what docs/generate.py writes from the shelf, page by page."""
    folder = ROOT / "docs" / "recipes"

    assert {file.name: file.read_text() for file in folder.glob("*.md")} == pages()


def test_links_to_recipes_lead_somewhere() -> None:
    """Each row of docs/recipes.md links to a page that has the section."""
    links = re.findall(r"\]\(recipes/([\w-]+\.md)#([\w-]+)\)", (ROOT / "docs" / "recipes.md").read_text())
    made = pages()

    assert len(links) == len(shelf.bundled())
    assert [(page, id_) for page, id_ in links if f"\n## {id_}\n" not in made[page]] == []


def test_every_exit_status_is_documented() -> None:
    """docs/exit-status.md has each one."""
    listed = (ROOT / "docs" / "exit-status.md").read_text()

    assert [status for status in Status if f"| {int(status)} |" not in listed] == []


def test_the_version_is_in_the_changelog() -> None:
    """Each release says what it changed."""
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_runs_the_readmes_test_command() -> None:
    """What a newcomer is told to run is what runs."""
    command = re.search(r"^\$ (python3 scripts/test\.py)", README, re.MULTILINE)

    assert command is not None
    assert command[1] in (ROOT / ".ci" / "run").read_text()


def test_every_bound_has_a_reason() -> None:
    """A dependency's version range says why."""
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") : text.index("[project.optional")]

    assert [line for line in block.splitlines() if ">=" in line and "#" not in line and "tomli" not in line] == []


def test_nothing_of_the_project_is_ignored() -> None:
    """A name in .gitignore hides no file that belongs to the project: a clone has what a checkout has."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    folders = ("attn_doctor", "recipes", "tests", "bench", "docs")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )

    assert [file for file in listed.stdout.splitlines() if not re.search(r"__pycache__/|\.\w+_cache/", file)] == []


def test_the_map_of_the_house_is_whole() -> None:
    """docs/architecture.md has a row for every folder of code, and every place that it names is there."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    tables = "\n".join(line for line in text.splitlines() if line.startswith("| "))
    named = set(re.findall(r"`([\w./-]+)`", tables))
    house = ROOT / "attn_doctor"
    folders = {file.parent for file in house.rglob("*.py") if "_bundled_recipes" not in file.parts} - {house}
    lacking = [
        str(folder.relative_to(house))
        for folder in sorted(folders)
        if not any(one.rstrip("/").endswith((f"/{folder.name}", folder.name)) for one in named)
    ]
    assert lacking == []

    places = {one for one in named if one.endswith((".py", ".toml", "/")) and "<" not in one}
    roots = (ROOT, ROOT / "recipes", house, *(one for one in house.rglob("*") if one.is_dir()))
    assert sorted(one for one in places if not any((root / one).exists() for root in roots)) == []


#: In parts, for no file may hold them whole, this one among them.
REGISTRIES = tuple(
    ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"))
)


def test_packages_are_named_without_the_host_of_a_registry() -> None:
    """A source is the project's own page: which registry serves a package is the reader's setting."""
    files = [
        file
        for folder in ("attn_doctor", "bench", "docs", "recipes", "scripts", "tests")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".py", ".toml", ".md", ".json", ".yml"}
    ]
    assert files
    assert [str(file) for file in files if any(host in file.read_text() for host in REGISTRIES)] == []
