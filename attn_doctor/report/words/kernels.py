"""The wording of kernel trials for terminal and Markdown: lines, rows and cells of the table, in order.

Marks: `!` wrong, `✗` refused, crashed or hung, `✓` right (with the best share of this GPU's own matrix product), `–`
not offered by the kernel's contract, `·` offered and not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_doctor.model import kernel_words
from attn_doctor.model import kernels as model
from attn_doctor.model.compiled_kernels import COMPILES, Compilation
from attn_doctor.model.dtypes import SHORT
from attn_doctor.model.kernels import KernelTrials, Trial
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.report.language import say, to_say
from attn_doctor.report.words import replayed

WRONG, BROKEN, RIGHT, NOT_OFFERED, NOT_RUN = "!", "✗", "✓", "–", "·"
_MARKS = {
    model.RIGHT: RIGHT, model.WRONG: WRONG, model.NOT_OFFERED: NOT_OFFERED,
    model.REFUSED: BROKEN, model.CRASHED: BROKEN, model.HUNG: BROKEN,
}  # fmt: skip
HEADS = {
    "dense": "dense",
    "causal": "causal",
    "gqa": "gqa",
    "varlen": "varlen",
    "bool-mask": "bool",
    "half-mask": "half",
    "fp32-mask": "fp32",
    "window": "window",
    "softcap": "softcap",
}
"""Column heads, by form."""
LEGEND = to_say(
    "! wrong  ✗ refused, crashed or hung  ✓ right, at best this share of the GPU's own matrix product  "
    "– not offered  · not run"
)
_MOST_REASONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One square of the table."""

    mark: str
    share: float | None = None
    """Share of this GPU's own matrix product, for a correct and timed trial."""

    @property
    def words(self) -> str:
        return f"{self.mark} {self.share:.0%}" if self.share else self.mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One sort of trouble."""

    mark: str
    head: str
    """The kernel and its failure."""
    words: str
    """The exact condition, and how bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line below another: depth 0, 1, 2."""

    words: str
    depth: int = 0


def title(trials: KernelTrials) -> str:
    """`quick, seed 40716: 66 trials in 16 s`."""
    words = say("{mode}, seed {seed}", mode=trials.mode, seed=trials.seed)
    return words + (
        say(": {cells} trials in {words:.0f} s", cells=len(trials.cells), words=trials.seconds or 0.0)
        if trials.ran
        else ""
    )


def gpus(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    """One line for each GPU: its ceilings, and notes for reading its numbers."""
    for gpu in trials.gpus:
        ceilings = gpu.ceilings or {}
        words = []
        if ceilings:
            products = [f"{SHORT[k[7:]]} {v:.0f}" for k, v in ceilings.items() if k.startswith("matmul_")]
            words.append(
                say(
                    "matrix product {products} TFLOP/s, copy {ceilings:.0f} GB/s",
                    products=", ".join(products),
                    ceilings=ceilings["copy"],
                )
            )
        if gpu.busy:
            words.append(say("busy ({busy}): its times are not to be trusted", busy=gpu.busy))
        if gpu.stopped:
            words.append(say("stopped: {stopped}", stopped=gpu.stopped))
        if verbose:
            words.append(kernel_words.state(gpu, trials))
        elif gpu.heard.seen:
            words.append(say("reported {xids_of_gpu}", xids_of_gpu=kernel_words.xids_of_gpu(gpu, trials)))
        name = say("GPU {index} {words}", index=gpu.index, words=gpu.name or "").strip()
        yield f"{name}: {'; '.join(words)}" if words else name


def troubles(trials: KernelTrials) -> list[Trouble]:
    """Failures; wrong results before refusals."""
    several = len(trials.gpus) > 1
    found = []
    for group in _told_alike(trials):
        first = group[0]
        on = say("GPU {gpu}: ", gpu=first.gpu) if several else ""
        found.append(
            Trouble(
                mark=mark(first),
                head=f"{on}{trials.title(first.backend)} {first.trouble or ''}",
                words=f"{kernel_words.condition(group)}: {kernel_words.trouble(group, trials)}",
            )
        )
    return found


def _told_alike(trials: KernelTrials) -> list[list[Trial]]:
    """Merges groups that differ only in the form and have the same text, so that the condition stays exact."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for group in trials.troubles:
        first = group[0]
        met = frozenset((one.dtype, one.head_dim, one.direction, one.variant, one.situation) for one in group)
        told = kernel_words.trouble(group, trials)
        groups.setdefault((first.backend, first.gpu, first.trouble, told, met), []).extend(group)
    return list(groups.values())


def all_right(trials: KernelTrials) -> str:
    """The result when no trial failed; empty otherwise."""
    right = {trial.direction for trial in trials.cells if trial.outcome == model.RIGHT}
    if not right:
        return say("No trial came to a right result.")
    if trials.troubles:
        return ""
    return say(
        "Every kernel that was run was right{more}.", more=say(", forward and backward") if "train" in right else ""
    )


def alike(trials: KernelTrials) -> list[list[str]]:
    """GPUs with equal results in every trial: they share a table. A model's own calls have lines, and no table."""
    if replayed.is_one(trials):
        return []
    groups: dict[str, list[str]] = {}
    for gpu in trials.gpus:
        own = [trial for trial in trials.cells if trial.gpu == gpu.index]
        if own:
            keys = sorted((one.backend, one.dtype, one.form, one.direction, one.head_dim, mark(one)) for one in own)
            groups.setdefault(repr(keys), []).append(gpu.index)
    return list(groups.values())


def where(gpus_alike: Sequence[str]) -> str:
    """`GPU 0, 1`."""
    return f"GPU {', '.join(gpus_alike)}" if list(gpus_alike) != ["cpu"] else "CPU"


def rows(trials: KernelTrials, gpu: str) -> Iterator[tuple[str, list[Square]]]:
    """A row for each kernel and dtype that was tried: its name, and a square for each form of HEADS."""
    for backend, named in trials.titles.items():
        for dtype, short in SHORT.items():
            own = [one for one in trials.cells if (one.backend, one.dtype, one.gpu) == (backend, dtype, gpu)]
            if own:
                squares = [
                    _square([trial for trial in own if trial.form == form], trials, backend, dtype, form)
                    for form in HEADS
                ]
                yield f"{named} {short}", squares


def widest(trials: KernelTrials) -> int:
    """Characters of the longest name of a row that there can be."""
    return max(len(say("{named} fp32", named=named)) for named in trials.titles.values())


def below(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    """A model's own calls; the trials that were not run, and why."""
    if replayed.is_one(trials):
        several = len(trials.gpus) > 1
        for gpu in trials.gpus:
            yield (say("GPU {index}: ", index=gpu.index) if several else "") + replayed.summary(trials, gpu.index)
            yield from replayed.lines(trials, gpu.index)
    else:
        yield say(LEGEND)
    if trials.gaps:
        yield say("not run: {gaps}", gaps=trials.gaps)
    left = {name: count for name, count in trials.left_out.items() if count}
    if left:
        words = ", ".join(f"{trials.title(name)} {count}" for name, count in left.items())
        yield say("left out, since each two of their values were met by others or for time: {words}", words=words)
    states: dict[str, list[str]] = {}
    for one in trials.backends:
        if one.state != "runs":
            states.setdefault(one.state, []).append(one.title)
    for state, titles in states.items():
        yield f"{state}: {', '.join(titles)}"
    for group in trials.not_offered if verbose else ():
        yield say(
            "– {title}, {cells} combinations: {reason}",
            title=trials.title(group.backend),
            cells=group.cells,
            reason=group.reason,
        )
    if trials.not_offered and not verbose:
        yield say("what is not offered, and by which words of each kernel: -v")


def plan(trials: KernelTrials) -> Iterator[Line]:
    """The planned trials, when nothing ran."""
    yield Line(words=say("No kernel was run: {reason}.", reason=(trials.why_not or say("there is no GPU")).rstrip(".")))
    planned = trials.gpu_planned_for
    if trials.gpus:
        return
    if planned is None:
        yield Line(
            words=say("Name a GPU, for example --gpu h100, to see what would run on it and what its contracts refuse.")
        )
        return
    if not trials.backends:
        return  # it ended before there was a plan, which was reported
    capability = say("compute capability {compute_capability}", compute_capability=planned.compute_capability)
    on = planned.words if planned.words == capability else f"{planned.words} ({capability})"
    yield Line(words=say("On {on}, predicted and not run:", on=on))
    for one in trials.backends:
        would = [call for call in trials.would_run if call.backend == one.name]
        if one.state != "runs":
            yield Line(words=f"{one.title}: {one.state}", depth=1)
            continue
        forms = ", ".join(form for form in HEADS if any(call.form == form for call in would))
        dtypes = ", ".join(word for name, word in SHORT.items() if any(call.dtype == name for call in would))
        words = (
            say("would run {would} trials: {dtypes}; {forms}", would=len(would), dtypes=dtypes, forms=forms)
            if would
            else _nothing(trials, one.name)
        )
        yield Line(words=f"{one.title}: {words}", depth=1)
        reasons = [group for group in trials.not_offered if group.backend == one.name]
        for group in reasons[:_MOST_REASONS]:
            yield Line(words=say("– {cells} combinations: {reason}", cells=group.cells, reason=group.reason), depth=2)
        more = len(reasons) - _MOST_REASONS
        if more > 0:
            yield Line(words=say("– and {more} more reason{s} (--json)", more=more, s="s" if more > 1 else ""), depth=2)
    if trials.compiled is not None:
        yield from _compiled(trials.compiled, trials.budget)


def _compiled(compiled: Compilation, budget: float) -> Iterator[Line]:
    """Triton kernels that were compiled for the GPU that is not there."""
    gpu = compiled.gpu.words
    if not compiled.backends:
        yield Line(words=say("No kernel was compiled for {gpu}: {why_not}.", gpu=gpu, why_not=compiled.why_not))
        return
    looked_at = sum(one.looked_at for one in compiled.kernels)
    number = sum(one.outcome == COMPILES for one in compiled.kernels)
    yield Line(
        words=say(
            "compiled for {gpu}, not run: {words}", gpu=gpu, words=_of_kernels(number, looked_at) or say("nothing")
        )
    )
    for one in compiled.backends:
        words = _of_kernels(one.compile, one.kernels - one.not_reached) or say("nothing compiled")
        if one.nothing:
            words = say("nothing to compile: {nothing}", nothing=one.nothing)
        yield Line(words=f"{one.title}: {words}", depth=1)
        if one.error:
            yield Line(words=say("not all was seen: {error}", error=one.error), depth=2)
        if one.not_reached:
            yield Line(
                words=say(
                    "not reached within {budget:g} s: {not_reached} kernels", budget=budget, not_reached=one.not_reached
                ),
                depth=2,
            )
        for kernel in compiled.kernels:
            if kernel.backend == one.name and kernel.looked_at and kernel.outcome != COMPILES:
                told = f"{kernel.outcome}: {kernel_words.compiler(kernel)}"
                call = f" ({kernel.call})" if kernel.call else ""
                fixed = say("; compiles with {mended_by}", mended_by=kernel.mended_by) if kernel.mended_by else ""
                yield Line(words=f"{BROKEN} {kernel.kernel} {told}{call}{fixed}", depth=2)


def _nothing(trials: KernelTrials, backend: str) -> str:
    if trials.left_out.get(backend):
        return say(
            "would run nothing in `{mode}`: it is compiled when it is called, so in `full` or when named",
            mode=trials.mode,
        )
    return say("would run nothing")


def _of_kernels(good: int, looked_at: int) -> str:
    """Trials that were not reached have a line of their own: they do not count as refused."""
    return say("{good} of {looked_at} kernels compile", good=good, looked_at=looked_at) if looked_at else ""


def brief(trials: KernelTrials) -> str:
    """The section in one line, for reports that have no room for it."""
    if not trials.ran:
        return say("kernels: none was run: {reason}", reason=(trials.why_not or say("there is no GPU")).rstrip("."))
    words = ", ".join(f"{number} {word}" for word, number in trials.counts.items() if number) or say(
        "none came to a result"
    )
    missed = trials.without_result
    return say("kernels ({mode}): {words}", mode=trials.mode, words=words) + (
        say("; {missed} not run", missed=missed) if missed else ""
    )


def mark(trial: Trial) -> str:
    """The mark of one trial."""
    return _MARKS.get(trial.outcome, NOT_RUN)


def _square(own: Sequence[Trial], trials: KernelTrials, backend: str, dtype: str, form: str) -> Square:
    """As bad as the worst of its trials."""
    if not own:
        refused = any(
            group.backend == backend and dtype in group.dtypes and form in group.forms for group in trials.not_offered
        )
        return Square(mark=NOT_OFFERED if refused else NOT_RUN)
    order = (WRONG, BROKEN, RIGHT, NOT_OFFERED, NOT_RUN)
    worst = min((mark(trial) for trial in own), key=order.index)
    shares = [trial.speed.of_matmul for trial in own if trial.speed is not None]
    best = max((share for share in shares if share), default=None)
    return Square(mark=worst, share=best if worst == RIGHT else None)
