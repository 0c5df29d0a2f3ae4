"""Precision keys that contradict each other, inside one file and between files named together.

Files on one command line are taken to belong to one run, unless a trainer's file names another DeepSpeed file itself.
Each rule follows the framework's own behaviour.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.probe.configs.files import yes
from attn_doctor.probe.configs.frameworks import TRAINERS, Settings, attention_settings, enabled
from attn_doctor.quick_dataclasses import dataclass

#: `bf16` and `fp16` in one file. transformers, LLaMA-Factory and DeepSpeed refuse both at once:
#: https://github.com/huggingface/transformers/blob/main/src/transformers/training_args.py
#: https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py
BOTH = "both halves"
#: https://github.com/huggingface/transformers/blob/main/src/transformers/integrations/deepspeed.py
TRAINER = "DeepSpeed against the trainer"
#: https://github.com/huggingface/accelerate/blob/main/src/accelerate/utils/dataclasses.py
LAUNCHER = "DeepSpeed against accelerate"
#: The trainer's own bf16 or fp16 takes precedence over accelerate's file.
OVERRULED = "accelerate against the trainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One of the files named together."""

    file: Path
    kind: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One contradiction, reported for the file in which it is best fixed."""

    file: Path
    rule: str
    words: str
    wanted: str | None = None
    """The precision in the other file."""
    halves: str | None = None
    """The precisions switched on at once in one file."""


def conflicts(every: Iterable[Named]) -> tuple[Conflict, ...]:
    """Every contradiction, in the order of the files."""
    named = tuple(every)
    trainers = [one for one in named if one.kind in TRAINERS]
    launchers = [one for one in named if one.kind == "accelerate"]
    found = []
    for one in named:
        if one.kind in (*TRAINERS, "deepspeed"):
            found += _both(one)
        if one.kind == "deepspeed":
            against = [conflict for other in trainers if _uses(other, one) for conflict in _trainer(one, other)]
            found += against or [conflict for other in launchers for conflict in _launcher(one, other)]
        if one.kind == "accelerate":
            found += [conflict for other in trainers for conflict in _overruled(one, other)]
    return tuple(found)


def _both(one: Named) -> list[Conflict]:
    on = [half for half in ("bf16", "fp16", "pure_bf16") if _asked(one, half)]
    if len(on) < 2:
        return []
    halves = " and ".join(on)
    return [Conflict(file=one.file, rule=BOTH, words=f"{halves} are switched on at once", halves=halves)]


def _asked(one: Named, half: str) -> bool:
    if one.kind == "deepspeed":
        return half != "pure_bf16" and str(enabled(one.settings, half)).lower() == "true"
    if half == "pure_bf16" and one.kind != "llamafactory":
        return False
    return bool(yes(dict(one.settings), half))


def _uses(trainer: Named, deepspeed: Named) -> bool:
    setting = trainer.settings.get("deepspeed")
    if setting is None or not isinstance(setting.value, str) or not setting.value:
        return True
    path = Path(setting.value)
    places = (path, trainer.file.parent / path)
    same = any(os.path.realpath(place) == os.path.realpath(deepspeed.file) for place in places)
    return same or (not any(place.exists() for place in places) and path.name == deepspeed.file.name)


def _trainer(deepspeed: Named, trainer: Named) -> list[Conflict]:
    """transformers compares as Python does: the text "true" is not true."""
    half = attention_settings(trainer.kind, trainer.settings).half
    if half == "auto" or _both(trainer):
        return []
    words = []
    for name in ("bf16", "fp16"):
        value = enabled(deepspeed.settings, name)
        mine = bool(yes(dict(trainer.settings), name)) or bool(yes(dict(trainer.settings), f"{name}_full_eval"))
        if value is not None and value != "auto" and value is not mine:
            words.append(f"{name}.enabled is {_json(value)}, and {name} is {_json(mine)} in {trainer.file.name}")
    return [Conflict(file=deepspeed.file, rule=TRAINER, words="; ".join(words), wanted=half)] if words else []


def _launcher(deepspeed: Named, launcher: Named) -> list[Conflict]:
    wanted = attention_settings("accelerate", launcher.settings).half
    if wanted not in ("bf16", "fp16", "fp8"):
        return []
    other = "bf16" if wanted == "fp16" else "fp16"
    if str(enabled(deepspeed.settings, other)).lower() != "true":
        return []
    words = f"{other}.enabled is true, and mixed_precision is {wanted} in {launcher.file.name}"
    return [Conflict(file=deepspeed.file, rule=LAUNCHER, words=words, wanted=wanted)]


def _overruled(launcher: Named, trainer: Named) -> list[Conflict]:
    here = attention_settings("accelerate", launcher.settings).half
    wanted = next((half for half in ("bf16", "fp16") if yes(dict(trainer.settings), half)), None)
    if wanted is None or here == wanted or here not in ("bf16", "fp16", "none") or _both(trainer):
        return []
    words = f"mixed_precision is {'no' if here == 'none' else here}, and {wanted} is true in {trainer.file.name}"
    return [Conflict(file=launcher.file, rule=OVERRULED, words=words, wanted=wanted)]


def _json(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
