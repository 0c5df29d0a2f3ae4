"""The checks of `trace --semantics` for a person: one line each, and where a broken one begins."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from attn_doctor.model.semantics import BROKEN, COULD_NOT_LOOK, HOLDS, Check, Semantics
from attn_doctor.report.language import say
from attn_doctor.report.terminal.trace import at, whole

_COLOUR = {HOLDS: "green", BROKEN: "bold red", COULD_NOT_LOOK: "yellow"}
_WIDEST = 14


def write(found: Semantics, console: Console, *, verbose: bool) -> None:
    """Writes the model, what was cut of it, and every check."""
    whole(console, Text(say("examined {words}, with random weights, in float32", words=found.words or say("nothing"))))
    if found.cut:
        console.print(Text(say("cut for it: {cut}", cut=found.cut), style="dim"))
    console.print()
    for check in found.checks:
        _check(check, console, verbose=verbose)
    if found.error:
        whole(console, Text(found.error, style="bold"))
    console.print()


def _check(check: Check, console: Console, *, verbose: bool) -> None:
    named = f"{check.name}: {check.form}" if check.form else check.name
    head = Text.assemble((f"{check.outcome:{_WIDEST}}", _COLOUR.get(check.outcome, "dim")), f"  {named}")
    if check.outcome != HOLDS or verbose:
        head += Text(f"  {check.words}", style="dim")
    whole(console, head)
    if check.outcome != BROKEN:
        return
    for one in check.culprits:
        where = say("layer {layer}, ", layer=one.layer) if one.layer is not None else ""
        whole(console, Text.assemble(" " * _WIDEST, f"    {where}{one.module or say('the whole')} ({one.type})"))
        if one is not check.culprits[0] and not verbose:
            continue
        for place in dict.fromkeys((one.at, one.inside) if verbose else (one.at,)):
            if place is not None:
                whole(console, Text.assemble(" " * _WIDEST, "    ", (at(place), "bold"), f"   {place.source}"))
    if check.mask:
        made = say(", asked for at {mask_place}", mask_place=at(check.mask_place)) if check.mask_place else ""
        whole(console, Text(" " * _WIDEST + say("    its {mask}{made}", mask=check.mask, made=made), style="dim"))
