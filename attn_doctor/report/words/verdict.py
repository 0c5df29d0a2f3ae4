"""The result as part of a line, and as the last lines of a report. Imports little, because `status` has to be fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn_doctor.model.facts import Absent, Known, Value
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled, to_say

if TYPE_CHECKING:
    from attn_doctor.model.compiled_regions import CompiledRegions
    from attn_doctor.model.semantics import Semantics
    from attn_doctor.model.trace import Trace


_COUNTED = {
    Severity.ERROR: to_say("{number} error{s}"),
    Severity.WARNING: to_say("{number} warning{s}"),
    Severity.INFO: to_say("{number} note{s}"),
}


def counted(report: Report) -> str:
    """`1 error, 2 warnings`."""
    gating = [finding for finding in report.diagnosis.findings if finding.accepted is None]
    words = []
    for severity in Severity:
        number = sum(finding.severity is severity for finding in gating)
        if number:
            words.append(say(_COUNTED[severity], number=number, s="s" if number > 1 else ""))
    accepted = len(report.diagnosis.findings) - len(gating)
    if accepted:
        words.append(say("{accepted} accepted", accepted=accepted))
    return say(", ").join(words) or say("nothing wrong found")


def in_short(report: Report) -> str:
    """Counts and findings as part of a line; a missing torch comes first, since few recipes apply without it."""
    if report.full is not None and report.full.ill:
        return report.full.words()
    ids = [finding.id for finding in report.diagnosis.findings if finding.accepted is None]
    said = counted(report) + (f": {', '.join(ids)}" if ids else "")
    if report.nothing_to_examine:
        return say("nothing to examine here; {said}", said=said) if ids else say("nothing to examine here")
    return say("no torch there; {said}", said=said) if without_torch(report) else said


def without_torch(report: Report) -> bool:
    """Nothing of attention was examined: there is no torch that it could run in."""
    return report.command == "check" and isinstance(report.facts.fact("torch.version").state, Absent)


def lines(report: Report, *, questions: bool = True) -> tuple[str, ...]:
    """The last lines: the result, and what it does not cover. `questions`: with the number of open ones."""
    told = [counted(report) + say(".")]
    if not report.diagnosis.findings and report.trace:
        told = [_traced(report.trace)]
    elif not report.diagnosis.findings and report.semantics:
        told = [_of_semantics(report.semantics)]
    elif not report.diagnosis.findings and report.compiled_regions:
        told = [_of_compiled(report.compiled_regions)]
    number = len(report.diagnosis.open_questions)
    if number and questions:
        told.append(
            say(
                "{number} question{s} open: treat {plural} as unknown, not as healthy.",
                number=number,
                s="s" if number > 1 else "",
                plural="them" if number > 1 else "it",
            )
        )
    told += own_faults(report)
    if report.nothing_to_examine:
        if not report.diagnosis.findings:
            del told[0]  # "nothing wrong found" would read as healthy
        told.insert(
            0 if not report.diagnosis.findings else 1,
            say(
                "Nothing to examine here: {nothing_to_examine}. Activate the environment that you mean, "
                "or name it with --python.",
                nothing_to_examine=report.nothing_to_examine,
            ),
        )
    elif without_torch(report):
        told.append(
            say(
                "No torch in this environment: nothing above says that attention would run in it. If "
                "another one was meant, activate it or name it with --python."
            )
        )
    listed = report.facts.fact("listed.gpu").state
    if report.command == "check" and listed == Known(0) and not report.facts.subjects("gpu"):
        told.append(
            say(
                "No GPU here, so this node was not examined for one: nothing above says that a GPU job "
                "would run. Name the target, for example --gpu h100, to see what holds there."
            )
        )
    if report.trace is not None and any(call.verdict == "clean" for call in report.trace.calls):
        from attn_doctor.model.trace import JUDGED, JUDGED_BY_GUARD

        guarded = any(call.guarded is not None for call in report.trace.calls)
        told.append(say("Clean means: {judged}.", judged=say(JUDGED_BY_GUARD if guarded else JUDGED)))
    if report.full is not None:
        told.append(say("This environment was {words}.", words=say_filled(report.full.words())))
        told += [f"  {one.title}" for one in report.full.errors]
    elif report.no_full:
        told.append(say("Files only: {no_full}.", no_full=say_filled(report.no_full)))
    if report.quick and report.foreseen is None:
        told.append(
            say("--quick: nothing was imported or run")
            + (
                say("; {not_asked} checks that need it were not made.", not_asked=len(report.diagnosis.not_asked))
                if report.diagnosis.not_asked
                else say(".")
            )
            + _left_out(report.facts.value("python.startup_code"))
        )
    ran_as, owner = report.facts.value("python.examined_as"), report.facts.value("python.owner")
    foreign = as_root(ran_as, owner, quick=report.quick)
    if foreign and report.command in ("check", "trace"):
        told.append(foreign)
    if report.limits and report.command == "check":
        told.append(say("Partial check ({limits}): other recipes were not evaluated.", limits=report.limits))
    if report.assumed:
        given = dict.fromkeys(report.facts.fact(name).how for name in report.assumed)
        told.append(say("Judged as if: {given}.", given=", ".join(given)))
    return tuple(told)


def own_faults(report: Report) -> tuple[str, ...]:
    """One line if parts of attn-doctor failed."""
    if not report.own_faults:
        return ()
    parts = ", ".join(dict.fromkeys(fault.part for fault in report.own_faults))
    logs = ", ".join(dict.fromkeys(fault.log for fault in report.own_faults))
    return (
        say(
            "attn-doctor's own {parts} failed: what they would have reported is not known. The log: {logs}",
            parts=parts,
            logs=logs,
        ),
    )


def _left_out(code: Value | None) -> str:
    if not isinstance(code, tuple) or not code:
        return ""
    names = list(dict.fromkeys(str(file).rpartition("/")[2] for file in code))
    more = say(" and {number} more", number=len(names) - 4) if len(names) > 4 else ""
    return say(
        " The code in {names}{more}, which every start of this Python runs, was not run either.",
        names=", ".join(names[:4]),
        more=more,
    )


def as_root(ran_as: Value | None, owner: Value | None, *, quick: bool) -> str:
    """The warning for root who examines another user's environment; empty when no code of it ran as root."""
    if ran_as != 0 or not isinstance(owner, int) or owner == 0:
        return ""
    ran = say("its interpreter alone") if quick else say("its interpreter and its packages")
    return say(
        "The environment is owned by user {owner}, and was examined as root: {ran} ran as root.", owner=owner, ran=ran
    )


def of_trace(verdict: str) -> str:
    """A trace's verdict as people read it; formats for programs keep its name."""
    return say("promoted, then cast back") if verdict == "promoted then repaired" else say(verdict)


def _traced(trace: Trace) -> str:
    """The result of a traced run without findings."""
    if trace.error and trace.verdict in ("raises", "silently mixed"):
        return say("No verdict on the cause: an attention call failed, and no recipe explains it.")
    if trace.error_kind == "attention refused":
        return say("No verdict: the config's class does not take that attention.")
    if trace.error:
        return say("No verdict: the run ended early.")
    if not trace.seen:
        return say("No verdict: no attention call was seen.")
    if trace.verdict == "promoted then repaired":
        return say(
            "nothing that fails here: float32 reached an attention call, which cast it back; that "
            "costs time and memory, and a kernel that autocast does not know refuses it."
        )
    if any(call.stand_in and not call.needs_gpu for call in trace.calls):
        return say("nothing wrong found with a stand-in for what is not installed here: without that it does not run.")
    if any(call.stand_in for call in trace.calls):
        return say("nothing wrong found, with zeros in place of a kernel that runs on a GPU only.")
    return say("nothing wrong found.")


def _of_compiled(found: CompiledRegions) -> str:
    """The result of comparing compiled regions, without findings."""
    if not found.seen:
        return say("No verdict: no region could be compared.")
    if found.error or any(one.outcome == "could not look" for region in found.regions for one in region.layouts):
        return say("nothing wrong found; some layouts could not be compared.")
    return say("nothing wrong found: compiled is as right as eager.")


def _of_semantics(found: Semantics) -> str:
    """The result of checks of which token reaches which, without findings."""
    if found.error_kind == "attention refused":
        return say("No verdict: the config's class does not take that attention.")
    if not found.seen:
        return say("No verdict: no check could be made.")
    open_checks = sum(one.outcome == "could not look" for one in found.checks)
    if found.error or open_checks:
        return say("nothing wrong found; {words} checks could not be made.", words=open_checks or say("some"))
    return say("nothing wrong found.")
