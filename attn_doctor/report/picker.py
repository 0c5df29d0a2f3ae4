"""Finds the formats, which are the files in `renderers/`; no other module lists them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Generic

from attn_doctor.errors import BadInput
from attn_doctor.report import language, renderers
from attn_doctor.report.renderer import Kind, Manner, Media, R, Renderer, Write

#: The default format.
DEFAULT = "text"
#: The format that --json selects.
JSON = "json"
#: The format of a workflow's log: https://docs.github.com/actions/reference/variables-reference
_GITHUB = "github"


class Picked(Generic[R]):
    """A format, and how it writes the kind of result that it was picked for."""

    __slots__ = ("renderer", "write")

    def __init__(self, renderer: Renderer, write: Write[R]) -> None:
        self.renderer = renderer
        self.write = write


def pick(
    kind: Kind[R],
    form: str | None = None,
    *,
    as_json: bool = False,
    output: str | os.PathLike[str] | None = None,
) -> Picked[R]:
    """The requested format: by its name, else by the suffix of the output file, else text; in a log of GitHub Actions
    its own instead of text.

    Raises BadInput when it does not exist or cannot write such a result.
    """
    name = JSON if as_json else form or _by_suffix(kind, output) or _default(kind, output)
    renderer = _load(name) if name in _files() else None
    page = renderer.page(kind) if renderer is not None else None
    if renderer is None or page is None:
        raise BadInput(
            f"the result of `{kind.name}` is not written in that format",
            about=f"--format {name[:80]}",
            hint=f"One of {', '.join(names(kind))}.",
        )
    return Picked(renderer, _spoken(renderer, page.write))


def _spoken(renderer: Renderer, write: Write[R]) -> Write[R]:
    """Writes in the language that is spoken, or in English where programs read it."""

    def written(result: R, stream: IO[str], manner: Manner) -> None:
        if not language.speaks_chinese():
            write(result, stream, manner)
        elif renderer.in_english:
            with language.in_english():
                write(result, stream, manner)
        else:
            from attn_doctor.report.language import translated

            write(translated.result(result), stream, manner)

    return written


def names(kind: Kind[Any]) -> tuple[str, ...]:
    """The formats that can write such a result: the default first, then those for people."""
    offered = [one for one in _all() if one.page(kind) is not None]
    order = {one.name: (one.name != DEFAULT, one.media is not Media.PERSON, one.name) for one in offered}
    return tuple(sorted(order, key=order.__getitem__))


def _default(kind: Kind[Any], output: str | os.PathLike[str] | None) -> str:
    """`github` where standard output is the log of a step: that is text with annotations."""
    in_log = output is None and os.environ.get("GITHUB_ACTIONS") == "true" and not sys.stdout.isatty()
    return _GITHUB if in_log and _load(_GITHUB).page(kind) is not None else DEFAULT


def _by_suffix(kind: Kind[Any], output: str | os.PathLike[str] | None) -> str | None:
    suffix = Path(output).suffix.lower() if output is not None else ""
    fitting = (one.name for one in _all() if suffix in one.ends(kind))
    return next(fitting, None) if suffix else None


def _all() -> Iterator[Renderer]:
    return (_load(name) for name in sorted(_files()))


def _files() -> set[str]:
    lying = (name for folder in renderers.__path__ for name in os.listdir(folder))  # noqa: PTH208
    return {name[:-3] for name in lying if name.endswith(".py") and not name.startswith("_")}


def _load(name: str) -> Renderer:
    renderer: Renderer = importlib.import_module(f"{renderers.__name__}.{name}").RENDERER
    return renderer
