"""Pages that only the site has: one a recipe, titled with an error text that it knows, and indexes of them.

A hook of mkdocs (mkdocs.yml). They are made from the shelf at each build, so they cannot be behind it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attn_doctor.model import recipe_pages as addresses
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import AnyOf, AtLeast, Below, Condition, OneOf, Question, Recipe
from docs import recipe_pages

#: Characters of a title.
_LONGEST = 110
_CAPABILITY = "gpu.compute_capability"


def on_config(config: Any) -> Any:
    """Tells mkdocs where the site is published, which the doctor's own addresses are made of too."""
    config.site_url = addresses.SITE or config.site_url
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages to what mkdocs found in docs/."""
    from mkdocs.structure.files import File

    for name, text in site_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def site_pages() -> dict[str, str]:
    """Text by the path below docs/."""
    recipes = (*shelf.bundled(), *(one for one in shelf.families() if one.family is not None and one.family.ours))
    every = (*shelf.bundled(), *shelf.families())  # what an error text may lead to, of the attention stack or not
    return {
        "index.md": _front(),
        "by-error.md": _by_error(recipes),
        "by-package.md": _by_package(recipes),
        "by-gpu.md": _by_gpu(shelf.bundled()),
        **{f"{addresses.FOLDER}/{one.id}.md": _page(one) for one in every},
    }


def errors(recipe: Recipe) -> tuple[str, ...]:
    """The error lines that its cases are known by, each once."""
    found = [_last(case.log) for case in recipe.cases if case.log is not None and case.expect == "finds"]
    return tuple(dict.fromkeys(line for line in found if line))


def _last(log: str) -> str:
    """The line of a log that names the error: the last that begins as an exception does, else the last."""
    lines = [line.strip() for line in log.strip().splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception|Warning|Unsupported)\b", line)]
    return (named or lines or [""])[-1]


def _front() -> str:
    text = (Path(__file__).parent.parent / "README.md").read_text().partition("\n## Test")[0]
    text = re.sub(r"^English · .*\n\n", "", text, flags=re.MULTILINE)  # the other language is no page of the site
    return re.sub(r"(?<=[\"(])docs/", "", text) + "\n"


def _page(recipe: Recipe) -> str:
    texts = errors(recipe)
    section = recipe_pages.section(recipe) if recipe.family is None else recipe_pages.family(recipe)
    parts = [f"# {_title(texts[0]) if texts else _escaped(recipe.title)}"]
    if texts:
        parts.append("```text\n" + "\n".join(texts) + "\n```")
    parts.append(section.partition("\n\n")[2].replace("](../", "](../"))
    parts.append(
        f"On a machine: `attn-doctor explain {recipe.id}`, or `attn-doctor check`, which says whether it is there."
    )
    return "\n\n".join(parts) + "\n"


def _title(text: str) -> str:
    return _escaped(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def _escaped(text: str) -> str:
    """Shown by Markdown as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def _by_error(recipes: Iterable[Recipe]) -> str:
    rows = sorted((text, one.id) for one in recipes for text in errors(one))
    listed = "\n".join(f"- [{_title(text)}]({addresses.FOLDER}/{name}.md)" for text, name in rows)
    return f"# By error text\n\nThe words of an error, and the page that explains them.\n\n{listed}\n"


def _by_package(recipes: Iterable[Recipe]) -> str:
    libraries: dict[str, list[Recipe]] = {}
    for one in recipes:
        for owner in (one.family.owners or ("any package",)) if one.family is not None else (one.library,):
            libraries.setdefault(owner, []).append(one)
    parts = ["# By package"]
    for library, known in sorted(libraries.items()):
        parts += [f"## {library}", _links(known)]
    return "\n\n".join(parts) + "\n"


def _by_gpu(recipes: Iterable[Recipe]) -> str:
    table = shelf.table("gpus.toml")
    about = [one for one in recipes if any(_of_a_gpu(condition) for condition in one.when)]
    parts = ["# By GPU", "What depends on the GPU. Everything else is in the other indexes."]
    for item in table["architecture"]:
        capability = item["compute_capability"]
        here = [one for one in about if all(_may_hold(condition, capability) for condition in one.when)]
        names = [gpu["name"] for gpu in table["gpu"] if gpu["compute_capability"] == capability]
        if here:
            parts += [f"## Compute capability {capability}", ", ".join(names), _links(here)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _links(recipes: Iterable[Recipe]) -> str:
    return "\n".join(f"- [{_escaped(one.title)}]({addresses.FOLDER}/{one.id}.md)" for one in recipes)


def _questions(condition: Condition) -> Iterator[Question]:
    yield from condition.questions if isinstance(condition, AnyOf) else (condition,)


def _of_a_gpu(condition: Condition) -> bool:
    return any(str(one.fact) == _CAPABILITY for one in _questions(condition))


def _may_hold(condition: Condition, capability: str) -> bool:
    """False where it asks for other GPUs alone."""
    return not _of_a_gpu(condition) or any(
        str(one.fact) != _CAPABILITY or _holds(one, capability) for one in _questions(condition)
    )


def _holds(question: Question, capability: str) -> bool:
    def parts(text: object) -> tuple[int, ...]:
        return tuple(int(part) for part in str(text).split("."))

    match question:
        case OneOf(values=values):
            return capability in map(str, values)
        case Below(bound=bound):
            return parts(capability) < parts(bound)
        case AtLeast(bound=bound):
            return parts(capability) >= parts(bound)
    return True
