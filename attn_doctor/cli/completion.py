"""`attn-doctor completion SHELL`: a script that completes commands, options, GPU names and recipe ids.

The script holds all words: a press of the tab key starts no Python, as typer's own completion does; that takes longer
than a person waits.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from attn_doctor.cli.commands import COMMANDS
from attn_doctor.cli.declare import Argument
from attn_doctor.cli.guard import guarded
from attn_doctor.model.exit_status import Status
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import names as gpu_names


class Shell(str, Enum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What an option or an argument takes."""

    words: tuple[str, ...] = ()
    files: bool = False
    may_lack: bool = False
    """Whether the option may stand without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command: its words, its options with what each takes (None for a flag), and what its arguments are."""

    words: tuple[str, ...]
    summary: str
    options: dict[str, tuple[Value | None, str]]
    argument: Value


@guarded
def completion(
    shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")],
) -> int:
    """Print a script that completes the command line in your shell.

    bash: eval "$(attn-doctor completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit; fish:
    attn-doctor completion fish > ~/.config/fish/completions/attn-doctor.fish
    """
    commands = tuple(every_command())
    sys.stdout.write(_fish(commands) if shell is Shell.FISH else _bash(commands, in_zsh=shell is Shell.ZSH))
    return Status.HEALTHY


def every_command() -> Iterator[Completed]:
    """Each command, those of groups included, as it is declared."""
    values = _Values()
    for name, command in COMMANDS.items():
        module = importlib.import_module(f"attn_doctor.cli.{command.module}")
        if command.function is not None:
            yield _completed((name,), command.summary, getattr(module, command.function), values)
            continue
        for inner in module.app.registered_commands:
            summary = (inner.callback.__doc__ or "").strip().partition("\n")[0]
            yield _completed((name, inner.name or inner.callback.__name__), summary, inner.callback, values)


class _Values:
    """What parameters take, by their types and names."""

    def __init__(self) -> None:
        self._gpus = Value(words=tuple(name.replace(" ", "") for name in gpu_names()))
        self._recipes = Value(words=tuple(sorted(recipe.id for recipe in shelf.shelf())))

    def of(self, name: str, kind: Any, note: Any) -> Value:
        """`kind` is the annotated type, `note` its declaration."""
        choices = getattr(note, "choices", None)
        if choices is not None:
            return Value(words=tuple(choices()))
        if isinstance(kind, type) and issubclass(kind, Enum):
            may_lack = getattr(note, "bare", None) is not None
            return Value(words=tuple(one.value for one in kind), may_lack=may_lack)
        metavar = str(getattr(note, "metavar", None) or "")
        if name == "gpu":
            return self._gpus
        if name in ("only", "skip", "id_"):
            return self._recipes
        if name == "named":
            return Value(words=self._recipes.words, files=True)
        if re.fullmatch(r"[a-z0-9]+(\|[a-z0-9]+)+", metavar):
            return Value(words=tuple(metavar.split("|")))
        return Value(files=kind is Path or any(word in metavar for word in ("PATH", "FILE", "DIR", "LOG")))


def _completed(words: tuple[str, ...], summary: str, function: Callable[..., Any], values: _Values) -> Completed:
    options: dict[str, tuple[Value | None, str]] = {"--help": (None, "Show the help.")}
    argument = Value()
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is not Annotated:
            continue
        kind, note = get_args(parameter.annotation)
        kind = _certain(kind)
        if "Argument" in type(note).__name__:
            argument = values.of(name, kind, note)
            continue
        value = None if kind is bool else values.of(name, kind, note)
        for flag in _flags(note) or (f"--{name.replace('_', '-')}",):
            for one in flag.split("/"):
                if one.startswith("--"):
                    options[one] = (value, str(note.help or ""))
    return Completed(words=words, summary=summary, options=options, argument=argument)


def _flags(note: Any) -> tuple[str, ...]:
    """The flags in a declaration of ours or of typer's, which keeps the first where a default would stand."""
    given = getattr(note, "flags", None) or (
        getattr(note, "default", None),
        *(getattr(note, "param_decls", None) or ()),
    )
    return tuple(one for one in given if isinstance(one, str) and one.startswith("-"))


def _certain(kind: Any) -> Any:
    """The type without `None` and without the list around it."""
    inner = [one for one in get_args(kind) if one is not type(None)]
    return _certain(inner[0]) if inner else kind


def _bash(commands: tuple[Completed, ...], *, in_zsh: bool) -> str:
    """For bash, and for zsh by its own bashcompinit."""
    groups: dict[str, list[str]] = {}
    after_option: dict[str, list[str]] = {}
    after_command = []
    for one in commands:
        name = " ".join(one.words)
        groups.setdefault(one.words[0], []).extend(one.words[1:])
        for flag, (value, _) in one.options.items():
            if value is not None:
                after_option.setdefault(_set(value), []).append(f'"{name} {flag}"')
        after_command.append(f'"{name}") options={shlex.quote(" ".join(one.options))}; {_set(one.argument)} ;;')
    values = "\n".join(f"    {'|'.join(flags)}) {words} ;;" for words, flags in after_option.items())
    inner = {group: words for group, words in groups.items() if words}
    start = "autoload -U +X bashcompinit && bashcompinit\n" if in_zsh else ""
    return f"""{start}_attn_doctor() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local first="${{COMP_WORDS[1]}}" second="${{COMP_WORDS[2]}}" command options="" _ad_words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W {shlex.quote(" ".join((*groups, "--help", "--version")))} -- "$current") )
    return
  fi
  command="$first"
  case "$first" in
    {"|".join(inner)}) command="$first $second" ;;
  esac
  if [ "$COMP_CWORD" -eq 2 ]; then
    case "$first" in
{chr(10).join(f"    {group}) _ad_words={shlex.quote(' '.join(words))} ;;" for group, words in inner.items())}
    esac
    if [ -n "$_ad_words" ]; then
      COMPREPLY=( $(compgen -W "$_ad_words --help" -- "$current") )
      return
    fi
  fi
  case "$command" in
    {(chr(10) + "    ").join(after_command)}
  esac
  case "$command $before" in
{values}
    *) case "$current" in -*) _ad_words="$options" ;; esac ;;
  esac
  COMPREPLY=( $(compgen -W "$_ad_words" -- "$current") )
}}
complete -o default -F _attn_doctor attn-doctor
"""


def _set(value: Value) -> str:
    """Offers the words of the value; where there are none the shell offers files."""
    words = f"_ad_words={shlex.quote(' '.join(value.words))}"
    return f'{words}; case "$current" in -*) _ad_words="$options" ;; esac' if value.may_lack else words


def _fish(commands: tuple[Completed, ...]) -> str:
    """A line for each option."""
    lines = ["complete -c attn-doctor -e"]
    groups = dict.fromkeys(one.words[0] for one in commands)
    none_yet = "not __fish_seen_subcommand_from " + " ".join(groups)
    for name in groups:
        lines.append(f"complete -c attn-doctor -n '{none_yet}' -f -a {name} -d {_quoted(COMMANDS[name].summary)}")
    for one in commands:
        here = f"__fish_seen_subcommand_from {one.words[0]}"
        if len(one.words) > 1:
            others = " ".join(each.words[1] for each in commands if each.words[0] == one.words[0])
            lines.append(
                f"complete -c attn-doctor -n '{here}; and not __fish_seen_subcommand_from {others}' "
                f"-f -a {one.words[1]} -d {_quoted(one.summary)}"
            )
            here += f"; and __fish_seen_subcommand_from {one.words[1]}"
        for flag, (value, about) in one.options.items():
            if value is None:
                takes = ""
            elif value.files:
                takes = " -r"
            else:
                takes = f" {'-f' if value.may_lack else '-x'} -a {_quoted(' '.join(value.words))}"
            if value is not None and value.may_lack:
                # Fish offers such values behind `=` alone, unless they are words that may come next.
                follows = f"{here}; and __fish_prev_arg_in {flag}"
                lines.append(f"complete -c attn-doctor -n '{follows}' -f -a {_quoted(' '.join(value.words))}")
            lines.append(f"complete -c attn-doctor -n '{here}' -l {flag[2:]}{takes} -d {_quoted(about)}")
        if one.argument.words:
            lines.append(f"complete -c attn-doctor -n '{here}' -a {_quoted(' '.join(one.argument.words))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """In fish's single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
