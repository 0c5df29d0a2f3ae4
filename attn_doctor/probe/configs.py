"""Training configurations named with --config: which attention and which precision a run will get.

Read today: LLaMA-Factory's YAML and JSON files, its saved web-UI arguments, and shell scripts that call it.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import Fact
from attn_doctor.probe.noting import Notes

_HINT = "Name a LLaMA-Factory YAML or JSON file, or a shell script that calls llamafactory-cli."
_MOST_BYTES = 4_000_000
_HALF = ("bf16", "fp16", "pure_bf16")
#: Keys that only LLaMA-Factory's argument files have; two of them make a file one.
_OWN_KEYS = frozenset(
    {"stage", "finetuning_type", "flash_attn", "template", "dataset", "cutoff_len", "lora_target", "dataset_dir",
     "model_name_or_path", "do_train", "do_predict", "overwrite_cache", "train.stage", "top.finetuning_type",
     "top.booster", "top.model_name", "train.compute_type"}
)  # fmt: skip

_PAIR = re.compile(r"(?:--)?([A-Za-z_][\w.]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key as it stands in the file."""

    value: Any
    line: int | None


def probe(files: tuple[Path, ...]) -> tuple[Fact, ...]:
    """Facts of each file.

    Raises BadInput for one that is missing, unreadable or no configuration.
    """
    notes = Notes()
    notes.known("listed.config", len(files), "--config")
    for file in files:
        _note(notes, file)
    return notes.facts()


def _note(notes: Notes, file: Path) -> None:
    own = f"config.{file}."
    how = f"read {file}"
    settings = read(file)
    if len(_OWN_KEYS & settings.keys()) < 2:
        raise BadInput(
            "the file is no configuration that attn-doctor knows",
            about=f"--config {file}",
            hint=_HINT,
        )
    settings = _from_web_ui(settings)
    notes.known(own + "framework", "llamafactory", how)
    notes.known_or_absent(own + "model", _text(settings, "model_name_or_path"), how)
    notes.known_or_absent(own + "stage", _text(settings, "stage"), how)
    asked = settings.get("flash_attn")
    attention = _word(asked.value) if asked else None
    notes.known_or_absent(own + "attention", attention, how, "the key flash_attn is not set")
    line = asked.line if asked else None
    notes.known_or_absent(own + "attention_line", line, how)
    notes.known(own + "attention_place", f"{file}:{line}" if line else str(file), how)
    notes.known(own + "effective_attention", _effective(settings, attention or "auto"), f"{how}; LLaMA-Factory's rules")
    notes.known(own + "half_precision", _half(settings), how)
    notes.known(own + "trains", _yes(settings, "do_train") is not False and not _yes(settings, "do_predict"), how)


def read(file: Path) -> dict[str, Setting]:
    """The keys of a configuration with their lines; of a key that stands twice, the one that counts.

    Raises BadInput.
    """
    about = f"--config {file}"
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadInput("the configuration is too large", about=about, hint=_HINT)
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"the configuration cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except UnicodeDecodeError:
        raise BadInput("the configuration is not UTF-8 text", about=about, hint=_HINT) from None
    if file.suffix == ".json":
        return _json(text, about)
    if file.suffix in (".sh", ".bash", ".txt", ".slurm", ".sbatch") or text.startswith("#!"):
        return _shell(text)
    return _yaml(text, about)


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
        raise BadInput(f"the configuration is not YAML: {error.problem}{where}", about=about, hint=_HINT) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"the configuration is not YAML: {type(error).__name__}", about=about, hint=_HINT) from None
    if not isinstance(loaded, CommentedMap) or node is None:
        raise BadInput("the configuration holds no keys", about=about, hint=_HINT)
    settings = {}
    for key, value in node.value:
        settings[str(key.value)] = Setting(value=_yaml_value(value), line=key.start_mark.line + 1)
    return settings


def _yaml_value(node: Any) -> Any:
    if not isinstance(node.value, str):
        return [_yaml_value(item) for item in node.value] if node.id == "sequence" else None
    if node.tag.endswith(":null"):
        return None
    if node.tag.endswith(":bool"):
        return node.value.lower() in ("true", "yes", "on", "y")
    return node.value


def _json(text: str, about: str) -> dict[str, Setting]:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the configuration is not JSON: {error}", about=about, hint=_HINT) from None
    if not isinstance(loaded, dict):
        raise BadInput("the configuration holds no keys", about=about, hint=_HINT)
    return {key: Setting(value=value, line=_json_line(text, key)) for key, value in loaded.items()}


def _json_line(text: str, key: str) -> int | None:
    places = list(re.finditer(re.escape(json.dumps(key)) + r"\s*:", text))
    return text.count("\n", 0, places[-1].start()) + 1 if places else None


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


def _from_web_ui(settings: dict[str, Setting]) -> dict[str, Setting]:
    """The web UI saves its fields as `top.booster`, `train.compute_type`; these are the arguments it makes of them.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/webui/runner.py
    """
    if not any(key.startswith("top.") for key in settings):
        return settings
    made = {key.partition(".")[2]: setting for key, setting in settings.items() if key.startswith("train.")}
    booster = settings.get("top.booster")
    if booster is not None:
        value = "fa2" if booster.value == "flashattn2" else "auto"
        made["flash_attn"] = Setting(value=value, line=booster.line)
    compute = made.pop("compute_type", None)
    if compute is not None:
        for name in _HALF:
            made[name] = Setting(value=compute.value == name, line=compute.line)
    if "top.model_path" in settings:
        made["model_name_or_path"] = settings["top.model_path"]
    made["do_train"] = Setting(value=True, line=None)
    return made


def _effective(settings: dict[str, Setting], attention: str) -> str:
    """What LLaMA-Factory makes of `flash_attn`: `auto` leaves it to transformers, but gemma 2 turns it into fa2.

    https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/model/model_utils/attention.py
    """
    if attention == "auto" and _is_gemma2(_text(settings, "model_name_or_path")):
        return "fa2"
    return attention


def _is_gemma2(model: str | None) -> bool:
    if not model:
        return False
    config = Path(model) / "config.json"
    try:
        kind = json.loads(config.read_bytes()).get("model_type")
    except (OSError, ValueError, AttributeError):
        kind = None
    return kind == "gemma2" if kind else re.search(r"gemma-?2-", model.lower()) is not None


def _half(settings: dict[str, Setting]) -> str:
    for name in _HALF:
        if _yes(settings, name):
            return name
    if _yes(settings, "do_predict") or _yes(settings, "do_eval") or _yes(settings, "do_train") is False:
        # Without autocast the dtype is infer_dtype's, and `auto` is what the model's own files say.
        infer = _word(settings["infer_dtype"].value) if "infer_dtype" in settings else "auto"
        return {"auto": "checkpoint", "bfloat16": "bf16", "float16": "fp16", "float32": "none"}.get(infer, "checkpoint")
    return "none"


def _yes(settings: dict[str, Setting], key: str) -> bool | None:
    setting = settings.get(key)
    if setting is None:
        return None
    if isinstance(setting.value, bool):
        return setting.value
    return str(setting.value).strip().lower() in ("true", "yes", "on", "1", "y")


def _text(settings: dict[str, Setting], key: str) -> str | None:
    setting = settings.get(key)
    return setting.value if setting is not None and isinstance(setting.value, str) else None


def _word(value: Any) -> str:
    # LLaMA-Factory up to 0.8.2 spelled it `off`, which YAML 1.1 reads as False.
    return "off" if value is False else str(value).strip().lower()
