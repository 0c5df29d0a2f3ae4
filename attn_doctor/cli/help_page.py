"""`attn-doctor help TOPIC`: a page of the documentation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from attn_doctor.cli.declare import Argument
from attn_doctor.cli.guard import guarded
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import Status

#: Pages for those who change attn-doctor itself.
_FOR_DEVELOPERS = frozenset({"architecture", "testing"})


@guarded
def help_page(
    topic: Annotated[str | None, Argument(metavar="[TOPIC]", help="The page; without it, what there is.")] = None,
) -> int:
    """Print a page of the documentation: trace, fix, plan, fleet, kernels, recipes, exit-status and others."""
    pages = topics()
    if topic is None:
        wide = max(map(len, pages))
        sys.stdout.writelines(f"{name:{wide}}  {_title(file)}\n" for name, file in pages.items())
        return Status.HEALTHY
    if topic not in pages:
        from difflib import get_close_matches

        close = get_close_matches(topic, pages, n=1)
        meant = f"Did you mean {close[0]}? " if close else ""
        raise BadInput("there is no such page", about=topic, hint=f"{meant}One of {', '.join(pages)}.")
    text = pages[topic].read_text(encoding="utf-8")
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return Status.HEALTHY
    from rich.markdown import Markdown

    from attn_doctor.report.terminal.console import ReportConsole

    ReportConsole(sys.stdout).print(Markdown(text))
    return Status.HEALTHY


def topics() -> dict[str, Path]:
    """Each page by its name."""
    files = sorted(_folder().glob("*.md"))
    return {file.stem: file for file in files if file.stem not in _FOR_DEVELOPERS}


def _folder() -> Path:
    """The pages in the installed wheel, or those of the checkout."""
    package = Path(__file__).resolve().parent.parent
    inside_wheel = package / "_bundled_docs"
    return inside_wheel if inside_wheel.is_dir() else package.parent / "docs"


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()
