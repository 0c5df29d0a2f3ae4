"""Fills the placeholders `{fact.name}` in a recipe's texts, for reading and for typing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import partial

from attn_doctor.diagnose.binding import Bound, bound_fact
from attn_doctor.diagnose.choice_by_torch import DISTRIBUTION, releases_to_choose_from
from attn_doctor.fix.treatments import treatment_of
from attn_doctor.machine.printable import one_line
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Value
from attn_doctor.model.findings import Location, Remedy
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.remedies import (
    Action,
    Advise,
    Form,
    InstallPackages,
    InstallWheel,
    ProposedAction,
    install_request,
    texts_of,
    with_texts,
)
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import RecipeRemedy

#: The interpreter that nobody named is the one that is on PATH.
_PYTHON = "python.executable"
_SUBJECT = "subject.package"


def shown(value: Value) -> str:
    """A value as shown to people."""
    if isinstance(value, tuple):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def filled(text: str, facts: FactSet, bound: Bound) -> str:
    """The text with placeholders filled; an unknown fact becomes `?`, a package's name `the package`."""

    def one(match: re.Match[str]) -> str:
        state = _bound(match[1], facts, bound)
        if isinstance(state, Known):
            return one_line(shown(state.value))
        return "the package" if match[1].endswith(".package") else "?"

    return TEMPLATE.sub(one, text)


def command(text: str, facts: FactSet, bound: Bound, *, quote: bool = False) -> str:
    """The command, or what an installer is asked for, with each fact in its place; all of them have to be known."""

    def one(match: re.Match[str]) -> str:
        state = _bound(match[1], facts, bound)
        value = shown(state.value) if isinstance(state, Known) else "python"
        return _quoted(value, _open_quote(text[: match.start()])) if quote else value

    return TEMPLATE.sub(one, text)


def _open_quote(text: str) -> str:
    """The quote that a shell is in behind the text; nothing where it is in none."""
    inside, skip = "", False
    for one in text:
        if skip:
            skip = False
        elif one == "\\" and inside != "'":
            skip = True
        elif one in "'\"" and inside in ("", one):
            inside = "" if inside else one
    return inside


def _quoted(value: str, inside: str) -> str:
    """The value as a shell reads it back, where the command's own text has opened that quote."""
    if not inside:
        return shlex.quote(value)
    return value.replace("'", "'\\''") if inside == "'" else re.sub(r'([\\"$`])', r"\\\1", value)


def _can_be_typed(text: str, facts: FactSet, bound: Bound) -> bool:
    """Whether each fact in it is known: a command with a hole in it is none."""
    return all(name == _PYTHON or isinstance(_bound(name, facts, bound), Known) for name in TEMPLATE.findall(text))


def locations(where: tuple[FactName, ...], facts: FactSet, bound: Bound) -> tuple[Location, ...]:
    """The places in the named facts: a path, or `path:line`."""
    found = []
    for name in where:
        state = _bound(str(name), facts, bound)
        if isinstance(state, Known) and isinstance(state.value, str):
            match = re.fullmatch(r"(.+):(\d+)", state.value)
            found.append(Location(file=match[1], line=int(match[2])) if match else Location(file=state.value))
    return tuple(dict.fromkeys(found))


def remedy(written: RecipeRemedy, facts: FactSet, bound: Bound) -> Remedy:
    """The remedy for this node: texts filled, commands for this interpreter."""
    why = filled(written.why_this_safety, facts, bound)
    actions = tuple(_proposed(action, facts, bound) for action in written.actions)
    return Remedy(
        id=written.id,
        title=filled(written.title, facts, bound),
        safety=written.safety,
        why_this_safety=" ".join(filter(None, [why, _of_the_torch_to_come(actions, facts)])),
        actions=actions,
    )


def is_of_use(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    """False for a remedy that installs a package whose kernels the finding's own package has copies of."""
    state = _bound(_SUBJECT, facts, bound)
    subject = BY_NAME.get(str(state.value)) if isinstance(state, Known) else None
    return subject is None or not any(
        (name := DISTRIBUTION.match(text)) and canonical_name(name[0]) in subject.copies
        for text in _installed_by(written)
    )


def _installed_by(written: RecipeRemedy) -> Iterator[str]:
    for one in written.actions:
        if isinstance(one, InstallWheel):
            yield one.package
        elif isinstance(one, InstallPackages | Advise):
            yield from one.requirements


def installs_a_known_package(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    """False for a remedy that installs a package and nothing else, where it is not known which one."""
    asked = [one for one in written.actions if isinstance(one, InstallPackages)]
    names = [match[1] for one in asked for text in one.requirements if (match := TEMPLATE.match(text))]
    unknown = any(not isinstance(_bound(name, facts, bound), Known) for name in names)
    return not unknown or len(asked) < len(written.actions)


def _of_the_torch_to_come(actions: tuple[ProposedAction, ...], facts: FactSet) -> str:
    """A command that pins torch to a release other than the installed one has to name it."""
    release = facts.text("torch.release_to_come")
    there = facts.text("torch.version") or facts.text("package.torch.version")
    asks = [one.action for one in actions if isinstance(one.action, InstallPackages | Advise)]
    if release is None or (there or "").partition("+")[0] == release or not asks:
        return ""
    request = install_request(asks)
    if not request.requirements or request.no_deps or request.moves_torch:
        return ""
    return f"torch is held at {release}, which another cure of this report brings."


def asked_in_texts(written: RecipeRemedy, facts: FactSet, bound: Bound) -> tuple[Fact, ...]:
    """The facts in the placeholders of a remedy's action: versions to install, lines to change."""
    texts = (text for action in written.actions for text in texts_of(action))
    names = dict.fromkeys(match[1] for text in texts for match in TEMPLATE.finditer(text))
    return tuple(bound_fact(FactName.parse(name), facts, bound) for name in names)


def _bound(spelled: str, facts: FactSet, bound: Bound) -> State:
    return bound_fact(FactName.parse(spelled), facts, bound).state


def _proposed(written: Action, facts: FactSet, bound: Bound) -> ProposedAction:
    written = _spread(written, facts, bound)
    treatment = treatment_of(written)
    to_read = treatment.completed(with_texts(written, partial(_to_read, facts=facts, bound=bound)), facts)
    whole = _typed(written, facts, bound)
    if whole is None:
        return (
            releases_to_choose_from(to_read, facts)
            if isinstance(to_read, InstallPackages)
            else ProposedAction(action=to_read)
        )
    to_type = with_texts(whole, partial(_to_type, facts=facts, bound=bound))
    return ProposedAction(action=to_read, commands=treatment.commands(to_type, facts, bound))


def _typed(written: Action, facts: FactSet, bound: Bound) -> Action | None:
    """What of the action a person can type, every fact in it being known; None where that is nothing."""
    if not isinstance(written, InstallPackages | Advise):
        return written
    known = partial(_can_be_typed, facts=facts, bound=bound)
    installs = all(map(known, written.requirements)) and _torch_build(written.torch_backend or "", facts, bound) != "?"
    if isinstance(written, InstallPackages):
        return written if installs else None
    return replace(
        written,
        commands=tuple(filter(known, written.commands)),
        requirements=written.requirements if installs else (),
    )


def _spread(written: Action, facts: FactSet, bound: Bound) -> Action:
    """Replaces a requirement that is only the name of a list by the members of the list."""
    if not isinstance(written, InstallPackages | Advise):
        return written
    each: list[str] = []
    for text in written.requirements:
        match = TEMPLATE.fullmatch(text)
        state = _bound(match[1], facts, bound) if match else None
        if isinstance(state, Known) and isinstance(state.value, tuple):
            each += [one_line(shown(item)) for item in state.value]
        else:
            each.append(text)
    return replace(written, requirements=tuple(each))


def _to_read(text: str, form: Form, *, facts: FactSet, bound: Bound) -> str:
    return _torch_build(text, facts, bound) if form is Form.TORCH_BUILD else filled(text, facts, bound)


def _to_type(text: str, form: Form, *, facts: FactSet, bound: Bound) -> str:
    if form in (Form.REQUIREMENT, Form.COMMAND):
        return command(text, facts, bound, quote=form is Form.COMMAND)
    return _to_read(text, form, facts=facts, bound=bound)


def _torch_build(text: str, facts: FactSet, bound: Bound) -> str:
    """The build to install; empty when none is needed, `?` when unknown."""
    match = TEMPLATE.fullmatch(text)
    if match is None:
        return text
    state = _bound(match[1], facts, bound)
    return "" if isinstance(state, Absent) else shown(state.value) if isinstance(state, Known) else "?"
