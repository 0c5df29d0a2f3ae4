"""The pages below docs/recipes/: one a library, a section a recipe. Written by generate.py, held current by a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attn_doctor.fix.treatments import treatment_of
from attn_doctor.model.remedies import Advise
from attn_doctor.recipes.recipe import (
    Affected,
    AnyOf,
    AtLeast,
    Below,
    Condition,
    LogPattern,
    Matches,
    OneOf,
    Present,
    Question,
    Recipe,
    RecipeRemedy,
)
from attn_doctor.recipes.shelf import bundled, families

_SAFETY = {
    "safe": "safe: `attn-doctor fix` does it",
    "unsafe": "unsafe: `attn-doctor fix --unsafe-fixes` does it where it can",
    "display-only": "for a person to do",
}


def pages() -> dict[str, str]:
    """Text by file name."""
    libraries: dict[str, list[Recipe]] = {}
    for recipe in bundled():
        libraries.setdefault(recipe.library, []).append(recipe)
    return {
        **{f"{library}.md": _page(library, recipes) for library, recipes in sorted(libraries.items())},
        "families.md": _families(families()),
    }


def _families(known: Iterable[Recipe]) -> str:
    known = tuple(known)
    told = "Written by `python docs/generate.py` from the shelf: what `explain` says where no recipe knows a message."
    head = [
        "# Families of messages",
        f"{told} What the parts mean is in [recipes.md](../recipes.md#families).",
        _list(f"[{one.id}](#{one.id}): {one.title}" for one in known),
    ]
    return "\n\n".join([*head, *map(family, known)]) + "\n"


def family(one: Recipe) -> str:
    assert one.family is not None
    of = [f"about: {one.family.about}"]
    of += [f"of {', '.join(f'`{name}`' for name in one.family.owners)}"] if one.family.owners else []
    of += [", ".join(f"`{name}`" for name in one.family.exceptions)] if one.family.exceptions else []
    parts = [f"## {one.id}", f"**{one.title}**", " · ".join([*of, f"checked {one.checked}"]), one.what]
    if one.remedies:
        checks = (f"{number}. {_checked(remedy)}" for number, remedy in enumerate(one.remedies, start=1))
        parts.append("**What splits its causes**\n\n" + "\n".join(checks))
    parts.append("**How a log tells it.** One of:\n\n" + _list(map(_log, one.logs)))
    parts += _ruled_out(one)
    if one.references:
        parts.append("**Sources**\n\n" + _list(f"<{url}>" for _, url in one.references))
    return "\n\n".join(parts)


def _checked(remedy: RecipeRemedy) -> str:
    commands = [command for action in remedy.actions if isinstance(action, Advise) for command in action.commands]
    return remedy.title + "".join(f"\n\n       {command}" for command in commands)


def _page(library: str, recipes: list[Recipe]) -> str:
    head = [
        f"# Recipes: {library}",
        "Written by `python docs/generate.py` from the shelf. What the parts mean is in [recipes.md](../recipes.md).",
        "\n".join(f"- [{recipe.id}](#{recipe.id}): {recipe.title}" for recipe in recipes),
    ]
    return "\n\n".join([*head, *(section(recipe) for recipe in recipes)]) + "\n"


def section(recipe: Recipe) -> str:
    severity = recipe.severity.value
    if recipe.severity_when_reached:
        severity += f", {recipe.severity_when_reached.value} when reached"
    line = f"{severity} · {recipe.status} · since {recipe.since} · checked {recipe.checked}"
    if recipe.silent:
        line += f" · a silent error, {recipe.silent}"
    if recipe.aliases:
        line += " · also called " + ", ".join(f"`{alias}`" for alias in recipe.aliases)
    parts = [f"## {recipe.id}", f"**{recipe.title}**", line]
    parts += [recipe.what.strip(), f"**Why.** {recipe.why.strip()}"]
    if recipe.when:
        parts.append("**How facts tell it.** All of:\n\n" + _list(map(_condition, recipe.when)))
    if recipe.reached:
        parts.append("**Reached** when all of:\n\n" + _list(map(_condition, recipe.reached)))
    if recipe.logs:
        parts.append("**How a log tells it.** One of:\n\n" + _list(map(_log, recipe.logs)))
    parts += _ruled_out(recipe)
    if recipe.explains:
        parts.append("**Explains** " + ", ".join(f"`{entry}`" for entry in recipe.explains) + ".")
    if recipe.remedies:
        parts.append("**What cures it**, in order of preference:\n\n" + "\n".join(map(_remedy, recipe.remedies)))
    else:
        parts.append("**What cures it**: nothing that a recipe could name.")
    if recipe.known_problems:
        parts.append(f"**Known problems.** {recipe.known_problems.strip()}")
    parts.append("**Sources**\n\n" + _list(f"{kind}: <{url}>" for kind, url in recipe.references))
    return "\n\n".join(parts)


def _ruled_out(recipe: Recipe) -> list[str]:
    """Where it is impossible, whatever a log's words say."""
    return [f"**Ruled out** where {' or '.join(map(_condition, recipe.unless))}."] if recipe.unless else []


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _condition(condition: Condition) -> str:
    if isinstance(condition, AnyOf):
        return " or ".join(map(_question, condition.questions))
    return _question(condition)


def _question(question: Question) -> str:
    name = f"`{question.fact}`"
    match question:
        case Present(present=True):
            return f"{name} is there"
        case Present():
            return f"{name} is not there"
        case Affected():
            return f"{name} is " + " and ".join(_bounds(question))
        case OneOf(values=values):
            return f"{name} is " + " or ".join(f"`{_value(value)}`" for value in values)
        case Below(bound=bound):
            return f"{name} is below `{bound}`"
        case AtLeast(bound=bound):
            return f"{name} is `{bound}` or more"
        case Matches(pattern=pattern):
            return f"{name} matches {_code(pattern)}"


def _bounds(question: Affected) -> Iterator[str]:
    if question.introduced:
        yield f"`{question.introduced}` or later"
    if question.fixed:
        yield f"before `{question.fixed}`"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _log(log: LogPattern) -> str:
    text = _code(log.pattern)
    if log.kinds:
        text += f" in a {' or '.join(log.kinds)}"
    for words, pattern in (
        ("not with", log.unless), ("near", log.nearby), ("not near", log.unless_nearby)
    ):  # fmt: skip
        if pattern:
            text += f", {words} {_code(pattern)}"
    if log.when:
        text += ", when " + " and ".join(map(_condition, log.when))
    if log.wrapper:
        text += " (an outer line: only where nothing else explains the log)"
    elif log.confirms:
        text += " (proves it)"
    if log.severity:
        text += f" ({log.severity.value})"
    return text


def _code(text: str) -> str:
    """A pattern as code: in as many backticks as it takes."""
    ticks = "`"
    while ticks in text:
        ticks += "`"
    text = text.replace("\n", r"\n")
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def _remedy(remedy: RecipeRemedy) -> str:
    lines = [f"- **{remedy.title}** (`{remedy.id}`; {_SAFETY[remedy.safety.value]})"]
    if remedy.why_this_safety:
        lines.append(f"  {remedy.why_this_safety}")
    if remedy.safe_when:
        lines.append("  Safe where " + " and ".join(map(_condition, remedy.safe_when)) + f": {remedy.why_safe}")
    if remedy.when:
        lines.append("  Where " + " and ".join(map(_condition, remedy.when)) + ".")
    if remedy.unless:
        lines.append("  Not where " + " or ".join(map(_condition, remedy.unless)) + ".")
    if remedy.expires:
        lines.append(f"  To be looked at again after {remedy.expires}.")
    for action in remedy.actions:
        lines += [f"  {line}" for line in treatment_of(action).described(action)]
    return "\n".join(lines)
