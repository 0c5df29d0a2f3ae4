"""Actions of remedies: a closed union of frozen records, one for each kind of action.

`action_from` makes a record of a table from a recipe or a report, `settings_of` makes a table of a record; no other
module reads the keys. fix/treatments/ has one file for each kind: the commands a person would type, and how the action
is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import ClassVar, TypeAlias, get_args

from attn_doctor.model.install_request import InstallRequest
from attn_doctor.quick_dataclasses import MISSING, dataclass, field, fields, replace


class Form(Enum):
    """How a placeholder for a fact (`{torch.version}`) is filled in a command that a person types."""

    PROSE = "prose"
    REQUIREMENT = "requirement"
    COMMAND = "command"
    TORCH_BUILD = "torch build"
    """One fact only: the build of torch to install."""


class _Action:
    """Attributes and methods that every action has."""

    __slots__ = ()
    kind: ClassVar[str]
    """Spelling in recipes and reports."""
    for_a_shell: ClassVar[bool] = True
    """True when its commands are for a shell; otherwise they are lines of a file."""

    @property
    def advice(self) -> str:
        """Instructions for a person; empty when there are none."""
        return ""

    @property
    def hint(self) -> str:
        """Where a person can get the packages it installs; empty when not known."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPackages(_Action):
    """Installs these packages."""

    kind: ClassVar[str] = "install-packages"

    requirements: tuple[str, ...] = field(metadata={"form": Form.REQUIREMENT})
    no_deps: bool = False
    no_cache: bool = False
    force_reinstall: bool = False
    no_build_isolation: bool = False
    """Build them from source against the installed packages."""
    torch_backend: str | None = field(default=None, metadata={"form": Form.TORCH_BUILD})
    """The build in torch's own index; `auto`: uv picks it by the node's GPU; empty: none is needed."""
    index_hint: str = ""

    @property
    def hint(self) -> str:
        return self.index_hint


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallWheel(_Action):
    """Installs the wheel that the package's authors publish for this node; a person downloads it first."""

    kind: ClassVar[str] = "install-wheel"

    package: str
    version: str = ""
    """A version specifier; empty for any release."""
    text: str = ""
    """Which wheel that is on this node. Filled in by the doctor, not by the recipe."""

    @property
    def advice(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig(_Action):
    """Sets one key of a training configuration to this value."""

    kind: ClassVar[str] = "set-config"
    for_a_shell: ClassVar[bool] = False

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSource(_Action):
    """Changes a call in a source file: a cast where a trace found it missing, or one keyword of a package's call."""

    kind: ClassVar[str] = "edit-source"

    edit: str
    """cast-before-kernel, cast-operand or cast-mask (a trace gives the place), or set-keyword (the fields below give
    the place).
    """
    where: str = ""
    packages: tuple[str, ...] = ()
    """Requirements: a distribution with the releases for which the edit was written."""
    file: str = ""
    """Path below the folder of the imported package."""
    function: str = ""
    call: str = ""
    keyword: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEnvironment(_Action):
    """Sets this variable when the environment is activated."""

    kind: ClassVar[str] = "set-environment"

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advise(_Action):
    """Instructions that a person carries out: text, commands, and packages to install."""

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
#: Kind of action, as recipes and reports spell it -> its record.
KINDS: Mapping[str, type[Action]] = {one.kind: one for one in get_args(Action)}

#: A value in the TOML or JSON table of an action.
Setting: TypeAlias = str | bool | tuple[str, ...]
_TYPES: Mapping[str, type] = {"str": str, "str | None": str, "bool": bool, "tuple[str, ...]": tuple}


@cache
def _settings(kind: str) -> Mapping[str, type]:
    """Names and types of the settings of this kind."""
    return {one.name: _TYPES[str(one.type)] for one in fields(KINDS[kind])}


def action_from(kind: str, settings: Mapping[str, object], *, strict: bool = True) -> Action:
    """Makes the record of a table. Unless `strict`, settings that the kind does not have are ignored.

    Raises ValueError for an unknown kind, TypeError for a setting that is missing, unknown or of another type.
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
    """The value, checked. Raises TypeError when it has another type."""
    found = tuple(value) if isinstance(value, list) else value
    if not isinstance(found, of) or (isinstance(found, tuple) and not all(isinstance(one, str) for one in found)):
        raise TypeError(f"{name} is {str(value)[:40]!r}")
    return found  # type: ignore[return-value]


def settings_of(action: Action) -> dict[str, Setting]:
    """The table of an action: every required setting, and those that differ from their default."""
    return {
        one.name: value
        for one in fields(action)
        if (value := getattr(action, one.name)) != one.default or one.default is MISSING
    }


def texts_of(action: Action) -> Iterator[str]:
    """Every text of the action."""
    for value in settings_of(action).values():
        if not isinstance(value, bool):
            yield from value if isinstance(value, tuple) else (value,)


def with_texts(action: Action, fill: Callable[[str, Form], str]) -> Action:
    """A copy with every text replaced by the result of `fill`."""
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
    """A copy with its instructions replaced by the result of `change`."""
    return replace(action, text=change(action.text)) if isinstance(action, InstallWheel | Advise) else action


def install_request(actions: Iterable[InstallPackages | InstallWheel | Advise]) -> InstallRequest:
    """Combines the actions into one request to the installer."""
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
    """An action of a finding's remedy with its placeholders filled for this node."""

    action: Action
    commands: tuple[str, ...] = ()
    """The commands that a person would type for this target."""
