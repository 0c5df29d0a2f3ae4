"""Fills the `{fact.name}` places of a recipe's texts, and writes the commands that a remedy means."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

from packaging.utils import canonicalize_name

from attn_doctor.cookbook.build import TEMPLATE
from attn_doctor.cookbook.recipe import RecipeRemedy
from attn_doctor.cookbook.wheels import NotTold, NoWheel, Wheel, fitting, node_of
from attn_doctor.diagnose import typable
from attn_doctor.diagnose.binding import Bound
from attn_doctor.diagnose.install_commands import install_command
from attn_doctor.machine.harmless import one_line
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, State, Value
from attn_doctor.model.findings import Action, Location, Remedy
from attn_doctor.model.install_request import InstallRequest

_TO_FILL_IN = {
    "executable": "python", "cuda": "VERSION", "cudart_major": "MAJOR", "triton_requirement": "==VERSION",
    "release_for_torch": "VERSION", "gpu_release": "VERSION", "missing_requirement": "PACKAGE",
    "flash_attn_3_build": "BUILD",
}  # fmt: skip
_ATTENTION_KEYS = ("flash_attn", "attn_implementation")


def shown(value: Value) -> str:
    """A value as people read it."""
    if isinstance(value, tuple):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def filled(text: str, facts: FactSet, bound: Bound) -> str:
    """The text with each known fact in its place; one that is not known reads `?`, a package `the package`."""

    def one(match: re.Match[str]) -> str:
        state = _bound(match[1], facts, bound)
        if isinstance(state, Known):
            return one_line(shown(state.value))
        return "the package" if match[1].endswith(".package") else "?"

    return TEMPLATE.sub(one, text)


def command(text: str, facts: FactSet, bound: Bound, *, quote: bool = False) -> str:
    """A command likewise; what is not known is a word in capitals, as manuals leave it to the reader."""

    def one(match: re.Match[str]) -> str:
        state = _bound(match[1], facts, bound)
        if isinstance(state, Known):
            return shlex.quote(shown(state.value)) if quote else shown(state.value)
        attribute = match[1].rpartition(".")[2]
        return _TO_FILL_IN.get(attribute, attribute.upper())

    return TEMPLATE.sub(one, text)


def locations(where: tuple[FactName, ...], facts: FactSet, bound: Bound) -> tuple[Location, ...]:
    """The places that the named facts point at: a path, or `path:line`."""
    found = []
    for name in where:
        state = _bound(str(name), facts, bound)
        if isinstance(state, Known) and isinstance(state.value, str):
            match = re.fullmatch(r"(.+):(\d+)", state.value)
            found.append(Location(file=match[1], line=int(match[2])) if match else Location(file=state.value))
    return tuple(dict.fromkeys(found))


def remedy(written: RecipeRemedy, facts: FactSet, bound: Bound) -> Remedy:
    """The remedy for this node: texts filled, commands for this interpreter."""
    return Remedy(
        id=written.id,
        title=filled(written.title, facts, bound),
        safety=written.safety,
        why_this_safety=filled(written.why_this_safety, facts, bound),
        actions=tuple(_action(kind, dict(arguments), facts, bound) for kind, arguments in written.actions),
    )


def asked_in_texts(written: RecipeRemedy, facts: FactSet, bound: Bound) -> tuple[Fact, ...]:
    """The facts that fill the places in what a remedy does: versions to install, lines to change."""
    texts = [
        text
        for _, arguments in written.actions
        for _, value in arguments
        for text in (value if isinstance(value, tuple) else (value,))
        if isinstance(text, str)
    ]
    names = dict.fromkeys(match[1] for text in texts for match in TEMPLATE.finditer(text))
    return tuple(_bound_fact(name, facts, bound) for name in names)


def _bound_fact(spelled: str, facts: FactSet, bound: Bound) -> Fact:
    name = FactName.parse(spelled)
    return facts.fact(name.of(bound[name.kind]) if name.each and name.kind in bound else name)


def _bound(spelled: str, facts: FactSet, bound: Bound) -> State:
    return _bound_fact(spelled, facts, bound).state


def _action(kind: str, arguments: dict[str, str | bool | tuple[str, ...]], facts: FactSet, bound: Bound) -> Action:
    filled_in: dict[str, str | bool | tuple[str, ...]] = {}
    for key, value in arguments.items():
        if isinstance(value, tuple):
            filled_in[key] = tuple(filled(item, facts, bound) for item in value)
        else:
            filled_in[key] = filled(value, facts, bound) if isinstance(value, str) else value
    if "torch_backend" in arguments:
        filled_in["torch_backend"] = _backend(str(arguments["torch_backend"]), facts, bound)
    if kind == "install-wheel":
        filled_in["text"] = _published(filled_in, facts)
    return Action(
        kind=kind,
        arguments=tuple(filled_in.items()),
        commands=_commands(kind, {**filled_in, **_written(arguments)}, facts, bound),
    )


def _backend(text: str, facts: FactSet, bound: Bound) -> str:
    """The build that is meant; nothing where none is needed, `?` where it is not known."""
    match = TEMPLATE.fullmatch(text)
    if match is None:
        return text
    state = _bound(match[1], facts, bound)
    return "" if isinstance(state, Absent) else shown(state.value) if isinstance(state, Known) else "?"


def _written(arguments: dict[str, str | bool | tuple[str, ...]]) -> dict[str, str | bool | tuple[str, ...]]:
    return {key: arguments[key] for key in ("commands", "requirements") if key in arguments}


def _wheel(arguments: dict[str, str | bool | tuple[str, ...]], facts: FactSet) -> Wheel:
    return fitting(str(arguments["package"]), node_of(facts), str(arguments.get("version", "")))


def _published(arguments: dict[str, str | bool | tuple[str, ...]], facts: FactSet) -> str:
    try:
        return f"The published wheel for this node: {_wheel(arguments, facts).url}"
    except NoWheel as error:
        if isinstance(error, NotTold):
            return f"Which one fits cannot be told: {error}."
        return f"None is published for this node: {error}."


def _commands(
    kind: str, arguments: dict[str, str | bool | tuple[str, ...]], facts: FactSet, bound: Bound
) -> tuple[str, ...]:
    if kind == "install-packages":
        request = _request(arguments, facts, bound)
        wanted = (*_removals(request.requirements, facts), install_command(request, facts))
        return typable.typable(wanted, facts)
    if kind == "install-wheel":
        try:
            wheel = _wheel(arguments, facts)
        except NoWheel:
            return ()
        return (
            f"curl -fL -o {wheel.file} {wheel.url}",
            *typable.typable((f"attn-doctor fix --unsafe-fixes --wheel {wheel.file}",), facts),
        )
    if kind == "set-environment":
        return (f"export {arguments['name']}={shlex.quote(str(arguments['value']))}",)
    if kind == "set-config":
        return (_setting(str(arguments["key"]), str(arguments["value"]), facts, bound),)
    commands = arguments.get("commands", ())
    written = tuple(command(item, facts, bound, quote=True) for item in commands) if isinstance(commands, tuple) else ()
    if arguments.get("requirements"):
        written = (*written, install_command(_request(arguments, facts, bound), facts))
    return typable.typable(written, facts)


def _request(arguments: dict[str, str | bool | tuple[str, ...]], facts: FactSet, bound: Bound) -> InstallRequest:
    requirements = arguments["requirements"]
    assert isinstance(requirements, tuple)
    texts = tuple(command(item, facts, bound) for item in requirements)
    builds = bool(arguments.get("no_build_isolation"))
    return InstallRequest(
        requirements=() if builds else texts,
        builds=texts if builds else (),
        no_deps=bool(arguments.get("no_deps")),
        no_cache=bool(arguments.get("no_cache")),
        reinstall=bool(arguments.get("force_reinstall")),
        torch_backend=str(arguments.get("torch_backend", "")),
    )


def _removals(requirements: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """Two distributions must not own the same files: one that bears another name is taken out first."""
    renamed = other_names(requirements, facts)
    if not renamed:
        return ()
    python = facts.text("python.executable") or "python"
    if facts.value("python.has_pip") is False:
        return (shlex.join(["uv", "pip", "uninstall", "--python", python, *renamed]),)
    return (shlex.join([python, "-m", "pip", "uninstall", "-y", *renamed]),)


def other_names(requirements: Iterable[str], facts: FactSet) -> tuple[str, ...]:
    """The distributions that hold the required libraries under names of their own."""
    found = []
    for text in requirements:
        name = re.match(r"[\w.-]+", text)
        own = facts.text(FactName("package", canonicalize_name(name[0]), "distribution")) if name else None
        if own is not None:
            found.append(own)
    return tuple(found)


def _setting(key: str, value: str, facts: FactSet, bound: Bound) -> str:
    """A setting as its file spells it, with the place where it stands."""
    subject = bound.get("config")
    about = "attention" if key in _ATTENTION_KEYS else "precision"
    place = facts.text(f"config.{subject}.{about}_place") if subject else None
    if subject and facts.text(f"config.{subject}.framework") == "deepspeed":
        return f'"{key}": {{"enabled": {value}}}' + (f"    in {place}" if place else "")
    if subject and subject.endswith(".json"):
        plain = value in ("true", "false", "null") or value.replace(".", "", 1).isdigit()
        return f'"{key}": {value if plain else json.dumps(value)}' + (f"    in {place}" if place else "")
    return f"{key}: {value}" + (f"    # in {place}" if place else "")
