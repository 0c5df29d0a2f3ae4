"""A finding's fixes in words that every format uses: the commands to type, or what a person has to do by hand; and
where its recipe's page is."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.machine.own_command import as_typed
from attn_doctor.machine.printable import one_line
from attn_doctor.model import recipe_pages
from attn_doctor.model.findings import Finding, Remedy
from attn_doctor.report.language import say


def commands(remedy: Remedy) -> tuple[tuple[str, bool], ...]:
    """The commands of a remedy as they are typed; False for a line that belongs into a file and not into a shell."""
    return tuple((as_typed(text), one.action.for_a_shell) for one in remedy.actions for text in one.commands)


def by_hand(remedy: Remedy) -> tuple[str, ...]:
    """What its actions tell a person to do or to know."""
    return tuple(
        one_line(words) for one in remedy.actions for words in (one.action.advice, one.action.hint) if words
    )  # fmt: skip


def page(finding: Finding, *, shown_around: bool = False) -> str:
    """The address of the recipe's page, or the command that prints it while the site is published nowhere; empty for a
    recipe that is not of the shelf.

    `shown_around`: in a format that is read on other machines, where the command has its plain name.
    """
    if not recipe_pages.has_page(finding):
        return ""
    command = f"attn-doctor explain {finding.id}"
    return recipe_pages.address(finding) or (command if shown_around else as_typed(command))


def label(finding: Finding, remedy: Remedy) -> str:
    """What stands before a step, not yet translated: `if so` where it helps only if the finding is the one of several
    that it may be.
    """
    if finding.is_a_look(remedy):
        return "check"
    return "if so" if finding.possible else "fix"


def plain(finding: Finding) -> Iterator[str]:
    """The whole explanation as plain lines, for formats that have one text for a finding."""
    if finding.why:
        yield one_line(finding.why)
    for number, remedy in enumerate(finding.remedies, start=1):
        head = say(label(finding, remedy)).capitalize()
        yield f"{head} {number}: {one_line(remedy.title)} ({say(remedy.safety.value)})"
        yield from (f"  {words}" for words in by_hand(remedy))
        yield from (f"  {'$ ' if typed else ''}{text}" for text, typed in commands(remedy))
    if finding.known_problems:
        yield say("Note: {known_problems}", known_problems=one_line(finding.known_problems))
