"""Reads configuration files as settings: `key: value` with its line, in any form. Sections become dotted keys.

YAML as PyYAML reads it (1.1), JSON, and the arguments of a LLaMA-Factory call in a shell script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import read_input
from attn_doctor.probe.configs import shell_calls
from attn_doctor.quick_dataclasses import dataclass

HINT = (
    "Name a configuration of LLaMA-Factory, axolotl, accelerate, DeepSpeed or a model (config.json), or a shell script "
    "that calls llamafactory-cli."
)
_MOST_BYTES = 4_000_000

#: Depth up to which sections are read.
_DEPTH = 2
#: https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/launcher.py
_NO_TRAINING = frozenset({"api", "chat", "eval", "export", "webchat", "webui", "env", "version", "help"})
#: Keys that decide attention and precision: unknown for a call with arguments that only a shell can expand.
DECIDING = ("flash_attn", "bf16", "fp16", "pure_bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key in the file."""

    value: Any
    line: int | None
    told: bool = True
    """False when only a shell can determine the value."""


def read(file: Path, *, line: int | None = None) -> dict[str, Setting]:
    """The keys of a configuration with their lines; for a duplicate key, the one that counts.

    For a script: the keys of the call that begins on this line, or of all calls. Raises BadInput.
    """
    text, form = read_text(file)
    about = f"--config {file}"
    if form == "json":
        return _json(text, about)
    return _shell(text, line) if form == "shell" else _yaml(text, about)


def read_text(file: Path) -> tuple[str, str]:
    """The file's text, and its form: json, shell or yaml. Raises BadInput."""
    about = f"--config {file}"
    try:
        text = read_input(file, most=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"the configuration cannot be read: {error.strerror}", about=about, hint=HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the configuration is not UTF-8 text", about=about, hint=HINT) from None
    return text, form_of(file.name, text)


def subject_of(file: Path, line: int | None) -> str:
    """A configuration's name in facts: `train.yaml`; `run.sh:12` for one of several calls in a script."""
    return str(file) if line is None else f"{file}:{line}"


def place_of(subject: str) -> tuple[str, int | None]:
    """The file and the line in such a name."""
    path, colon, line = subject.rpartition(":")
    if colon and line.isdigit() and path and not Path(subject).exists():
        return path, int(line)
    return subject, None


def form_of(name: str, text: str) -> str:
    """json, shell or yaml: by the file's name, else by its beginning. DeepSpeed's files may have any name."""
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix == ".json":
        return "json"
    if suffix in (".sh", ".bash", ".txt", ".slurm", ".sbatch") or text.startswith("#!"):
        return "shell"
    if text.lstrip().startswith("{"):
        try:
            return "json" if isinstance(json.loads(text), dict) else "yaml"
        except (ValueError, RecursionError):
            return "yaml"
    return "yaml"


def _yaml(text: str, about: str) -> dict[str, Setting]:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    # LLaMA-Factory reads with PyYAML, which follows YAML 1.1: `off` is False, `on` is True. For a duplicate key it
    # takes the last value; ruamel's loader keeps the first, so the parser's own nodes are used instead.
    yaml = YAML(typ="rt")
    yaml.version = (1, 1)
    yaml.allow_duplicate_keys = True
    try:
        node = yaml.compose(text)
        loaded = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise BadInput(f"the configuration is not YAML: {error.problem}{where}", about=about, hint=HINT) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"the configuration is not YAML: {type(error).__name__}", about=about, hint=HINT) from None
    if not isinstance(loaded, CommentedMap) or node is None:
        raise BadInput("the configuration holds no keys", about=about, hint=HINT)
    settings: dict[str, Setting] = {}
    _gather(node, "", settings, depth=0)
    return settings


def _gather(node: Any, above: str, settings: dict[str, Setting], *, depth: int) -> None:
    for key, value in node.value:
        name = f"{above}{key.value}"
        settings[name] = Setting(value=_yaml_value(value), line=key.start_mark.line + 1)
        if value.id == "mapping" and depth < _DEPTH:
            _gather(value, f"{name}.", settings, depth=depth + 1)


def _yaml_value(node: Any, depth: int = 0) -> Any:
    if not isinstance(node.value, str):
        # Nested lists of aliases, each longer than the one before, would fill the memory.
        listed = node.id == "sequence" and depth < _DEPTH
        return [_yaml_value(item, depth + 1) for item in node.value] if listed else None
    if node.tag.endswith(":null"):
        return None
    if node.tag.endswith(":bool"):
        return node.value.lower() in ("true", "yes", "on", "y")
    return node.value


def _json(text: str, about: str) -> dict[str, Setting]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the configuration is not JSON: {error}", about=about, hint=HINT) from None
    if not isinstance(loaded, dict):
        raise BadInput("the configuration holds no keys", about=about, hint=HINT)
    return dict(_members(text, loaded, "", 0, depth=0))


def _members(text: str, table: dict[str, Any], above: str, start: int, *, depth: int) -> Iterator[tuple[str, Setting]]:
    for key, value in table.items():
        places = list(re.finditer(re.escape(json.dumps(key)) + r"\s*:", text[start:]))
        # For a duplicate key the last one counts; inside a section, the first one after the section's name belongs to
        # it.
        place = None if not places else start + places[-1 if depth == 0 else 0].start()
        line = None if place is None else text.count("\n", 0, place) + 1
        yield above + key, Setting(value=value, line=line)
        if isinstance(value, dict) and depth < _DEPTH:
            yield from _members(text, value, f"{above}{key}.", place or start, depth=depth + 1)


def _shell(text: str, line: int | None = None) -> dict[str, Setting]:
    """`--key value`, `--key=value` and `key=value` of the LLaMA-Factory call on this line, or of all calls."""
    known = shell_calls.variables(text)
    settings: dict[str, Setting] = {}
    for call in shell_calls.calls(text):
        if line is not None and call.line != line:
            continue
        inside, more = shell_calls.hidden(call, known)
        for key, given in inside.items():
            settings[key] = Setting(value=True if given is None else given, line=call.line)
        for key in DECIDING if more else ():
            settings.setdefault(key, Setting(value=None, line=call.line, told=False))
        if call.subcommand in _NO_TRAINING:
            settings["do_train"] = Setting(value=False, line=call.line)
        for one in call.arguments:
            value = shell_calls.settled(one, call, known)
            switch = one.known and one.value is None
            settings[one.key] = Setting(
                value=True if switch else value, line=one.line, told=switch or value is not None
            )
    return settings


def yes(settings: dict[str, Setting], key: str) -> bool | None:
    setting = settings.get(key)
    if setting is None:
        return None
    if isinstance(setting.value, bool):
        return setting.value
    return str(setting.value).strip().lower() in ("true", "yes", "on", "1", "y")


def text(settings: dict[str, Setting], key: str) -> str | None:
    setting = settings.get(key)
    return setting.value if setting is not None and isinstance(setting.value, str) else None


def word(value: Any) -> str:
    # LLaMA-Factory up to 0.8.2 spelled it `off`, which YAML 1.1 reads as False.
    return "off" if value is False else str(value).strip().lower()
