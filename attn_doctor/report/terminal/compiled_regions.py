"""The regions of `trace --compile` for a person: each layout in a line, and the program that shows a fault."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from attn_doctor.model.compiled_regions import ALIKE, COULD_NOT_LOOK, RAISES, WRONG, CompiledRegions, Region
from attn_doctor.report.language import say
from attn_doctor.report.terminal.trace import at, whole

_COLOUR = {ALIKE: "green", WRONG: "bold red", RAISES: "bold red", COULD_NOT_LOOK: "yellow"}
_WIDEST = 14


def write(found: CompiledRegions, console: Console, *, verbose: bool) -> None:
    """Writes the model, what was cut of it, and every region."""
    whole(
        console,
        Text(say("compiled {words}: forward and backward, against float64", words=found.words or say("nothing"))),
    )
    if found.cut:
        console.print(Text(say("cut for it: {cut}", cut=found.cut), style="dim"))
    for region in found.regions:
        console.print()
        _region(region, console, verbose=verbose)
    if found.error:
        whole(console, Text(found.error, style="bold"))
    console.print()


def _region(region: Region, console: Console, *, verbose: bool) -> None:
    alike = say(", and {same} like it", same=len(region.same)) if region.same else ""
    whole(console, Text.assemble((region.title, "bold"), f"{alike}  ", (at(region.at), "dim")))
    for one in region.layouts:
        words = f"  {one.words}" if one.outcome != ALIKE or verbose else ""
        head = Text.assemble("  ", (f"{one.outcome:{_WIDEST}}", _COLOUR.get(one.outcome, "")), f"  {one.name}")
        whole(console, head + Text(words, style="dim"))
    counted = say(
        "  {graphs} graphs compiled in {layouts} layouts, {breaks} graph breaks",
        graphs=region.graphs,
        layouts=len(region.layouts),
        breaks=len(region.breaks),
    )
    console.print(Text(counted, style="dim"))
    for reason, place in region.breaks:
        whole(
            console,
            Text(
                say("  graph break at {place}: {reason}", place=at(place), reason=reason)
                if place
                else say("  graph break: {reason}", reason=reason)
            ),
        )
    for reason in region.recompilations if verbose else ():
        whole(console, Text(say("  compiled again: {reason}", reason=reason), style="dim"))
    if region.stage:
        gone = say(", right without its pattern matcher") if region.fused else ""
        console.print(Text(say("  wrong from torch.compile's backend {stage} on{gone}", stage=region.stage, gone=gone)))
    if region.script:
        shown = (
            say("it is {shown:.2g} of the largest value off here", shown=region.shown)
            if region.shown
            else say("random values do not show it")
        )
        console.print(Text(say("  a program for a bug report; {shown}:", shown=shown)))
        for line in region.script.splitlines():
            whole(console, Text(f"    {line}", style="cyan"))
