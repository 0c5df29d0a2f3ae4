"""The trials of attention kernels for a person: what is wrong first, then one table, then what was not run and why.

Marks: `!` wrong, `✗` refused, crashed or hung, `✓` right (with the best share of this GPU's own matrix product),
`–` not offered by the kernel's contract, `·` offered and not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from attn_doctor.probe import compiled_kernels, kernel_facts
from attn_doctor.probe.kernel_facts import SHORT

_FORMS = ("dense", "causal", "gqa", "varlen", "bool-mask", "half-mask", "fp32-mask", "window", "softcap")
_HEADS = ("dense", "causal", "gqa", "varlen", "bool", "half", "fp32", "window", "softcap")
_WRONG, _BROKEN, _RIGHT, _NOT_OFFERED, _NOT_RUN = "!", "✗", "✓", "–", "·"
_STYLES = {_WRONG: "bold red", _BROKEN: "bold yellow", _RIGHT: "green", _NOT_OFFERED: "dim", _NOT_RUN: "dim"}
_MOST_REASONS = 4


def write(answer: Mapping[str, Any], console: Console, *, verbose: bool) -> None:
    """Writes the whole section."""
    out = _Writer(answer, console)
    out.head()
    if answer["ran"]:
        out.troubles()
        for gpus in out.alike():
            out.table(gpus)
        out.rest(verbose=verbose)
    else:
        out.plan()
    console.print()


class _Writer:
    def __init__(self, answer: Mapping[str, Any], console: Console) -> None:
        self._answer = answer
        self._console = console
        self._titles = {one["name"]: one["title"] for one in answer["backends"]}

    def _line(self, text: str | Text, indent: int = 2) -> None:
        body = text if isinstance(text, Text) else Text(text)
        for number, line in enumerate(body.wrap(self._console, max(self._console.width - indent - 2, 40))):
            self._console.print(Text(" " * (indent if number == 0 else indent + 2)) + line, no_wrap=True, crop=False)

    def head(self) -> None:
        answer = self._answer
        title = f"[kernels] {answer['mode']}, seed {answer['seed']}"
        if answer["ran"]:
            title += f": {len(answer['cells'])} trials in {answer['seconds']:.0f} s"
        self._console.print(Text(title, style="bold"), no_wrap=True, crop=False)
        for gpu in answer["gpus"]:
            ceilings = gpu["ceilings"] or {}
            words = [f"GPU {gpu['index']} {gpu['name'] or ''}".strip()]
            if ceilings:
                products = [f"{SHORT[k[7:]]} {v:.0f}" for k, v in ceilings.items() if k.startswith("matmul_")]
                words.append(f"matrix product {', '.join(products)} TFLOP/s, copy {ceilings['copy']:.0f} GB/s")
            busy = kernel_facts.busy(gpu)
            if busy:
                words.append(f"busy ({busy}): its times are not to be trusted")
            if gpu["stopped"]:
                words.append(f"stopped: {gpu['stopped']}")
            self._line(": ".join(words) if len(words) < 3 else f"{words[0]}: {'; '.join(words[1:])}")

    def alike(self) -> list[list[str]]:
        """GPUs on which every trial came to the same: they share a table."""
        groups: dict[str, list[str]] = {}
        for gpu in self._answer["gpus"]:
            own = [cell for cell in self._answer["cells"] if cell["gpu"] == gpu["index"]]
            if own:
                keys = sorted(
                    (c["backend"], c["dtype"], c["form"], c["direction"], c["head_dim"], _mark(c)) for c in own
                )
                groups.setdefault(repr(keys), []).append(gpu["index"])
        return list(groups.values())

    def troubles(self) -> None:
        groups = kernel_facts.troubles(self._answer)
        several = len(self._answer["gpus"]) > 1
        for group in groups:
            first = group[0]
            sort = kernel_facts.sort_of(first) or ""
            mark = _mark(first)
            on = f"GPU {first['gpu']}: " if several else ""
            self._line(
                Text.assemble(
                    (f"{mark} ", _STYLES[mark]),
                    (f"{on}{self._titles.get(first['backend'], first['backend'])} {sort}: ", "bold"),
                    f"{kernel_facts.condition(group)}: {kernel_facts.worst(group)}",
                )
            )
        right = {cell["direction"] for cell in self._answer["cells"] if cell["outcome"] == "right"}
        if not right:
            self._line("No trial came to a right result.")
        elif not groups:
            self._line(f"Every kernel that was run was right{', forward and backward' if 'train' in right else ''}.")

    def table(self, gpus: Sequence[str]) -> None:
        width = max(len(f"{self._titles[name]} fp32") for name in self._titles) + 2
        head = "".join(f"{name:9}" for name in _HEADS)
        where = f"GPU {', '.join(gpus)}" if gpus != ["cpu"] else "CPU"
        self._console.print(Text(f"  {where:{width}}{head}", style="dim"), no_wrap=True, crop=False)
        for backend in self._titles:
            for dtype in SHORT:
                cells = [
                    cell
                    for cell in self._answer["cells"]
                    if cell["backend"] == backend and cell["dtype"] == dtype and cell["gpu"] == gpus[0]
                ]
                if not cells:
                    continue
                row = Text(f"  {f'{self._titles[backend]} {SHORT[dtype]}':{width}}")
                for form in _FORMS:
                    row += self._square([cell for cell in cells if cell["form"] == form], backend, dtype, form)
                self._console.print(row, no_wrap=True, crop=False)

    def _square(self, cells: Sequence[Mapping[str, Any]], backend: str, dtype: str, form: str) -> Text:
        if not cells:
            refused = any(
                group["backend"] == backend and dtype in group["dtypes"] and form in group["forms"]
                for group in self._answer["not_offered"]
            )
            mark = _NOT_OFFERED if refused else _NOT_RUN
            return Text(f"{mark:9}", style=_STYLES[mark])
        order = (_WRONG, _BROKEN, _RIGHT, _NOT_OFFERED, _NOT_RUN)
        mark = min((_mark(cell) for cell in cells), key=order.index)
        shares = [(cell.get("speed") or {}).get("of_matmul") for cell in cells]
        best = max((share for share in shares if share), default=None)
        words = f"{mark} {best:.0%}" if mark == _RIGHT and best else mark
        return Text(f"{words:9}", style=_STYLES[mark])

    def rest(self, *, verbose: bool) -> None:
        answer = self._answer
        self._line(
            "! wrong  ✗ refused, crashed or hung  ✓ right, at best this share of the GPU's own matrix product  "
            "– not offered  · not run"
        )
        gaps = kernel_facts.gaps(answer)
        if gaps:
            self._line(f"not run: {gaps}")
        left = {name: count for name, count in answer["left_out"].items() if count}
        if left:
            words = ", ".join(f"{self._titles.get(name, name)} {count}" for name, count in left.items())
            self._line(f"left out, since each two of their values were met by others or for time: {words}")
        self._absent()
        for group in answer["not_offered"] if verbose else ():
            self._line(f"– {self._titles[group['backend']]}, {group['cells']} combinations: {group['reason']}")
        if answer["not_offered"] and not verbose:
            self._line("what is not offered, and by which words of each kernel: -v")

    def _absent(self) -> None:
        states: dict[str, list[str]] = {}
        for one in self._answer["backends"]:
            if one["state"] != "runs":
                states.setdefault(one["state"], []).append(one["title"])
        for state, titles in states.items():
            self._line(f"{state}: {', '.join(titles)}")

    def plan(self) -> None:
        """Nothing ran: what would."""
        answer = self._answer
        self._line(f"No kernel was run: {str(answer['why_not'] or 'there is no GPU').rstrip('.')}.")
        planned = answer["gpu_planned_for"]
        if answer["gpus"]:
            return
        if planned is None:
            self._line(
                "Name a GPU to be told what would run on it and what its contracts refuse, for example --gpu h100."
            )
            return
        name = planned.get("name") or planned.get("compute_capability")
        self._line(f"On {name} (compute capability {planned['compute_capability']}), predicted and not run:")
        for one in answer["backends"]:
            would = [cell for cell in answer["would_run"] if cell["backend"] == one["name"]]
            if one["state"] != "runs":
                self._line(f"{one['title']}: {one['state']}", 4)
                continue
            forms = ", ".join(form for form in _FORMS if any(cell["form"] == form for cell in would))
            dtypes = ", ".join(word for name, word in SHORT.items() if any(cell["dtype"] == name for cell in would))
            words = f"would run {len(would)} trials: {dtypes}; {forms}" if would else "would run nothing"
            self._line(f"{one['title']}: {words}", 4)
            reasons = [group for group in answer["not_offered"] if group["backend"] == one["name"]]
            for group in reasons[:_MOST_REASONS]:
                self._line(f"– {group['cells']} combinations: {group['reason']}", 6)
            if len(reasons) > _MOST_REASONS:
                self._line(f"– and {len(reasons) - _MOST_REASONS} more reasons (--json)", 6)
        if answer.get("compiled") is not None:
            self._compiled(answer["compiled"])

    def _compiled(self, compiled: Mapping[str, Any]) -> None:
        """Triton kernels that were compiled for the GPU that is not there."""
        gpu = compiled_kernels.gpu_words(compiled)
        if not compiled["backends"]:
            self._line(f"No kernel was compiled for {gpu}: {compiled['why_not']}.")
            return
        every = compiled["kernels"]
        number = sum(one["outcome"] == compiled_kernels.COMPILES for one in every)
        self._line(f"compiled for {gpu}, not run: {number} of {len(every)} kernels compile")
        for one in compiled["backends"]:
            words = f"{one['compile']} of {one['kernels']} kernels compile" if one["kernels"] else "nothing compiled"
            if one.get("nothing"):
                words = f"nothing to compile: {one['nothing']}"
            self._line(f"{one['title']}: {words}", 4)
            if one["error"]:
                self._line(f"not all was seen: {one['error']}", 6)
            if one["not_reached"]:
                self._line(f"not reached within {self._answer['budget']:g} s: {one['not_reached']} kernels", 6)
            for kernel in every:
                looked = kernel["outcome"] not in (compiled_kernels.COMPILES, compiled_kernels.NOT_LOOKED)
                if kernel["backend"] == one["name"] and looked:
                    told = f"{kernel['outcome']}: {compiled_kernels.compiler_words(kernel)}"
                    call = f" ({kernel['call']})" if kernel.get("call") else ""
                    self._line(f"{_BROKEN} {kernel['kernel']} {told}{call}", 6)
                    if kernel.get("mended_by"):
                        self._line(f"compiles with {kernel['mended_by']}", 8)


def _mark(cell: Mapping[str, Any]) -> str:
    if cell["outcome"] == "right":
        return _RIGHT
    if cell["outcome"] == "wrong":
        return _WRONG
    if cell["outcome"] == "not offered":
        return _NOT_OFFERED
    return _BROKEN if cell["outcome"] in ("refused", "crashed", "hung") else _NOT_RUN
