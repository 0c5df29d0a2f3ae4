"""Facts from the trials of attention kernels: each kind of failure once, and each GPU's speed relative to its
siblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attn_doctor.model import kernel_words
from attn_doctor.model.facts import Fact
from attn_doctor.model.kernels import KernelTrials, TestedGpu, Trial
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.kernels.gpu_during_trials import note_busy, note_state
from attn_doctor.probe.kernels.known_kernels import WHOLE

_HOW = "trials on the GPU, held against float64 there (--kernels)"
_SPEED = "a matrix product and a copy on the GPU (--kernels)"


def facts(trials: KernelTrials) -> tuple[Fact, ...]:
    """Facts about failures and speeds."""
    notes = FactNotes()
    groups = trials.troubles
    if trials.gaps:
        notes.unknown("listed.cell", _HOW, trials.gaps)
    else:
        notes.known("listed.cell", len(groups), _HOW)
    for group in groups:
        _note_trouble(notes, group, trials)
    _note_head_dims(notes, trials)
    _note_speeds(notes, trials)
    return notes.facts()


def _note_trouble(notes: FactNotes, group: Sequence[Trial], trials: KernelTrials) -> None:
    first = group[0]
    own = f"cell.{_subject(first)}."
    notes.known(own + "outcome", first.trouble or "", _HOW)
    notes.known(own + "backend", first.backend, _HOW)
    notes.known(own + "title", trials.title(first.backend), _HOW)
    notes.known(own + "form", first.form, _HOW)
    notes.known_or_absent(own + "situation", first.situation or None, _HOW, "the usual one")
    notes.known(own + "condition", kernel_words.condition(group), _HOW)
    if first.gpu.isdigit():
        notes.known(own + "gpu", int(first.gpu), _HOW)
    else:
        notes.absent(own + "gpu", _HOW, "not on a GPU")
    notes.known(own + "trials", len(group), _HOW)
    notes.known(own + "everyday", _everyday(group), _HOW)
    notes.known(own + "error", kernel_words.trouble(group, trials), _HOW)
    chosen = tuple(dict.fromkeys(trial.chosen for trial in group if trial.chosen))
    notes.known_or_absent(own + "chosen", chosen, _HOW)
    notes.known_or_absent(own + "xids", kernel_words.xids_of(group, trials), _HOW)


def _subject(first: Trial) -> str:
    """What a group of failed trials is called, by its first."""
    what = f"head-dim-{first.form}" if first.refused_by_head_dim else first.form
    what += f"-{first.situation}" if first.situation else ""
    return f"{first.backend}-{what}-{(first.trouble or '').replace(' ', '-')}-gpu{first.gpu}"


def wrong_calls(trials: KernelTrials) -> list[dict[str, Any]]:
    """The forms of calls that came out wrong, each once for each group of failed trials, with the group's name."""
    found = []
    for group in trials.troubles:
        forms = {str(trial.call): trial for trial in group if trial.call is not None}
        for trial in forms.values():
            assert trial.call is not None
            found.append({**trial.call, "trial": _subject(group[0]), "situation": trial.situation})
    return found


def _everyday(group: Sequence[Trial]) -> bool:
    """True when ordinary training with this backend makes such a call."""
    return any(trial.ordinary and (trial.backend in WHOLE or ":" in trial.backend) for trial in group)


def _note_head_dims(notes: FactNotes, trials: KernelTrials) -> None:
    """Adds the calls that a kernel refused because of their head dimension, as unsupported attention calls."""
    for trial in trials.cells:
        if not trial.refused_by_head_dim:
            continue
        own = f"attention.{trial.backend}-head-dim-{trial.head_dim}."
        notes.known(own + "trial", f"{trial.backend}-head-dim", _HOW)
        notes.known(own + "name", trials.title(trial.backend), _HOW)
        notes.known(own + "head_dim", trial.head_dim, _HOW)
        notes.known(own + "broken", (f"not met: the head dim is one that it takes ({trial.reason})",), _HOW)
        notes.known(own + "error", trial.reason or "", _HOW)


def _note_speeds(notes: FactNotes, trials: KernelTrials) -> None:
    measured = [gpu for gpu in trials.gpus if gpu.ceilings]
    if not trials.ran:
        notes.unknown("listed.speed", _SPEED, f"no kernel was run: {trials.why_not}")
        return
    notes.known("listed.speed", len(measured), _SPEED)
    for gpu in measured:
        own = f"speed.{gpu.index}."
        notes.known(own + "index", gpu.index, _SPEED)
        notes.known_or_absent(own + "gpu", gpu.name, _SPEED)
        notes.known_or_absent(own + "matmul_tflops", gpu.half_matmul, _SPEED)
        notes.known_or_absent(own + "copy_gbs", gpu.copy, _SPEED)
        share, beside = of_fastest_sibling(gpu, measured)
        notes.known_or_absent(own + "of_fastest_sibling", share, _SPEED, "no other GPU of its kind is here")
        notes.known_or_absent(own + "slower_than", beside, _SPEED, "no other GPU of its kind is here")
        note_state(notes, own, gpu, trials)
        note_busy(notes, own, gpu)


def of_fastest_sibling(gpu: TestedGpu, measured: Sequence[TestedGpu]) -> tuple[float | None, str | None]:
    """Percentage of the fastest GPU of its model on the node, the lower of two measurements; and the name of that
    GPU.
    """
    kind = (gpu.name, gpu.compute_capability)
    siblings = [one for one in measured if (one.name, one.compute_capability) == kind]
    if len(siblings) < 2:
        return None, None
    shares: list[tuple[float, str]] = []
    for what in ("matrix product", "copy"):
        reached = {one.index: one.copy if what == "copy" else one.half_matmul for one in siblings}
        values = {index: value for index, value in reached.items() if value}
        if gpu.index in values:
            best = max(values, key=lambda index: values[index])
            shares.append((round(100.0 * values[gpu.index] / values[best], 1), f"GPU {best} ({what})"))
    return min(shares) if shares else (None, None)
