"""What a remedy does: a closed union of frozen records, one for each kind of action.

A table of a recipe or of a report becomes a record in `action_from`, and a record becomes a table in `settings_of`;
nothing else knows an action by its keys. What a kind means (what a person would type, how it is planned) is in
fix/treatments/, a file for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from typing import ClassVar, TypeAlias, get_args

from attn_doctor.model.install_request import InstallRequest


class Form(Enum):
    """How the places of facts (`{torch.version}`) in a text are filled, in a command that a person types."""

    PROSE = "prose"
    REQUIREMENT = "requirement"
    COMMAND = "command"
    TORCH_BUILD = "torch build"
    """One fact alone: the build of torch that is meant."""


class _Action:
    """What every action answers."""

    __slots__ = ()
    kind: ClassVar[str]
    """How recipes and reports spell it."""
    for_a_shell: ClassVar[bool] = True
    """Whether its commands are typed into a shell; otherwise they are lines of a file."""

    @property
    def advice(self) -> str:
        """Words for a person; empty when there are none."""
        return ""

    @property
    def hint(self) -> str:
        """Where what it installs is to be had, for a person; empty when nothing is said of that."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPackages(_Action):
    """The installer is asked for these packages."""

    kind: ClassVar[str] = "install-packages"

    requirements: tuple[str, ...] = field(metadata={"form": Form.REQUIREMENT})
    no_deps: bool = False
    no_cache: bool = False
    force_reinstall: bool = False
    no_build_isolation: bool = False
    """They are built from source against what is installed."""
    torch_backend: str | None = field(default=None, metadata={"form": Form.TORCH_BUILD})
    """The build of torch's own index that is meant; `auto`: uv picks it by the node; empty: none is needed."""
    index_hint: str = ""

    @property
    def hint(self) -> str:
        return self.index_hint


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWheel(_Action):
    """The wheel that the package's authors publish for the node is installed, once a person has fetched it."""

    kind: ClassVar[str] = "install-wheel"

    package: str
    version: str = ""
    """A specifier; empty for any release."""
    text: str = ""
    """Which wheel that is on this node; a recipe does not say it."""

    @property
    def advice(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig(_Action):
    """One key of a training configuration gets this value."""

    kind: ClassVar[str] = "set-config"
    for_a_shell: ClassVar[bool] = False

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSource(_Action):
    """A call in a source file is changed: a cast where a trace says so, or one keyword of a package's call."""

    kind: ClassVar[str] = "edit-source"

    edit: str
    """cast-before-kernel, cast-operand, cast-mask (their place is a trace's) or set-keyword (its place is below)."""
    where: str = ""
    packages: tuple[str, ...] = ()
    """Requirements: a distribution with the releases whose source is known."""
    file: str = ""
    """Below the folder that the package is imported from."""
    function: str = ""
    call: str = ""
    keyword: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvironment(_Action):
    """Activating the environment sets this variable."""

    kind: ClassVar[str] = "set-environment"

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advise(_Action):
    """A person does it: words, commands, and what an installer would be asked for."""

    kind: ClassVar[str] = "advise"

    text: str
    commands: tuple[str, ...] = field(default=(), metadata={"form": Form.COMMAND})
    requirements: tuple[str, ...] = field(default=(), metadata={"form": Form.REQUIREMENT})
    no_deps: bool = False
    no_cache: bool = False
    force_reinstall: bool = False
    no_build_isolation: bool = False
    torch_backend: str | None = field(default=None, metadata={"form": Form.TORCH_BUILD})
    index_hint: str = ""

    @property
    def advice(self) -> str:
        return self.text

    @property
    def hint(self) -> str:
        return self.index_hint


Action: TypeAlias = InstallPackages | InstallWheel | SetConfig | EditSource | SetEnvironment | Advise
#: Every kind of action, by the name that recipes and reports give it.
KINDS: Mapping[str, type[Action]] = {one.kind: one for one in get_args(Action)}

#: A value of a table of TOML or JSON that an action is made of.
Setting: TypeAlias = str | bool | tuple[str, ...]
_TYPES: Mapping[str, type] = {"str": str, "str | None": str, "bool": bool, "tuple[str, ...]": tuple}


@cache
def _settings(kind: str) -> Mapping[str, type]:
    """The names of a kind's settings, and the type of each."""
    return {one.name: _TYPES[str(one.type)] for one in fields(KINDS[kind])}


def action_from(kind: str, settings: Mapping[str, object], *, strict: bool = True) -> Action:
    """The record of a table. Settings that the kind does not have are left aside unless it is `strict`.

    Raises ValueError for no kind of action, TypeError for a setting that is missing, unknown or of another type.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of action: {kind!r}")
    known = _settings(kind)
    taken: dict[str, Setting] = {}
    for name, value in settings.items():
        if name in known:
            taken[name] = _setting(name, known[name], value)
        elif strict:
            raise TypeError(f"{kind} has no {name}")
    return KINDS[kind](**taken)  # type: ignore[arg-type]


def _setting(name: str, of: type, value: object) -> Setting:
    """Raises TypeError."""
    found = tuple(value) if isinstance(value, list) else value
    if not isinstance(found, of) or (isinstance(found, tuple) and not all(isinstance(one, str) for one in found)):
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    return found  # type: ignore[return-value]


def settings_of(action: Action) -> dict[str, Setting]:
    """What was said: every setting that has to be, and those that are not as they are by themselves."""
    return {
        one.name: value
        for one in fields(action)
        if (value := getattr(action, one.name)) != one.default or one.default is MISSING
    }


def texts_of(action: Action) -> Iterator[str]:
    """Every text in it."""
    for value in settings_of(action).values():
        if not isinstance(value, bool):
            yield from value if isinstance(value, tuple) else (value,)


def with_texts(action: Action, fill: Callable[[str, Form], str]) -> Action:
    """The same action with every text as `fill` gives it."""
    changed: dict[str, Setting] = {}
    for one in fields(action):
        value = getattr(action, one.name)
        form = one.metadata.get("form", Form.PROSE)
        if isinstance(value, str):
            changed[one.name] = fill(value, form)
        elif isinstance(value, tuple):
            changed[one.name] = tuple(fill(text, form) for text in value)
    return replace(action, **changed)  # type: ignore[arg-type]


def with_advice(action: Action, change: Callable[[str], str]) -> Action:
    """The same action with its words for a person as `change` gives them."""
    return replace(action, text=change(action.text)) if isinstance(action, InstallWheel | Advise) else action


def install_request(actions: Iterable[InstallPackages | InstallWheel | Advise]) -> InstallRequest:
    """What the actions ask of an installer, in one call of it."""
    actions = tuple(actions)
    asked = [one for one in actions if not isinstance(one, InstallWheel)]
    resolved = [one for one in asked if not one.no_build_isolation]
    return InstallRequest(
        requirements=_each(text for one in resolved for text in one.requirements),
        builds=_each(text for one in asked if one.no_build_isolation for text in one.requirements),
        no_deps=all(one.no_deps for one in resolved),
        no_cache=any(one.no_cache for one in asked),
        reinstall=any(one.force_reinstall for one in asked),
        wheels=_each(one.package for one in actions if isinstance(one, InstallWheel)),
        torch_backend=next((one.torch_backend for one in asked if one.torch_backend), ""),
    )


def _each(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedAction:
    """An action of a finding's remedy, for the node at hand: its texts are filled."""

    action: Action
    commands: tuple[str, ...] = ()
    """What a person would type, for this target."""
