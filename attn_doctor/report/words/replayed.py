"""The wording of a replay: a model's own calls, right or not, with time and memory by each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_doctor.model import kernels as model
from attn_doctor.model.dtypes import SHORT
from attn_doctor.model.kernels import KernelTrials, Trial
from attn_doctor.report.language import say

_NOTED = 1.1
"""Ratios below it are random variation."""


def is_one(trials: KernelTrials) -> bool:
    """True when a model's recorded calls were tried."""
    return any(trial.calls is not None for trial in trials.cells)


def summary(trials: KernelTrials, gpu: str) -> str:
    """`your model's calls: 3 of 3 right; SDPA flash 1.9x faster than what it uses`."""
    calls = _calls(trials, gpu)
    right = sum(_is_right(own) for own in calls.values())
    words = say("your model's calls: {right} of {calls} right", right=right, calls=len(calls))
    faster = _fastest(trials, list(calls.values()))
    return f"{words}; {faster}" if faster else words


def lines(trials: KernelTrials, gpu: str) -> Iterator[str]:
    """A line for each call: what it is, then each kernel's verdict, time and memory, the fastest first."""
    for own in _calls(trials, gpu).values():
        first = own[0]
        way = say("with gradients") if first.direction == "train" else say("without gradients")
        many = say("once") if first.calls == 1 else say("{calls} times", calls=first.calls)
        head = say(
            "{situation_words}, {many}, {dtype}, head dim {head_dim}, {way}",
            situation_words=first.situation_words,
            many=many,
            dtype=SHORT.get(first.dtype, first.dtype),
            head_dim=first.head_dim,
            way=way,
        )
        told = sorted(own, key=lambda one: one.speed.ms if one.speed is not None else float("inf"))
        yield f"{head}: {'; '.join(_told(one, trials) for one in told)}"


def _calls(trials: KernelTrials, gpu: str) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials.cells:
        if trial.calls is not None and trial.gpu == gpu and trial.outcome != model.NOT_OFFERED:
            found.setdefault(trial.situation or "", []).append(trial)
    return found


def _is_right(own: Sequence[Trial]) -> bool:
    """By the kernel that the model uses; where that is not known, by all of them."""
    asked = [trial for trial in own if trial.used] or own
    return all(trial.outcome == model.RIGHT for trial in asked)


def _told(trial: Trial, trials: KernelTrials) -> str:
    title = trials.title(trial.backend) + (f" ({trial.chosen})" if trial.chosen else "")
    words = f"{title} {trial.outcome}"
    if trial.speed is not None:
        words += say(", {ms:.3g} ms", ms=trial.speed.ms)
        memory = trial.speed.memory_bytes
        words += say(", {number:,.0f} MiB", number=memory / (1 << 20)) if memory is not None else ""
    return words + (say(", what it uses") if trial.used else "")


def _fastest(trials: KernelTrials, calls: Sequence[Sequence[Trial]]) -> str:
    """Which other kernel would take the least time for all calls that could be timed, and how much less."""
    totals: dict[str, float] = {}
    used = 0.0
    timed = [own for own in calls if any(one.used and one.speed is not None for one in own)]
    if not timed:
        return ""
    for own in timed:
        mine = next(one for one in own if one.used and one.speed is not None)
        assert mine.speed is not None
        used += mine.speed.ms * (mine.calls or 1)
    for name in trials.titles:
        each = [
            next((one for one in own if one.backend == name and not one.used and one.outcome == model.RIGHT), None)
            for own in timed
        ]
        times = [one.speed.ms * (one.calls or 1) for one in each if one is not None and one.speed is not None]
        if len(times) == len(timed):
            totals[name] = sum(times)
    if not totals:
        return ""
    best = min(totals, key=lambda name: totals[name])
    ratio = used / totals[best]
    if ratio < _NOTED:
        return say("nothing that was tried is faster than what it uses")
    return say("{title} {ratio:.1f}x faster than what it uses", title=trials.title(best), ratio=ratio)
