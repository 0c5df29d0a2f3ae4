"""The dtype path for a person: q, k and v as three columns of steps from projection to kernel."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attn_doctor.model.trace import Arrived, AttentionCall, Failure, MathCost, Place, Promotion, Trace
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.words import guarded as guarded_words
from attn_doctor.report.words import verdict

_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
_COLOUR = {
    "raises": "bold red",
    "silently mixed": "bold red",
    "promoted then repaired": "yellow",
    "clean": "green",
}
#: Steps that keep the dtype are only shown next to ones that do not.
_MOST_STEPS = 9


def write(trace: Trace, console: Console, *, verbose: bool) -> None:
    """Writes the program, the rules, and every relevant attention call."""
    whole(
        console,
        Text(
            say("traced {words}: {rules}", words=trace.words, rules=say_filled(trace.rules))
            if trace.words
            else say_filled(trace.rules)
        ),
    )
    if trace.gpu_assumed:
        console.print(Text(say("as on {gpu}, for want of another: --gpu names one", gpu=trace.gpu), style="dim"))
    for words in trace.stood_in if verbose or any(call.stand_in and not call.needs_gpu for call in trace.calls) else ():
        console.print(Text(say_filled(words), style="yellow"))
    for call in trace.calls:
        _call(call, trace, console, verbose=verbose)
    kernels(trace, console, verbose=verbose)
    failure(trace.failure, console)
    if trace.error:
        whole(console, Text(trace.error, style="bold"))
    for words in trace.not_simulated if verbose else ():
        console.print(Text(say("not simulated: {words}", words=words), style="dim"))
    console.print()


def kernels(trace: Trace, console: Console, *, verbose: bool) -> None:
    """The results for Triton kernels: findings cover those that do not compile, this covers all."""
    if trace.launches and not trace.kernels and trace.rules.startswith("no GPU"):
        number = (
            say("1 Triton kernel was")
            if trace.launches == 1
            else say("{launches} Triton kernels were", launches=trace.launches)
        )
        console.print(
            Text(
                say("{number} launched into nothing: --kernels compiles them for that GPU", number=number), style="dim"
            )
        )
    if not trace.kernels:
        return
    good = [one for one in trace.kernels if one.outcome == "compiles"]
    console.print()
    console.print(
        say(
            "{good} of {kernels} Triton kernels compile for {gpu}",
            good=len(good),
            kernels=len(trace.kernels),
            gpu=trace.kernels[0].gpu,
        )
    )
    for one in trace.kernels if verbose else [one for one in trace.kernels if one not in good]:
        whole(console, Text(f"  {one.outcome}  {one.kernel}  {one.call_site}"))


def _call(call: AttentionCall, trace: Trace, console: Console, *, verbose: bool) -> None:
    repeated = f" ×{call.calls}" if call.calls > 1 else ""
    where = f"  {at(call.place)}" if call.place else ""
    console.print()
    head = Text.assemble(
        (verdict.of_trace(call.verdict), _COLOUR.get(call.verdict, "")),
        f"  {call.name}{repeated}",
        (where, "dim"),
    )
    whole(console, head)
    if call.stand_in:
        console.print(Text(f"  {say_filled(call.stand_in)}", style="dim"))
    if call.written_out:
        console.print(
            Text(say("  softmax(q k^T) v in the model's own ops: no attention kernel was called"), style="dim")
        )
    if call.error:
        console.print(Text(f"  {call.error}"))
    backend(call, console, verbose=verbose)
    guarded(call, console)
    widened = any(one.promotion is not None for one in call.operands)
    if call.verdict == "clean" and not verbose and not widened:
        dtypes = ", ".join(f"{one.role} {short(one.dtype)}" for one in call.operands)
        console.print(Text(f"  {dtypes}"))
        return
    _columns([one for one in call.operands if one.path or one.role in "qkv"], call, console)
    for promotion in _promotions_of(call, trace):
        _promotion(promotion, console)
    beginnings(call, console)
    if trace.counterfactual and call.verdict in ("raises", "silently mixed"):
        console.print(Text(f"  {say_filled(trace.counterfactual)}"))


def beginnings(call: AttentionCall, console: Console) -> None:
    """The origin of operands that no call promoted: an allocation, a table, an input."""
    shown: dict[tuple[Place | None, tuple[str, ...]], list[Arrived]] = {}
    for one in call.operands:
        if one.blamed and one.all_along:
            place = one.began.place if one.began else None
            shown.setdefault((place, one.born), []).append(one)
    for (place, born), operands in shown.items():
        first = operands[0]
        if place is not None:
            whole(console, Text.assemble("  ", (at(place), "bold"), f"   {place.source}"))
        roles = ", ".join(one.role for one in operands)
        made = (
            say("{call} made {roles}", call=first.began.call, roles=roles)
            if first.began
            else say("{roles} came", roles=roles)
        )
        dtype = (short(first.dtype), "bold red")
        console.print(Text.assemble(f"      {made} ", dtype, say(": it was that from its beginning")))
        for words in born:
            if place is None or not words.endswith(f" at {place}"):
                console.print(Text(say("      from {words}", words=words), style="dim"))


def failure(failed: Failure | None, console: Console) -> None:
    """A call outside attention that failed on operands of two dtypes, with the origin of each."""
    if failed is None or not failed.over_dtypes:
        return
    console.print()
    where = f"  {at(failed.place)}" if failed.place else ""
    whole(console, Text.assemble(("raises", _COLOUR["raises"]), f"  {failed.call}", (where, "dim")))
    console.print(Text(f"  {failed.message.splitlines()[0]}" if failed.message else ""))
    shown: set[str] = set()
    for one in failed.operands:
        if one.dtype in shown:  # a weight and its bias
            continue
        shown.add(one.dtype)
        if one.promotion is not None:
            _promotion(one.promotion, console)
            continue
        console.print(Text(say("  {dtype} all along", dtype=short(one.dtype))))
        for born in one.born:
            console.print(Text(say("      from {born}", born=born), style="dim"))


def backend(call: AttentionCall, console: Console, *, verbose: bool) -> None:
    """The backend that SDPA would choose, if it is none, the slow one, or one with a known defect for such a call."""
    chosen = call.backend
    if chosen is None or (chosen.taken is None and not chosen.refused):
        return  # an error before the choice of a backend is in the call's own message
    odd = chosen.taken in (None, "math") or chosen.warnings
    if not odd and not verbose:
        return
    taken = say("takes {taken}", taken=chosen.taken) if chosen.taken else say("finds no backend for it")
    doubt = "" if chosen.certain else say(" (probably)")
    console.print(
        Text(
            say("  SDPA {taken} on {gpu}{doubt}", taken=taken, gpu=chosen.gpu, doubt=doubt),
            style="yellow" if odd else "dim",
        )
    )
    for words in chosen.warnings:
        console.print(Text(f"    {words}", style="yellow"))
    for name, reason in chosen.refused if chosen.taken in (None, "math") or verbose else ():
        console.print(Text(say("    not {name}: {reason}", name=name, reason=reason), style="dim"))
    if chosen.math is not None:
        _math(chosen.math, console)
    for words in chosen.doubts if verbose else ():
        console.print(Text(f"    {words}", style="dim"))


def guarded(call: AttentionCall, console: Console) -> None:
    """What the guard of a training run saw of it."""
    words = guarded_words.told(call)
    if words:
        whole(console, Text(f"  {words}", style="dim"))


def _math(cost: MathCost, console: Console) -> None:
    held = say(
        "    math holds {bytes} of scores a call here, and four times that at twice the length",
        bytes=_bytes(cost.score_bytes),
    )
    console.print(
        Text(held + (say(": no finding, {why_small}", why_small=cost.why_small) if cost.why_small else ""), style="dim")
    )
    for backend, words in cost.ways:
        console.print(Text(say("    {backend} takes it if you {words}", backend=backend, words=words), style="dim"))
    if not cost.ways:
        console.print(Text(say("    no change of the call that is known here gets another backend"), style="dim"))


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return say("{number} bytes", number=number)


def _columns(operands: list[Arrived], call: AttentionCall, console: Console) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), show_header=True, header_style="bold", pad_edge=False)
    cells = [_steps(one) for one in operands]
    for one in operands:
        table.add_column(f"  {one.role}", no_wrap=True, overflow="ellipsis")
    for row in range(max((len(cell) for cell in cells), default=0)):
        table.add_row(*(cell[row] if row < len(cell) else Text("") for cell in cells))
    table.add_row(
        *(
            Text.assemble("  → ", (short(one.dtype), "bold red" if one.blamed else "green"), f" {call.name}")
            for one in operands
        )
    )
    console.print(table)


def _steps(operand: Arrived) -> list[Text]:
    steps = operand.path
    if len(steps) > _MOST_STEPS:
        changing = tuple(step for step in steps if step.changed)
        steps = (changing if len(changing) <= _MOST_STEPS else changing[-_MOST_STEPS:]) or steps[-_MOST_STEPS:]
    lines = []
    for step in steps:
        line = f"{step.place.line:>5} " if step.place else "      "
        change = (
            Text.assemble(short(step.dtype_in), "→", (short(step.dtype_out), _changed(step.dtype_in, step.dtype_out)))
            if step.changed
            else Text(short(step.dtype_out), style="dim")
        )
        # The dtype first: in a narrow terminal it is the name that may be cut.
        lines.append(Text(f"  {line}") + change + Text(f" {step.call.removeprefix('Tensor.')}"))
    return lines


def _changed(before: str, after: str) -> str:
    return "bold red" if _width(after) > _width(before) else "bold cyan"


def _width(dtype: str) -> int:
    return {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}.get(dtype, 0)


def _promotions_of(call: AttentionCall, trace: Trace) -> list[Promotion]:
    reached = {one.promotion for one in call.operands if one.promotion is not None}
    broken = call.verdict in ("raises", "silently mixed")
    return [one for one in trace.promotions if one.id in reached or (one.latent and broken)]


def _promotion(promotion: Promotion, console: Console) -> None:
    later = say(" (once the first is fixed)") if promotion.latent else ""
    repeated = say(", {calls} times", calls=promotion.calls) if promotion.calls > 1 else ""
    if promotion.place:
        whole(console, Text.assemble("  ", (at(promotion.place), "bold"), f"   {promotion.place.source}"))
    console.print(
        Text.assemble(
            say(
                "      {call} made {words} {dtype_in}→",
                call=promotion.call,
                words=", ".join(promotion.roles) or say("an operand"),
                dtype_in=short(promotion.dtype_in),
            ),
            (short(promotion.dtype_out), "bold red"),
            f": {say_filled(promotion.kind)}{later}{repeated}",
        )
    )
    for born in promotion.born:
        console.print(Text(say("      from {born}", born=born), style="dim"))
    if promotion.cast_back:
        back = promotion.cast_back
        console.print(Text(say("      and is not cast back: .to or .type_as is missing after"), style="dim"))
        whole(console, Text.assemble("  ", (at(back), "bold"), f"   {back.source}"))


def at(place: Place | None) -> str:
    """`file:line`, relative to the working folder where it lies below."""
    if place is None:
        return ""
    try:
        shown = Path(place.file).relative_to(Path.cwd())
    except ValueError:
        shown = Path(place.file)
    return f"{shown}:{place.line}"


def short(dtype: str) -> str:
    """`fp16` for float16."""
    return _SHORT.get(dtype, dtype)


def whole(console: Console, text: Text) -> None:
    """Without wrapping: paths and source lines are there to be copied."""
    console.print(text, no_wrap=True, overflow="ignore", crop=False)
