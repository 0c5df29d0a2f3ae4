"""`set-config`: sets one key of a training configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.treatments import PlannedTreatment
from attn_doctor.model.facts import FactSet
from attn_doctor.model.remedies import SetConfig

if TYPE_CHECKING:
    from attn_doctor.fix.plan_builder import Chosen, PlanBuilder

_ATTENTION_KEYS = ("flash_attn", "attn_implementation")


class _SetConfig(PlannedTreatment[SetConfig]):
    order = 10

    def described(self, action: SetConfig) -> Sequence[str]:
        return (f"Sets `{action.key}: {action.value}` in the configuration.",)

    def commands(self, action: SetConfig, facts: FactSet, bound: Mapping[str, str]) -> tuple[str, ...]:
        return (_line(action, facts, bound.get("config")),)

    def plan(self, builder: PlanBuilder, chosen: Sequence[Chosen]) -> None:
        from attn_doctor.fix.allowed import check_file
        from attn_doctor.fix.edits import config
        from attn_doctor.fix.plan_builder import cured, subjects
        from attn_doctor.probe.configs.files import place_of

        wanted: dict[str, dict[int | None, dict[str, str]]] = {}
        by: dict[str, list[Chosen]] = {}
        for one in chosen:
            keys = {action.key: action.value for action in one.actions(SetConfig)}
            for subject in subjects(one.finding) or ("",):
                name, line = place_of(subject)
                file = os.path.realpath(name) if name else ""
                there = wanted.setdefault(file, {}).setdefault(line, {})
                # All keys or none: setting half of them would not fix the finding.
                clash = next((key for key, value in keys.items() if there.get(key, value) != value), None)
                if clash is not None:
                    builder.leave(one, f"another fix wants {clash} to be {there[clash]}")
                    continue
                there.update(keys)
                by.setdefault(file, [])
                if one not in by[file]:
                    by[file].append(one)
        for file, cures in by.items():
            try:
                path = check_file(file, configs=builder.configs, roots=())
                _check_cache(path)
                edit = config.planned(file, path.read_bytes(), {}, wanted[file])
                if edit is None:
                    raise Refused("the file says so already; something else decides")
            except (Refused, OSError) as error:
                reason = f"{file}: {error.strerror if isinstance(error, OSError) else error}"
                for one in cures:
                    builder.leave(one, reason)
                continue
            named = tuple(cured(one, tuple(s for s in one.finding.subjects if _names(s, file))) for one in cures)
            builder.add(edit, cures, named)


def _line(action: SetConfig, facts: FactSet, subject: str | None) -> str:
    """A setting as its file spells it, with the place."""
    about = "attention" if action.key in _ATTENTION_KEYS else "precision"
    place = facts.text(f"config.{subject}.{about}_place") if subject else None
    if subject and facts.text(f"config.{subject}.framework") == "deepspeed":
        return f'"{action.key}": {{"enabled": {action.value}}}' + (f"    in {place}" if place else "")
    if subject and subject.endswith(".json"):
        plain = action.value in ("true", "false", "null") or action.value.replace(".", "", 1).isdigit()
        value = action.value if plain else json.dumps(action.value)
        return f'"{action.key}": {value}' + (f"    in {place}" if place else "")
    return f"{action.key}: {action.value}" + (f"    # in {place}" if place else "")


def _check_cache(path: Path) -> None:
    """Raises Refused for a blob of the Hugging Face cache: its name is a hash of its content, and every snapshot links
    to it.
    """
    if path.parent.name == "blobs" and (path.parent.parent / "snapshots").is_dir():
        raise Refused("it is in the Hugging Face cache: save the model in a folder of yours, and edit it there")


def _names(subject: str, file: str) -> bool:
    from attn_doctor.probe.configs.files import place_of

    return os.path.realpath(place_of(subject.partition(" ")[2])[0]) == file


TREATMENT = _SetConfig()
