"""Facts about the speed of correct kernels, as a share of a matrix product, compared with the same kernel elsewhere.

The shares reached elsewhere (recipes/kernel_shares.toml) are passed in; a kernel without an entry is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_doctor.model import kernel_words
from attn_doctor.model.facts import Fact
from attn_doctor.model.kernels import RIGHT, KernelTrials, TestedGpu, Trial
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.kernels.gpu_during_trials import note_busy

_HOW = "a large call and a matrix product beside it, timed on the GPU (--kernels)"
_WAYS = {"train": "forward and backward", "forward": "forward"}


def facts(trials: KernelTrials, shares: Sequence[Mapping[str, Any]]) -> tuple[Fact, ...]:
    """One fact for each kernel that was correct and measured, and has a share from elsewhere on such a GPU."""
    notes = FactNotes()
    if not trials.ran:
        notes.unknown("listed.share", _HOW, f"no kernel was run: {trials.why_not}")
        return notes.facts()
    gpus = {gpu.index: gpu for gpu in trials.gpus}
    number = 0
    for trial in trials.cells:
        gpu = gpus.get(trial.gpu)
        known = _elsewhere(trial, gpu, shares)
        if known is None or gpu is None or trial.share is None:
            continue
        number += 1
        own = f"share.{trial.backend}-{trial.direction}-gpu{trial.gpu}."
        reached = 100.0 * trial.share.of_matmul
        notes.known(own + "of_lowest_elsewhere", round(reached / known["lowest"], 1), _HOW)
        notes.known(own + "of_matmul", round(reached, 1), _HOW)
        notes.known(own + "title", trials.title(trial.backend), _HOW)
        notes.known(own + "gpu", trial.gpu, _HOW)
        notes.known(own + "way", _WAYS[trial.direction], _HOW)
        notes.known(own + "elsewhere", _range(known), f"{known['source']}, {known['measured']}, {known['runs']} runs")
        notes.known(own + "measured_on", f"{known['gpu']} with {known['stack']}", known["source"])
        note_busy(notes, own, gpu)
        notes.known(own + "state", kernel_words.state(gpu, trials), "NVML, around and while the kernels ran")
    notes.known("listed.share", number, _HOW)
    return notes.facts()


def _elsewhere(trial: Trial, gpu: TestedGpu | None, shares: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if gpu is None or trial.outcome != RIGHT or trial.share is None:
        return None
    wanted = (trial.backend, trial.dtype, trial.direction, gpu.compute_capability)
    found = [
        one for one in shares if (one["backend"], one["dtype"], one["direction"], one["compute_capability"]) == wanted
    ]
    # Of several GPUs of one compute capability the slowest is used: the finding is about much lower speeds.
    return min(found, key=lambda one: float(one["lowest"]), default=None)


def _range(known: Mapping[str, Any]) -> str:
    return f"{100 * known['lowest']:.1f} to {100 * known['highest']:.1f} %"
