"""Training configurations named with --config: which attention and which precision a run will get.

Facts only: files are read in config_files.py, whose they are and what they say is told in config_kinds.py, what
contradicts what in config_conflicts.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact
from attn_doctor.probe.config_conflicts import Conflict, Named, conflicts
from attn_doctor.probe.config_files import HINT, Setting, read, text, yes
from attn_doctor.probe.config_kinds import WORDS, kind_of, said
from attn_doctor.probe.config_llamafactory import from_web_ui
from attn_doctor.probe.noting import Notes


def probe(files: tuple[Path, ...]) -> tuple[Fact, ...]:
    """Facts of each file.

    Raises BadInput for one that is missing, unreadable or no configuration.
    """
    notes = Notes()
    notes.known("listed.config", len(files), "--config")
    named = []
    for file in files:
        part = f"reading of the configuration {file}"
        one = faults.survive(part, partial(_one, notes, file), partial(_unread, notes, file))
        if one is not None:
            named.append(one)
    every = faults.survive(
        "comparing of configurations",
        lambda: conflicts(named),
        partial(_uncompared, notes, named),
    )
    for one in named if every is not None else ():
        _note_conflicts(notes, one.file, [conflict for conflict in every or () if conflict.file == one.file])
    return notes.facts()


def _one(notes: Notes, file: Path) -> Named:
    settings = read(file)
    found = kind_of(settings)
    if found is None:
        raise BadInput("the file is no configuration that attn-doctor knows", about=f"--config {file}", hint=HINT)
    kind, because = found
    if kind == "llamafactory":
        settings = from_web_ui(settings)
    _note(notes, file, kind, because, settings)
    return Named(file=file, kind=kind, settings=settings)


def _unread(notes: Notes, file: Path, reason: str) -> None:
    notes.unknown(f"config.{file}.framework", f"read {file}", reason)


def _uncompared(notes: Notes, named: list[Named], reason: str) -> None:
    for one in named:
        for attribute in ("precision_conflicts", "precision_conflict", "both_halves", "precision_wanted"):
            notes.unknown(f"config.{one.file}.{attribute}", "compared the files named with --config", reason)


def _note(notes: Notes, file: Path, kind: str, because: tuple[str, ...], settings: dict[str, Setting]) -> None:
    own = f"config.{file}."
    how = f"read {file} as {WORDS[kind]}'s"
    keys = f"{how}: it has {', '.join(because[:3])}"
    what = said(kind, settings)
    notes.known(own + "framework", kind, keys)
    model = text(settings, "model_name_or_path") or text(settings, "base_model") or text(settings, "_name_or_path")
    notes.known_or_absent(own + "model", model, how)
    notes.known_or_absent(own + "stage", text(settings, "stage"), how)
    notes.known_or_absent(own + "attention", what.attention, how, "no key asks for an attention")
    line = what.attention_line
    notes.known_or_absent(own + "attention_line", line, how)
    notes.known(own + "attention_place", f"{file}:{line}" if line else str(file), how)
    rules = f"{how}; {WORDS[kind]}'s rules"
    notes.known_or_absent(own + "effective_attention", what.effective_attention, rules)
    notes.known_or_absent(own + "half_precision", what.half, how)
    line = what.precision_line
    notes.known(own + "precision_place", f"{file}:{line}" if line else str(file), how)
    notes.known_or_absent(own + "trains", what.trains, how)
    notes.known(own + "packs", bool(yes(settings, "sample_packing") or yes(settings, "packing")), how)


def _note_conflicts(notes: Notes, file: Path, found: list[Conflict]) -> None:
    own = f"config.{file}."
    how = "compared the files named with --config"
    notes.known_or_absent(own + "precision_conflicts", tuple(dict.fromkeys(one.rule for one in found)), how)
    notes.known_or_absent(own + "precision_conflict", "; ".join(one.words for one in found) or None, how)
    notes.known_or_absent(own + "both_halves", next((one.halves for one in found if one.halves), None), how)
    wanted = {one.wanted for one in found if one.wanted}
    notes.known_or_absent(own + "precision_wanted", wanted.pop() if len(wanted) == 1 else None, how)
