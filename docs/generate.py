"""Writes the parts of docs/ that the code knows: `python docs/generate.py`. The tests hold them against it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attn_doctor.cli.commands import COMMANDS  # noqa: E402
from attn_doctor.recipes import shelf  # noqa: E402
from attn_doctor.recipes.schema import actions as schema_actions  # noqa: E402
from docs.recipe_pages import pages  # noqa: E402


def commands() -> str:
    """docs/commands.md: what every --help prints."""
    statuses = "The exit statuses are in [exit-status.md](exit-status.md)."
    parts = [f"# Commands\n\nWhat each command prints with `--help`. {statuses}\n"]
    waiting = ["", *COMMANDS]
    while waiting:
        command = waiting.pop(0)
        said = subprocess.run(
            [sys.executable, "-m", "attn_doctor", *command.split(), "--help"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "TERMINAL_WIDTH": "100"},
        ).stdout.replace("python -m attn_doctor", "attn-doctor")
        parts.append(f"## {f'attn-doctor {command}'.strip()}\n\n```text\n{said.rstrip()}\n```\n")
        if command:
            listed = said.partition("\nCommands:\n")[2].partition("\n\n")[0]
            waiting[:0] = [f"{command} {name}" for name in re.findall(r"^  (\w\S*)", listed, re.MULTILINE)]
    return "\n".join(parts)


def table() -> str:
    """The shelf as a table."""
    rows = ["| id | library | severity | trouble |", "| --- | --- | --- | --- |"]
    for recipe in shelf.bundled():
        severity = recipe.severity.value
        if recipe.severity_when_reached:
            severity += f", {recipe.severity_when_reached.value} when reached"
        title = recipe.title.replace("|", "\\|") + (" (preview)" if recipe.status == "preview" else "")
        link = f"[`{recipe.id}`](recipes/{recipe.library}.md#{recipe.id})"
        rows.append(f"| {link} | {recipe.library} | {severity} | {title} |")
    return "\n".join(rows)


def main() -> None:
    """Writes all of them, and removes pages of libraries that are gone."""
    (ROOT / "docs" / "commands.md").write_text(commands())
    recipes = ROOT / "docs" / "recipes.md"
    text = recipes.read_text()
    for head, rows in ((r"\| id \| library \|", table()), (r"\| kind \| keys \|", schema_actions.documented())):
        text = re.sub(head + r".*?\n(?!\|)", lambda _, rows=rows: rows + "\n", text, count=1, flags=re.DOTALL)
    recipes.write_text(text)
    folder = ROOT / "docs" / "recipes"
    folder.mkdir(exist_ok=True)
    written = pages()
    for file in folder.glob("*.md"):
        if file.name not in written:
            file.unlink()
    for name, text in written.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
