"""Configuration files as settings: `key: value` with its line, whatever the form. Sections become dotted keys.

YAML as PyYAML reads it (1.1), JSON, and the arguments of a LLaMA-Factory call in a shell script.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import read_input

HINT = (
    "Name a configuration of LLaMA-Factory, axolotl, accelerate, DeepSpeed or a model (config.json), or a shell script "
    "that calls llamafactory-cli."
)
_MOST_BYTES = 4_000_000

#: How deep sections are looked into.
_DEPTH = 2
_PAIR = re.compile(r"(?:--)?([A-Za-z_][\w.]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key as it stands in the file."""

    value: Any
    line: int | None


def read(file: Path) -> dict[str, Setting]:
    """The keys of a configuration with their lines; of a key that stands twice, the one that counts.

    Raises BadInput.
    """
    about = f"--config {file}"
    try:
        text = read_input(file, most=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"the configuration cannot be read: {error.strerror}", about=about, hint=HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the configuration is not UTF-8 text", about=about, hint=HINT) from None
    form = form_of(file.name, text)
    if form == "json":
        return _json(text, about)
    return _shell(text) if form == "shell" else _yaml(text, about)


def form_of(name: str, text: str) -> str:
    """json, shell or yaml: by the file's name, else by what it starts with. DeepSpeed's files bear any name."""
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

    # LLaMA-Factory reads with PyYAML, which speaks YAML 1.1: `off` is False, `on` is True. Of a key that stands
    # twice it takes the last; ruamel's loader keeps the first, so the parser's own nodes are walked instead.
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
        # Lists of lists of lists, each an alias of one that is longer, would fill the memory.
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
        # Of a key that stands twice the last one counts; inside a section the first one behind its name is its own.
        place = None if not places else start + places[-1 if depth == 0 else 0].start()
        line = None if place is None else text.count("\n", 0, place) + 1
        yield above + key, Setting(value=value, line=line)
        if isinstance(value, dict) and depth < _DEPTH:
            yield from _members(text, value, f"{above}{key}.", place or start, depth=depth + 1)


def _shell(text: str) -> dict[str, Setting]:
    """`--key value`, `--key=value` and `key=value` of the llamafactory command, wherever it stands in the script."""
    settings: dict[str, Setting] = {}
    for line, command in _commands(text):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        start = next((i for i, word in enumerate(words) if re.search(r"llamafactory|src/train", word)), None)
        if start is None:
            continue
        rest = words[start + 1 :]
        for number, word in enumerate(rest):
            match = _PAIR.fullmatch(word)
            following = rest[number + 1] if number + 1 < len(rest) else "--"
            if match:
                settings[match[1]] = _shell_setting(match[2], match[1], text, line)
            elif word.startswith("--"):
                value = True if following.startswith("--") or _PAIR.fullmatch(following) else following
                settings[word[2:]] = _shell_setting(value, word[2:], text, line)
    return settings


def _shell_setting(value: Any, key: str, text: str, line: int) -> Setting:
    lines = text.splitlines()
    for number in range(line - 1, len(lines)):
        if re.search(rf"(?<![\w]){re.escape(key)}(?![\w])", lines[number].split("#", 1)[0]):
            return Setting(value=value, line=number + 1)
    return Setting(value=value, line=line)


def _commands(text: str) -> list[tuple[int, str]]:
    """(first line, command) with continued lines joined."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    first = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if not parts:
            first = number
        if line.rstrip().endswith("\\"):
            parts.append(line.rstrip()[:-1])
            continue
        found.append((first, " ".join([*parts, line])))
        parts = []
    if parts:
        found.append((first, " ".join(parts)))
    return found


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
