"""Training configurations named with --config: which attention and which precision a run will use.

files.py reads the files, frameworks.py recognizes the framework and interprets the settings, conflicts.py finds
contradictions.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact, FactSet
from attn_doctor.probe.configs.conflicts import Conflict, Named, conflicts
from attn_doctor.probe.configs.files import HINT, Setting, read, text, yes
from attn_doctor.probe.configs.frameworks import WORDS, attention_settings, kind_of
from attn_doctor.probe.configs.llamafactory import from_web_ui, model_type_of
from attn_doctor.probe.configs.sources import Source, sources
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.quick_dataclasses import replace

#: Keys of a call that decide these facts; when only the shell knows their value, the facts are unknown.
_DECIDE = (
    (("flash_attn", "attn_implementation"), ("attention", "effective_attention")),
    (("bf16", "fp16", "pure_bf16"), ("half_precision",)),
)


def probe(files: tuple[Path, ...]) -> tuple[Fact, ...]:
    """Facts about each configuration (a file, or one call in a script), and about the files that a script names.

    Raises BadInput for a file that is missing, unreadable or not a configuration.
    """
    notes = FactNotes()
    named: list[Named] = []
    for file in files:
        part = f"reading of the configuration {file}"
        for source in faults.survive(part, partial(sources, file, files), partial(_unread, notes, file)):
            part = f"reading of the configuration {source.subject}"
            one = faults.survive(part, partial(_one, notes, source), partial(_unsourced, notes, source))
            named += [one] if one is not None else []
    every = faults.survive(
        "comparing of configurations",
        lambda: conflicts(named),
        partial(_uncompared, notes, named),
    )
    for one in named if every is not None else ():
        _note_conflicts(notes, one.file, [conflict for conflict in every or () if conflict.file == one.file])
    subjects = FactSet(notes.facts()).subjects("config")
    notes.known("listed.config", len(subjects), "--config")
    return notes.facts()


def _one(notes: FactNotes, source: Source) -> Named | None:
    if source.missing:
        notes.unknown(f"config.{source.subject}.framework", source.how, source.missing)
        return None
    settings = read(source.file, line=source.line)
    if source.under is not None:
        settings = {**{key: replace(one, line=None) for key, one in read(source.under).items()}, **settings}
    found = kind_of(settings)
    if found is None and source.calls:
        found = "llamafactory", (f"a call of LLaMA-Factory in line {source.line or source.calls}",)
    if found is None:
        raise BadInput(
            "the file is no configuration that attn-doctor knows",
            about=f"--config {source.file}" + (f", {source.how}" if source.how else ""),
            hint=HINT,
        )
    kind, because = found
    if kind == "llamafactory":
        settings = from_web_ui(settings)
    subject = Path(source.subject)
    _note(notes, source, kind, because, settings)
    return Named(file=subject, kind=kind, settings={key: one for key, one in settings.items() if one.told})


def _unread(notes: FactNotes, file: Path, reason: str) -> tuple[Source, ...]:
    notes.unknown(f"config.{file}.framework", f"read {file}", reason)
    return ()


def _unsourced(notes: FactNotes, source: Source, reason: str) -> None:
    notes.unknown(f"config.{source.subject}.framework", f"read {source.file}", reason)


def _uncompared(notes: FactNotes, named: list[Named], reason: str) -> None:
    for one in named:
        for attribute in ("precision_conflicts", "precision_conflict", "both_halves", "precision_wanted"):
            notes.unknown(f"config.{one.file}.{attribute}", "compared the files named with --config", reason)


def _note(notes: FactNotes, source: Source, kind: str, because: tuple[str, ...], settings: dict[str, Setting]) -> None:
    file, own = source.file, f"config.{source.subject}."
    how = f"read {source.subject} as {WORDS[kind]}'s" + (f" ({source.how})" if source.how else "")
    keys = f"{how}: it has {', '.join(because[:3])}"
    untold = {key: one.line for key, one in settings.items() if not one.told}
    settings = {key: one for key, one in settings.items() if one.told}
    what = attention_settings(kind, settings)
    whole = f"{file}:{source.calls}" if source.calls else str(file)
    notes.known(own + "framework", kind, keys)
    model = text(settings, "model_name_or_path") or text(settings, "base_model") or text(settings, "_name_or_path")
    notes.known_or_absent(own + "model", model, how)
    architecture = text(settings, "model_type") or (model_type_of(model) if model else None)
    notes.known_or_absent(own + "model_type", architecture, how, "neither it nor files of the model say so")
    notes.known_or_absent(own + "stage", text(settings, "stage"), how)
    notes.known_or_absent(own + "attention", what.attention, how, "no key asks for an attention")
    line = what.attention_line
    notes.known_or_absent(own + "attention_line", line, how)
    notes.known(own + "attention_place", f"{file}:{line}" if line else whole, how)
    rules = f"{how}; {WORDS[kind]}'s rules"
    notes.known_or_absent(own + "effective_attention", what.effective_attention, rules)
    notes.known_or_absent(own + "half_precision", what.half, how)
    line = what.precision_line
    notes.known(own + "precision_place", f"{file}:{line}" if line else whole, how)
    notes.known_or_absent(own + "trains", what.trains, how)
    notes.known(own + "packs", bool(yes(settings, "sample_packing") or yes(settings, "packing")), how)
    for keys_of, attributes in _DECIDE:
        settled = any(key in settings for key in keys_of)  # the last value counts, which may not be the written one
        line = next((untold[key] for key in keys_of if key in untold and not settled), None)
        if line is not None:  # unknown without running the shell, and reported so
            for attribute in attributes:
                notes.unknown(own + attribute, how, f"only the shell knows it: a variable in {file}:{line}")


def _note_conflicts(notes: FactNotes, file: Path, found: list[Conflict]) -> None:
    own = f"config.{file}."
    how = "compared the files named with --config"
    notes.known_or_absent(own + "precision_conflicts", tuple(dict.fromkeys(one.rule for one in found)), how)
    notes.known_or_absent(own + "precision_conflict", "; ".join(one.words for one in found) or None, how)
    notes.known_or_absent(own + "both_halves", next((one.halves for one in found if one.halves), None), how)
    wanted = {one.wanted for one in found if one.wanted}
    notes.known_or_absent(own + "precision_wanted", wanted.pop() if len(wanted) == 1 else None, how)
