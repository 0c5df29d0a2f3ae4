"""What a report for people says of trials of attention kernels, before it is dressed for a terminal or as Markdown:
lines, rows and squares of the table, in the order in which they stand.

Marks: `!` wrong, `✗` refused, crashed or hung, `✓` right (with the best share of this GPU's own matrix product),
`–` not offered by the kernel's contract, `·` offered and not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_doctor.probe import compiled_kernels, kernel_facts, kernel_state, xids
from attn_doctor.probe.kernel_facts import SHORT

WRONG, BROKEN, RIGHT, NOT_OFFERED, NOT_RUN = "!", "✗", "✓", "–", "·"
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
LEGEND = (
    "! wrong  ✗ refused, crashed or hung  ✓ right, at best this share of the GPU's own matrix product  "
    "– not offered  · not run"
)
_MOST_REASONS = 4

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """One square of the table."""

    mark: str
    share: float | None = None
    """Of this GPU's own matrix product, of a right one that was timed."""

    @property
    def words(self) -> str:
        return f"{self.mark} {self.share:.0%}" if self.share else self.mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One sort of trouble."""

    mark: str
    head: str
    """Which kernel, and what."""
    words: str
    """The exact condition, and how bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line below another: depth 0, 1, 2."""

    words: str
    depth: int = 0


def title(answer: Answer) -> str:
    """`quick, seed 40716: 66 trials in 16 s`."""
    words = f"{answer['mode']}, seed {answer['seed']}"
    return words + (f": {len(answer['cells'])} trials in {answer['seconds']:.0f} s" if answer["ran"] else "")


def gpus(answer: Answer, *, verbose: bool) -> Iterator[str]:
    """A line for each GPU: its own ceilings, and what is to be known before its numbers are read."""
    for gpu in answer["gpus"]:
        ceilings = gpu["ceilings"] or {}
        words = []
        if ceilings:
            products = [f"{SHORT[k[7:]]} {v:.0f}" for k, v in ceilings.items() if k.startswith("matmul_")]
            words.append(f"matrix product {', '.join(products)} TFLOP/s, copy {ceilings['copy']:.0f} GB/s")
        busy = kernel_state.busy(gpu)
        if busy:
            words.append(f"busy ({busy}): its times are not to be trusted")
        if gpu["stopped"]:
            words.append(f"stopped: {gpu['stopped']}")
        if verbose:
            words.append(kernel_state.in_words(gpu, answer))
        elif (gpu.get("xids") or {"seen": ()})["seen"]:
            words.append(f"told {xids.of_state(gpu, answer)}")
        name = f"GPU {gpu['index']} {gpu['name'] or ''}".strip()
        yield f"{name}: {'; '.join(words)}" if words else name


def troubles(answer: Answer) -> list[Trouble]:
    """What is wrong, wrong before refused."""
    named, several = _titles(answer), len(answer["gpus"]) > 1
    found = []
    for group in _told_alike(answer):
        first = group[0]
        on = f"GPU {first['gpu']}: " if several else ""
        found.append(
            Trouble(
                mark=mark(first),
                head=f"{on}{named.get(first['backend'], first['backend'])} {kernel_facts.sort_of(first) or ''}",
                words=f"{kernel_facts.condition(group)}: {kernel_facts.told(group, answer)}",
            )
        )
    return found


def _told_alike(answer: Answer) -> list[list[Mapping[str, Any]]]:
    """Groups that differ in the form alone, and of which the same is told, are one: its condition stays exact."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for group in kernel_facts.troubles(answer):
        first = group[0]
        met = [
            sorted({str(cell.get(axis)) for cell in group}) for axis in ("dtype", "head_dim", "direction", "variant")
        ]
        told = kernel_facts.told(group, answer)
        key = (first["backend"], first["gpu"], kernel_facts.sort_of(first), told, str(met))
        groups.setdefault(key, []).extend(group)
    return list(groups.values())


def all_right(answer: Answer) -> str:
    """What the trials come to where none met trouble; empty where one did."""
    right = {cell["direction"] for cell in answer["cells"] if cell["outcome"] == "right"}
    if not right:
        return "No trial came to a right result."
    if kernel_facts.troubles(answer):
        return ""
    return f"Every kernel that was run was right{', forward and backward' if 'train' in right else ''}."


def alike(answer: Answer) -> list[list[str]]:
    """GPUs on which every trial came to the same: they share a table."""
    groups: dict[str, list[str]] = {}
    for gpu in answer["gpus"]:
        own = [cell for cell in answer["cells"] if cell["gpu"] == gpu["index"]]
        if own:
            keys = sorted((c["backend"], c["dtype"], c["form"], c["direction"], c["head_dim"], mark(c)) for c in own)
            groups.setdefault(repr(keys), []).append(gpu["index"])
    return list(groups.values())


def where(gpus_alike: Sequence[str]) -> str:
    """`GPU 0, 1`."""
    return f"GPU {', '.join(gpus_alike)}" if list(gpus_alike) != ["cpu"] else "CPU"


def rows(answer: Answer, gpu: str) -> Iterator[tuple[str, list[Square]]]:
    """A row for each kernel and dtype that was tried: its name, and a square for each form of HEADS."""
    for backend, named in _titles(answer).items():
        for dtype, short in SHORT.items():
            cells = [c for c in answer["cells"] if (c["backend"], c["dtype"], c["gpu"]) == (backend, dtype, gpu)]
            if cells:
                squares = [
                    _square([cell for cell in cells if cell["form"] == form], answer, backend, dtype, form)
                    for form in HEADS
                ]
                yield f"{named} {short}", squares


def widest(answer: Answer) -> int:
    """Characters of the longest name of a row that there can be."""
    return max(len(f"{named} fp32") for named in _titles(answer).values())


def below(answer: Answer, *, verbose: bool) -> Iterator[str]:
    """What was not run, and why."""
    named = _titles(answer)
    yield LEGEND
    gaps = kernel_facts.gaps(answer)
    if gaps:
        yield f"not run: {gaps}"
    left = {name: count for name, count in answer["left_out"].items() if count}
    if left:
        words = ", ".join(f"{named.get(name, name)} {count}" for name, count in left.items())
        yield f"left out, since each two of their values were met by others or for time: {words}"
    states: dict[str, list[str]] = {}
    for one in answer["backends"]:
        if one["state"] != "runs":
            states.setdefault(one["state"], []).append(one["title"])
    for state, titles in states.items():
        yield f"{state}: {', '.join(titles)}"
    for group in answer["not_offered"] if verbose else ():
        yield f"– {named[group['backend']]}, {group['cells']} combinations: {group['reason']}"
    if answer["not_offered"] and not verbose:
        yield "what is not offered, and by which words of each kernel: -v"


def plan(answer: Answer) -> Iterator[Line]:
    """Nothing ran: what would."""
    yield Line(words=f"No kernel was run: {str(answer['why_not'] or 'there is no GPU').rstrip('.')}.")
    planned = answer["gpu_planned_for"]
    if answer["gpus"]:
        return
    if planned is None:
        yield Line(
            words="Name a GPU to be told what would run on it and what its contracts refuse, for example --gpu h100."
        )
        return
    if not answer["backends"]:
        return  # it ended before there was a plan, which was said
    capability = planned["compute_capability"]
    name = str(planned.get("name") or capability)
    on = f"compute capability {capability}" if name == capability else f"{name} (compute capability {capability})"
    yield Line(words=f"On {on}, predicted and not run:")
    for one in answer["backends"]:
        would = [cell for cell in answer["would_run"] if cell["backend"] == one["name"]]
        if one["state"] != "runs":
            yield Line(words=f"{one['title']}: {one['state']}", depth=1)
            continue
        forms = ", ".join(form for form in HEADS if any(cell["form"] == form for cell in would))
        dtypes = ", ".join(word for name, word in SHORT.items() if any(cell["dtype"] == name for cell in would))
        words = f"would run {len(would)} trials: {dtypes}; {forms}" if would else _nothing(answer, one["name"])
        yield Line(words=f"{one['title']}: {words}", depth=1)
        reasons = [group for group in answer["not_offered"] if group["backend"] == one["name"]]
        for group in reasons[:_MOST_REASONS]:
            yield Line(words=f"– {group['cells']} combinations: {group['reason']}", depth=2)
        more = len(reasons) - _MOST_REASONS
        if more > 0:
            yield Line(words=f"– and {more} more reason{'s' if more > 1 else ''} (--json)", depth=2)
    if answer.get("compiled") is not None:
        yield from _compiled(answer, answer["compiled"])


def _compiled(answer: Answer, compiled: Mapping[str, Any]) -> Iterator[Line]:
    """Triton kernels that were compiled for the GPU that is not there."""
    gpu = compiled_kernels.gpu_words(compiled)
    if not compiled["backends"]:
        yield Line(words=f"No kernel was compiled for {gpu}: {compiled['why_not']}.")
        return
    every = compiled["kernels"]
    looked_at = sum(one["outcome"] != compiled_kernels.NOT_LOOKED for one in every)
    number = sum(one["outcome"] == compiled_kernels.COMPILES for one in every)
    yield Line(words=f"compiled for {gpu}, not run: {_of_kernels(number, looked_at) or 'nothing'}")
    for one in compiled["backends"]:
        words = _of_kernels(one["compile"], one["kernels"] - one["not_reached"]) or "nothing compiled"
        if one.get("nothing"):
            words = f"nothing to compile: {one['nothing']}"
        yield Line(words=f"{one['title']}: {words}", depth=1)
        if one["error"]:
            yield Line(words=f"not all was seen: {one['error']}", depth=2)
        if one["not_reached"]:
            yield Line(words=f"not reached within {answer['budget']:g} s: {one['not_reached']} kernels", depth=2)
        for kernel in every:
            looked = kernel["outcome"] not in (compiled_kernels.COMPILES, compiled_kernels.NOT_LOOKED)
            if kernel["backend"] == one["name"] and looked:
                told = f"{kernel['outcome']}: {compiled_kernels.compiler_words(kernel)}"
                call = f" ({kernel['call']})" if kernel.get("call") else ""
                mended = f"; compiles with {kernel['mended_by']}" if kernel.get("mended_by") else ""
                yield Line(words=f"{BROKEN} {kernel['kernel']} {told}{call}{mended}", depth=2)


def _nothing(answer: Answer, backend: str) -> str:
    if answer["left_out"].get(backend):
        return f"would run nothing in `{answer['mode']}`: it is compiled when it is called, so in `full` or when named"
    return "would run nothing"


def _of_kernels(good: int, looked_at: int) -> str:
    """Those that were not reached are told in a line of their own: they do not count as refused."""
    return f"{good} of {looked_at} kernels compile" if looked_at else ""


def brief(answer: Answer) -> str:
    """The section in one line, for reports that have no room for it."""
    if not answer["ran"]:
        return f"kernels: none was run: {str(answer['why_not'] or 'there is no GPU').rstrip('.')}"
    outcomes = [cell["outcome"] for cell in answer["cells"]]
    counts = {word: outcomes.count(word) for word in ("right", "wrong", "refused", "crashed", "hung")}
    words = ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "none came to a result"
    missed = answer["not_reached"] + len(outcomes) - sum(counts.values()) - outcomes.count("not offered")
    return f"kernels ({answer['mode']}): {words}" + (f"; {missed} not run" if missed else "")


def mark(cell: Mapping[str, Any]) -> str:
    """The mark of one trial."""
    if cell["outcome"] == "right":
        return RIGHT
    if cell["outcome"] == "wrong":
        return WRONG
    if cell["outcome"] == "not offered":
        return NOT_OFFERED
    return BROKEN if cell["outcome"] in ("refused", "crashed", "hung") else NOT_RUN


def _square(cells: Sequence[Mapping[str, Any]], answer: Answer, backend: str, dtype: str, form: str) -> Square:
    """As bad as the worst of its trials."""
    if not cells:
        refused = any(
            group["backend"] == backend and dtype in group["dtypes"] and form in group["forms"]
            for group in answer["not_offered"]
        )
        return Square(mark=NOT_OFFERED if refused else NOT_RUN)
    order = (WRONG, BROKEN, RIGHT, NOT_OFFERED, NOT_RUN)
    worst = min((mark(cell) for cell in cells), key=order.index)
    shares = [(cell.get("speed") or {}).get("of_matmul") for cell in cells]
    best = max((share for share in shares if share), default=None)
    return Square(mark=worst, share=best if worst == RIGHT else None)


def _titles(answer: Answer) -> dict[str, str]:
    return {one["name"]: one["title"] for one in answer["backends"]}
