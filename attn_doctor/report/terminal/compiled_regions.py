"""The regions of `trace --compile` for a person: each layout in a line, and the program that shows a fault."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from attn_doctor.model.compiled_regions import ALIKE, COULD_NOT_LOOK, RAISES, WRONG, CompiledRegions, Region
from attn_doctor.report.terminal.trace import at, whole

_COLOUR = {ALIKE: "green", WRONG: "bold red", RAISES: "bold red", COULD_NOT_LOOK: "yellow"}
_WIDEST = 14


def write(found: CompiledRegions, console: Console, *, verbose: bool) -> None:
    """Writes the model, what was cut of it, and every region."""
    whole(console, Text(f"compiled {found.words or 'nothing'}: forward and backward, against float64"))
    if found.cut:
        console.print(Text(f"cut for it: {found.cut}", style="dim"))
    for region in found.regions:
        console.print()
        _region(region, console, verbose=verbose)
    if found.error:
        whole(console, Text(found.error, style="bold"))
    console.print()


def _region(region: Region, console: Console, *, verbose: bool) -> None:
    alike = f", and {len(region.same)} like it" if region.same else ""
    whole(console, Text.assemble((region.title, "bold"), f"{alike}  ", (at(region.at), "dim")))
    for one in region.layouts:
        words = f"  {one.words}" if one.outcome != ALIKE or verbose else ""
        head = Text.assemble("  ", (f"{one.outcome:{_WIDEST}}", _COLOUR.get(one.outcome, "")), f"  {one.name}")
        whole(console, head + Text(words, style="dim"))
    counted = f"  {region.graphs} graphs compiled in {len(region.layouts)} layouts, {len(region.breaks)} graph breaks"
    console.print(Text(counted, style="dim"))
    for reason, place in region.breaks:
        whole(console, Text(f"  graph break at {at(place)}: {reason}" if place else f"  graph break: {reason}"))
    for reason in region.recompilations if verbose else ():
        whole(console, Text(f"  compiled again: {reason}", style="dim"))
    if region.stage:
        gone = ", right without its pattern matcher" if region.fused else ""
        console.print(Text(f"  wrong from torch.compile's backend {region.stage} on{gone}"))
    if region.script:
        shown = (
            f"it is {region.shown:.2g} of the largest value off here"
            if region.shown
            else "random values do not show it"
        )
        console.print(Text(f"  a program for a bug report; {shown}:"))
        for line in region.script.splitlines():
            whole(console, Text(f"    {line}", style="cyan"))
