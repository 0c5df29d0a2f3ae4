"""A plan for people: each change, the finding it fixes, how safe it is and how it is taken back."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from attn_doctor.machine.own_command import as_typed
from attn_doctor.model.findings import Safety
from attn_doctor.model.plans import FileEdit, Install, Plan, Remaining, Step
from attn_doctor.report.words import phrases
from attn_doctor.report.words.sizes import size_words

_STYLE = {Safety.SAFE: "green", Safety.UNSAFE: "yellow", Safety.DISPLAY_ONLY: "dim"}


def write(plan: Plan, console: Console, *, verbose: bool) -> None:
    """Prints the whole plan."""
    for number, step in enumerate(plan.steps, start=1):
        _step(number, step, plan, console, verbose=verbose)
    for one in plan.left:
        _left(one, console)
    if not plan.steps and any(one.unavailable for one in plan.left):
        console.print("Nothing was changed: what the fixes install could not be had.")
    elif not plan.steps:
        console.print("Nothing to change.")


def _step(number: int, step: Step, plan: Plan, console: Console, *, verbose: bool) -> None:
    change = step.change
    what = f"edit {change.file}" if isinstance(change, FileEdit) else f"install with {change.installer}"
    console.print(Text(f"[step {number}] {what}", style="bold"), soft_wrap=True)
    for cured in step.cures:
        subjects = phrases.telling(cured.subjects)
        on = f" ({', '.join(subjects)})" if subjects else ""
        _row(console, "fixes", f"[{cured.severity}] {cured.finding}{on}: {cured.title}")
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
    why = f": {step.why_this_safety}" if step.why_this_safety else ""
    _row(console, "safety", f"{step.safety.value}{why}", _STYLE[step.safety])
    _row(console, "proof", _proof(step, plan))
    why = f": {step.why_this_reversal}" if step.why_this_reversal else ""
    _row(console, "undo", f"{step.reversal.value}{why}")
    console.print()


def _proof(step: Step, plan: Plan) -> str:
    """When it is known that it cures, and that nothing breaks."""
    change, sites = step.change, plan.site_folders
    if isinstance(change, Install):
        copied = not change.users_base or any(one.startswith(f"{change.users_base}/") for one in sites)
    else:
        copied = any(change.file.startswith(f"{one}/") for one in sites or (plan.prefix,))
    if copied and not sites:
        return "before the change, on a copy of the environment by links"
    if copied:
        first = (
            "before the change, on a copy by links of the folders of its packages, which takes their place on the path "
            f"of a process of our own: this interpreter has no environment to itself ({', '.join(sites)})"
        )
        other = "; what is brought elsewhere, such as a script, after the change, which is undone where it does not fix"
        return first + other if isinstance(change, Install) else first
    if isinstance(change, FileEdit) and change.is_list:
        return "none: it records the change"
    what = "what is installed" if isinstance(change, Install) else "the file"
    return f"after the change, which is undone where the finding stays: {what} is outside of what is copied"


def _packages(change: Install, console: Console) -> None:
    # Replaced packages before added ones: a new torch must not be hidden among its libraries.
    for one in sorted(change.changes, key=lambda change: (change.before is None, change.name)):
        words = f"{one.name} {one.before} -> {one.after}" if one.before else f"{one.name} {one.after} (new)"
        console.print(Text(f"    {words}" + (f"   {one.source}" if one.source else "")), soft_wrap=True)
    if change.torch_backend:
        _row(console, "from", f"torch's own index for its build {change.torch_backend}, beside what is configured")
    for wheel in change.wheels:
        _row(console, "from", wheel)
    if change.builds:
        told = " ".join(f"{name}={value}" for name, value in change.build_environment)
        _row(console, "builds", f"{', '.join(change.builds)} (runs its setup program; {told}), before anything changes")
    if change.no_deps:
        _row(console, "", "dependencies stay as they are")
    _row(console, "backup", f"{size_words(change.kept_bytes)} are kept for undo, until `undo --prune`")


def _left(one: Remaining, console: Console) -> None:
    console.print(Text(f"[skipped] {one.finding}", style="bold"), soft_wrap=True)
    _row(console, "", one.title)
    _row(console, "because", one.reason + _missing(one))
    for number, line in enumerate(one.by_hand):
        command = line.removeprefix("  $ ")
        _row(console, "by hand" if number == 0 else "", line if command == line else f"  $ {as_typed(command)}")
    if one.diff:
        console.print(Text(one.diff.rstrip("\n")), soft_wrap=True)  # from the margin on: to be copied
    console.print()


def _missing(one: Remaining) -> str:
    if one.needs_naming:
        return f" --only {one.finding} plans it."
    return ""


def _row(console: Console, label: str, text: str, style: str = "") -> None:
    console.print(Text(f"  {label:8} ", style="dim") + Text(text, style=style), soft_wrap=True)
