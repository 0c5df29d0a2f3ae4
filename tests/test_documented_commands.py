"""Commands in README and docs name options that their help names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
#: In a code span, and in a block a line of its own.
_TYPED = re.compile(r"`(attn-doctor [^`]+)`|^\s*\$? ?(attn-doctor .+)$", re.MULTILINE)


def options() -> dict[str, set[str]]:
    """Command -> its options, by docs/commands.md, which tests/test_house.py holds against --help."""
    found = {}
    for section in (ROOT / "docs" / "commands.md").read_text().split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        found[name.removeprefix("attn-doctor").strip()] = {*_OPTION.findall(text), "--help"}
    return found


def unknown(typed: str, known: dict[str, set[str]]) -> set[str]:
    """Options in a command that it does not have; what follows `--` is another command's or that of `check`."""
    words = typed.split()[1:]
    own = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0] if words and words[0] in known else ""
    mine, _, others = typed.partition(" -- ")
    given = {one for one in _OPTION.findall(mine) if one not in known[own]}
    if own == "fleet run":
        given |= {one for one in _OPTION.findall(others) if one not in known["check"]}
    return given


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_are_there(page: Path) -> None:
    """No page names an option that was renamed or never was."""
    known = options()
    typed = [one[0] or one[1] for one in _TYPED.findall(page.read_text())]

    assert {one: wrong for one in typed if (wrong := unknown(one, known))} == {}


def test_both_readmes_have_the_same_commands() -> None:
    """And the same pages and pictures, whatever their language."""

    def of(name: str) -> tuple[list[str], set[str]]:
        text = (ROOT / name).read_text()
        typed = [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("$ ")]
        return typed, {*re.findall(r"docs/[\w./-]+", text)} - {"docs/glossary.md", "docs/glossary.zh.md"}

    assert of("README.zh.md") == of("README.md")
