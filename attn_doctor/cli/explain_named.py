"""What the arguments of `explain` are: logs, the id of a recipe, or the words of an error themselves."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Recipe

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+\Z")
#: What somebody may have meant for one.
_ALMOST = re.compile(r"[\w-]{4,80}\Z")
#: What begins as an exception does, when nobody quoted it: the shell made several words of it.
_BEGINS = re.compile(r"(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Warning|Mismatch):?\Z")
#: The name of a file, with blanks or not.
_FILE = re.compile(r"[^\n:`'\"]*\.(?:log|txt|out|err|gz|zst|xz|bz2|jsonl?)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a person named."""

    logs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    recipe: Recipe | None = None


def read_names(named: Sequence[str], folders: Sequence[Path]) -> Named:
    """Tells logs, the words of an error and the id of a recipe apart; without any, a terminal is asked for words, and
    what is piped in is a log.

    What is there as a file is a log. Raises BadInput for a recipe beside other names, and where nothing was pasted.
    """
    if not named and sys.stdin is not None and sys.stdin.isatty():
        return Named(texts=(_pasted(),))
    if not named and _is_piped():
        return Named(logs=("-",))
    if len(named) > 1 and _BEGINS.match(named[0]) and not any(map(_is_there, named)):
        named = (" ".join(named),)
    logs = tuple(one for one in named if one == "-" or _is_there(one) or not _is_text(one))
    recipe = next((found for one in logs if not _is_there(one) and (found := _recipe(one, folders))), None)
    if recipe is not None and len(named) > 1:
        raise BadInput(
            "a recipe is explained alone",
            about=" ".join(named),
            hint="Name one recipe, or logs and the words of errors.",
        )
    if recipe is not None:
        return Named(recipe=recipe)
    for one in logs:
        if one != "-" and not _is_there(one) and _ALMOST.match(one):
            _suggest(one, folders)
    return Named(logs=logs, texts=tuple(one for one in named if one not in logs))


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a path may be, or with a character that none has
        return False


def _is_text(name: str) -> bool:
    """Words: with a blank among them, and no file's name."""
    return re.search(r"\s", name.strip()) is not None and not _FILE.match(name)


def _recipe(name: str, folders: Sequence[Path]) -> Recipe | None:
    if not _ID.match(name):
        return None
    every = shelf.shelf(tuple(folders))
    by_id = {recipe.id: recipe for recipe in every}
    return by_id.get(name) or next((recipe for recipe in every if name in recipe.aliases), None)


def _suggest(name: str, folders: Sequence[Path]) -> None:
    """Raises BadInput for what is no file and resembles the id of a recipe or a family."""
    hint = shelf.meant(name, shelf.shelf(tuple(folders)))
    if hint:
        raise BadInput(
            "there is no such log, and no recipe of that id",
            about=name,
            hint=f"{hint}`attn-doctor recipes list` has all ids; words of an error go in quotes.",
        )


def _is_piped() -> bool:
    """Standard input is the output of another program, or a file, and not empty: waits for it to begin or end."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
        return (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)) and bool(sys.stdin.buffer.peek(1))  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):  # closed, or none at all
        return False


def _pasted() -> str:
    """Raises BadInput."""
    sys.stderr.write("Paste the log or the words of the error, then press Enter and Ctrl-D:\n")
    sys.stderr.flush()
    text = sys.stdin.read()
    if not text.strip():
        raise BadInput(
            "nothing was pasted",
            about="attn-doctor explain",
            hint="Name log files or folders of them, the words of an error in quotes, or a recipe's id.",
        )
    return text
