"""A plan for people: each change, the finding it fixes, how safe it is and how it is taken back."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from attn_doctor.machine.own_command import as_typed
from attn_doctor.model.findings import Safety
from attn_doctor.model.plans import FileEdit, Install, Plan, Remaining, Step
from attn_doctor.report.language import recipe_text, say
from attn_doctor.report.words import phrases
from attn_doctor.report.words.cells import padded
from attn_doctor.report.words.sizes import size_words

_STYLE = {Safety.SAFE: "green", Safety.UNSAFE: "yellow", Safety.DISPLAY_ONLY: "dim"}


def write(plan: Plan, console: Console, *, verbose: bool) -> None:
    """Prints the whole plan."""
    for number, step in enumerate(plan.steps, start=1):
        _step(number, step, plan, console, verbose=verbose)
    for one in plan.left:
        _left(one, console)
    if not plan.steps and any(one.unavailable for one in plan.left):
        console.print(say("Nothing was changed: what the fixes install could not be had."))
    elif not plan.steps:
        console.print(say("Nothing to change."))


def _step(number: int, step: Step, plan: Plan, console: Console, *, verbose: bool) -> None:
    change = step.change
    what = (
        say("edit {file}", file=change.file)
        if isinstance(change, FileEdit)
        else say("install with {installer}", installer=change.installer)
    )
    console.print(Text(say("[step {number}] {what}", number=number, what=what), style="bold"), soft_wrap=True)
    for cured in step.cures:
        subjects = phrases.telling(cured.subjects)
        on = f" ({', '.join(subjects)})" if subjects else ""
        _row(
            console, "fixes", f"[{say(cured.severity)}] {cured.finding}{on}: {recipe_text(cured.finding, cured.title)}"
        )
        if verbose:
            _row(console, "recipe", cured.origin)
    if isinstance(change, FileEdit):
        for line in change.diff.splitlines():
            style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
            console.print(Text(f"    {line}", style=style), soft_wrap=True)
    else:
        _packages(change, console)
    for warning in change.warnings:
        _row(console, "note", warning)
    safety = recipe_text(step.cures[0].finding, step.why_this_safety) if step.cures else step.why_this_safety
    why = say(": {why}", why=safety) if safety else ""
    _row(console, "safety", f"{say(step.safety.value)}{why}", _STYLE[step.safety])
    _row(console, "proof", _proof(step, plan))
    why = say(": {why}", why=step.why_this_reversal) if step.why_this_reversal else ""
    _row(console, "undo", f"{say(step.reversal.value)}{why}")
    console.print()


def _proof(step: Step, plan: Plan) -> str:
    """When it is known that it cures, and that nothing breaks."""
    change, sites = step.change, plan.site_folders
    if isinstance(change, Install):
        copied = not change.users_base or any(one.startswith(f"{change.users_base}/") for one in sites)
    else:
        copied = any(change.file.startswith(f"{one}/") for one in sites or (plan.prefix,))
    if copied and not sites:
        return say("before the change, on a copy of the environment by links")
    if copied:
        first = say(
            "before the change, on a copy by links of the folders of its packages, which takes their place on the path "
            "of a process of our own: this interpreter has no environment to itself ({sites})",
            sites=", ".join(sites),
        )
        other = say(
            "; what is brought elsewhere, such as a script, after the change, which is undone where it does not fix"
        )
        return first + other if isinstance(change, Install) else first
    if isinstance(change, FileEdit) and change.is_list:
        return say("none: it records the change")
    what = say("what is installed") if isinstance(change, Install) else say("the file")
    return say(
        "after the change, which is undone where the finding stays: {what} is outside of what is copied", what=what
    )


def _packages(change: Install, console: Console) -> None:
    # Replaced packages before added ones: a new torch must not be hidden among its libraries.
    for one in sorted(change.changes, key=lambda change: (change.before is None, change.name)):
        words = (
            f"{one.name} {one.before} -> {one.after}"
            if one.before
            else say("{name} {after} (new)", name=one.name, after=one.after)
        )
        console.print(Text(f"    {words}" + (f"   {one.source}" if one.source else "")), soft_wrap=True)
    if change.torch_backend:
        _row(
            console,
            "from",
            say(
                "torch's own index for its build {torch_backend}, beside what is configured",
                torch_backend=change.torch_backend,
            ),
        )
    for wheel in change.wheels:
        _row(console, "from", wheel)
    if change.builds:
        told = " ".join(f"{name}={value}" for name, value in change.build_environment)
        _row(
            console,
            "builds",
            say(
                "{builds} (runs its setup program; {settings}), before anything changes",
                builds=", ".join(change.builds),
                settings=told,
            ),
        )
    if change.no_deps:
        _row(console, "", say("dependencies stay as they are"))
    _row(
        console,
        "backup",
        say("{kept_bytes} are kept for undo, until `undo --prune`", kept_bytes=size_words(change.kept_bytes)),
    )


def _left(one: Remaining, console: Console) -> None:
    console.print(Text(say("[skipped] {finding}", finding=one.finding), style="bold"), soft_wrap=True)
    _row(console, "", recipe_text(one.finding, one.title))
    _row(console, "because", one.reason + _missing(one))
    for number, line in enumerate(one.by_hand):
        command = line.removeprefix("  $ ")
        _row(console, "by hand" if number == 0 else "", line if command == line else f"  $ {as_typed(command)}")
    if one.diff:
        console.print(Text(one.diff.rstrip("\n")), soft_wrap=True)  # from the margin on: to be copied
    console.print()


def _missing(one: Remaining) -> str:
    if one.needs_naming:
        return say(" --only {finding} plans it.", finding=one.finding)
    return ""


def _row(console: Console, label: str, text: str, style: str = "") -> None:
    console.print(Text(f"  {padded(say(label), 8)} ", style="dim") + Text(text, style=style), soft_wrap=True)
