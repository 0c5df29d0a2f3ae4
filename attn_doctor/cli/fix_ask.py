"""What `attn-doctor fix` shows before it changes anything, and what it asks."""

from __future__ import annotations

from attn_doctor import __version__
from attn_doctor.fix.in_use import InUse, using
from attn_doctor.machine.target import Target
from attn_doctor.model.plans import Plan


def show(plan: Plan, target: Target, *, verbose: bool) -> None:
    """Prints the plan."""
    from rich.console import Console

    from attn_doctor.report import plan_text

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(
        f"attn-doctor {__version__} plans for {target.python} "
        f"(Python {target.version}, {target.environment_kind}; {target.because})",
        soft_wrap=True,
    )
    plan_text.write(plan, console, verbose=verbose)


def check_unused(target: Target, *, ask: bool, allowed: bool) -> None:
    """Says what runs from the environment; where nobody can be asked, that is a refusal."""
    found = using(target)
    if not found:
        return
    if not ask and not allowed:
        raise InUse(
            "programs run from this environment, and its packages would change under them",
            about="\n".join(found[:10]),
            hint="End them first, or say --even-if-used.",
        )
    for line in found[:10]:
        print(f"In use by {line}")  # noqa: T201


def agreed(count: int) -> bool:
    """Whether a person says yes."""
    try:
        answer = input(f"Take {'this step' if count == 1 else f'these {count} steps'}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
