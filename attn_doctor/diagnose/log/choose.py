"""Chooses among weighed matches: those that tell what failed, without what others explain better."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.diagnose.log.weigh import ENDED, SURVIVED, Weighed, is_told
from attn_doctor.model.findings import Severity
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

_OF_RANKS = "communication"  # what a message of the other ranks is about
#: What a warning of these packages is never the reason of; xformers' absence takes memory.
_OF_ITSELF = frozenset({"memory", _OF_RANKS})
_KERNELS = frozenset({"flash-attn", "flashinfer", "sageattention", "vllm"})
#: Lines between an exception and what a shell says of the end that it brought.
_SHORTLY = 40
#: An installer says that it put nothing in, and why; and what follows from it where the program runs all the same.
_INSTALLED_NOTHING = when_used(
    r"Could not install packages due to an? |uninstall-no-record-file|Cannot uninstall '?\w"
    r"|externally-managed-environment|No matching distributions? found for |\bno such option: --"
)
_MISSING = r"(?:No module named |cannot import name .{1,120}\(unknown location\))"
_NO_MODULE = when_used(_MISSING)
#: What could not be done without it; "Error caught was: No module named" is printed by what goes on.
_FAILED_FOR_WANT_OF = when_used(rf"(?i)\b(?:fail(?:ed|s|ure)?|can ?not|could not|unable)\b.{{0,120}}{_MISSING}")
_WARNS = when_used(r"^\s*\W?(?:WARN(?:ING)?|Warning)\b|\bWARNING[\[:]|\w+Warning: ")
#: xformers says that its kernels do not load, and the program starts without them.
_XFORMERS_LEFT_OUT = when_used(
    r"xFormers can't load C\+\+/CUDA extensions|xFormers was built for:"
    r"|Need to compile C\+\+ extensions to use all xFormers"
)
#: What may follow from that all the same.
_OF_XFORMERS = when_used(r"(?i)xformers|memory[ _-]?efficient|out ?of ?memory|\ballocat")
#: Frames of a package that is being built: what its setup warns of first is mostly why it stops.
_OF_A_BUILD = when_used(r"setup\.py\b|pip-setuptools-caller|[/\\]build_meta\.py")
#: The frame of what Python calls when it takes an object away.
_TAKEN_AWAY = when_used(r"(?m), in __del__$")
_NOT_INSTALLED = when_used(r"No module named |\b(?:is|was) not (?:found|installed)\b")


def outranked(rivals: Iterable[Weighed]) -> set[str]:
    """The ids of the recipes that others of one unit outrank. Of two that outrank each other the first in order stays:
    were both beaten, nothing would be told.
    """
    beaten = set[str]()
    for one in sorted(rivals, key=lambda one: one.order):
        if one.match.recipe.id not in beaten:
            beaten.update(one.match.pattern.outranks)
    return beaten


def chosen(weighed: list[Weighed]) -> list[Weighed]:
    """Drops matches that another match explains better."""
    weighed = _without_what_was_not_installed(_what_was_survived_noted(_first_of_each(weighed)))
    weighed = _warnings_beside_what_is_missing(_ends_behind_what_raised(_ignored_behind_what_raised(weighed)))
    weighed = _notices_before_what_raised(_xformers_left_out(weighed))
    weighed = _without_notices_behind_a_message(weighed)
    by_unit: dict[int, list[Weighed]] = {}
    for one in weighed:
        by_unit.setdefault(id(one.match.unit), []).append(one)
    kept: list[Weighed] = []
    for rivals in by_unit.values():
        beaten = outranked(rivals)
        standing = [one for one in rivals if one.match.recipe.id not in beaten]
        proven = {one.match.line for one in standing if one.proven}
        # A proven cause of a line excludes causes of it that are only possible.
        kept += [one for one in standing if one.proven or one.match.line not in proven]
    exact = [one for one in kept if one.match.recipe.family is None]
    known = [one for one in exact if not one.match.pattern.wrapper]
    if any(one.severity is not Severity.INFO for one in known):
        return known
    beaten = outranked(one for one in exact if one.match.pattern.wrapper)
    families = _families(
        (one for one in kept if one.match.recipe.id not in beaten), {id(one.match.unit) for one in known}
    )
    wrapped = len(known) < len(exact) and all(
        one.match.pattern.wrapper or one.match.recipe.is_of_a_grammar or one.match.recipe.harmless for one in families
    )
    return exact if wrapped else [*known, *families]


def _first_of_each(weighed: Iterable[Weighed]) -> list[Weighed]:
    """Of a recipe's matches in one unit the first that facts did not refuse."""
    first: dict[tuple[int, str], Weighed] = {}
    for one in weighed:
        first.setdefault((id(one.match.unit), one.match.recipe.id), one)
    return list(first.values())


def _what_was_survived_noted(weighed: list[Weighed]) -> list[Weighed]:
    """The same; of what a program survived a note, where it failed of something else later in the same log."""
    survived = {id(one.match.unit) for one in weighed if SURVIVED.search(one.match.unit.text)}
    ends = [one for one in weighed if one.failed and id(one.match.unit) not in survived] if survived else []
    return [
        replace(one, severity=Severity.INFO, survived=True)
        if id(one.match.unit) in survived
        and any(end.log == one.log and end.match.unit.first > one.match.unit.last for end in ends)
        else one
        for one in weighed
    ]


def _ends_behind_what_raised(weighed: list[Weighed]) -> list[Weighed]:
    """The same; what a shell or launcher says of the end of a process follows from an exception that stands shortly
    before it, unless that only tells of other ranks: they may have been ended first.
    """
    raised = [
        one
        for one in weighed
        if one.match.unit.exception
        and one.failed
        and not one.match.pattern.wrapper
        and not ENDED.search(one.match.quoted)
        and (one.match.recipe.family is None or one.match.recipe.family.about != _OF_RANKS)
    ]
    return [
        replace(one, follows=True)
        if raised
        and ENDED.search(one.match.quoted)
        and any(end.log == one.log and 0 < one.match.line - end.match.line <= _SHORTLY for end in raised)
        else one
        for one in weighed
    ]


def _ignored_behind_what_raised(weighed: list[Weighed]) -> list[Weighed]:
    """The same; Python ignores what is raised while an object is taken away: it is no reason where anything else is
    raised.
    """
    ignored = {id(one.match.unit) for one in weighed if one.failed and _TAKEN_AWAY.search(one.match.unit.text)}
    if not ignored or not any(one.failed and id(one.match.unit) not in ignored for one in weighed):
        return weighed
    return [replace(one, follows=True) if id(one.match.unit) in ignored else one for one in weighed]


def _warnings_beside_what_is_missing(weighed: list[Weighed]) -> list[Weighed]:
    """The same; what warns of a package is a note where another message says that a module is not there: a warning of
    one package is never why another one is missing.
    """
    missing = [
        one
        for one in weighed
        if (one.match.unit.exception or _FAILED_FOR_WANT_OF.search(one.match.quoted))
        and _NO_MODULE.search(one.match.quoted)
        and not (is_told(one.match) or _WARNS.search(one.match.quoted))
    ]
    return [
        replace(one, severity=Severity.INFO, survived=True, beside=True)
        if one.match.recipe.family is None
        and not one.match.unit.exception
        and any(other.log == one.log and other.match.unit is not one.match.unit for other in missing)
        and _WARNS.search(one.match.quoted)
        else one
        for one in weighed
    ]


def _notices_before_what_raised(weighed: list[Weighed]) -> list[Weighed]:
    """The same; what a program printed of a thing with which it goes on is never what an exception after it is about,
    whatever of that is known. So is a warning before an exception of one known cause, of memory or of the ranks'
    connection, or before one of which nothing is known and that does not name its package; and a harmless notice
    wherever it stands: processes that write into one log do so in any order. An exception that names the thing, and of
    which no more is known, is the notice's own.
    """
    ended = [one for one in weighed if one.failed]
    known: dict[str, int] = {}
    for one in weighed:
        family = one.match.recipe.family
        of_itself = family is not None and family.about in _OF_ITSELF and one.says_failed and not one.follows
        if of_itself or (family is None and one.failed and one.proven):
            known[one.log] = max(known.get(one.log, 0), one.match.unit.first)

    def is_before_what_nobody_knows(notice: Weighed) -> bool:
        return any(
            one.log == notice.log
            and notice.match.unit.last < one.match.unit.first
            and one.match.unit.exception
            and one.match.recipe.is_of_a_grammar
            and notice.match.recipe.library not in one.match.unit.text.lower()
            and not _OF_A_BUILD.search(one.match.unit.text)
            for one in ended
        )

    def is_before_an_end(notice: Weighed) -> bool:
        return notice.is_of_what_goes_on and any(
            one.log == notice.log
            and (notice.is_harmless or notice.match.unit.last < one.match.unit.first)
            and not (one.match.recipe.is_of_a_grammar and notice.match.recipe.library in one.match.quoted.lower())
            for one in ended
        )

    harmless = {
        id(one.match.unit): one.match.recipe.rank
        for one in weighed
        if one.match.recipe.family is not None and one.match.recipe.harmless and is_before_an_end(one)
    }
    return [
        replace(one, severity=Severity.INFO, beside=True)
        if is_before_an_end(one)
        or (_warns(one) and (one.match.unit.last < known.get(one.log, 0) or is_before_what_nobody_knows(one)))
        or _is_of_the_notice(one, harmless)
        else one
        for one in weighed
    ]


def _is_of_the_notice(one: Weighed, harmless: Mapping[int, int]) -> bool:
    """A wider family that knows fewer words of a harmless notice: what it is about ended nothing either."""
    rank = harmless.get(id(one.match.unit))
    return rank is not None and one.match.recipe.family is not None and not one.failed and one.match.recipe.rank > rank


def _warns(one: Weighed) -> bool:
    """It is a warning, or the record of a package of kernels is one, whatever the recipe takes its words for."""
    unit = one.match.unit
    if one.warns or one.match.recipe.family is not None or one.match.recipe.library not in _KERNELS or unit.exception:
        return one.warns
    said = next((line for line in unit.lines if line.number == one.match.line), unit.lines[0])
    return said.level == "W" or _WARNS.search(one.match.quoted) is not None


def _xformers_left_out(weighed: list[Weighed]) -> list[Weighed]:
    """The same; where xformers says that its kernels do not load, and an exception below does not speak of that, it is
    a note: the program had started without them.
    """
    raised = [one for one in weighed if one.match.unit.exception and one.failed and not one.match.pattern.wrapper]

    def is_apart(notice: Weighed, end: Weighed) -> bool:
        below = end.log == notice.log and end.match.unit.first > notice.match.unit.last
        return below and end.match.recipe.id != notice.match.recipe.id and not _OF_XFORMERS.search(end.match.unit.text)

    return [
        replace(one, severity=Severity.INFO, survived=True, beside=True)
        if one.match.recipe.family is None
        and one.match.unit.kind is UnitKind.LINE
        and _XFORMERS_LEFT_OUT.search(one.match.unit.text)
        and any(is_apart(one, end) for end in raised)
        else one
        for one in weighed
    ]


def _without_notices_behind_a_message(weighed: list[Weighed]) -> list[Weighed]:
    """The same without notices in the lines behind an exception's own, where something is known of that one: programs
    list there what else they did not find.
    """
    of_its_own = {
        (one.log, one.match.line)
        for one in weighed
        if one.match.unit.exception
        and one.match.line == _line_of_message(one.match.unit)
        and not (one.match.pattern.wrapper or one.match.recipe.is_of_a_grammar)
    }
    return [
        one
        for one in weighed
        if one.match.pattern.severity is not Severity.INFO
        or one.match.recipe.family is not None
        or one.match.line <= (begins := _line_of_message(one.match.unit))
        or not one.match.unit.exception
        or (one.log, begins) not in of_its_own
    ]


def _line_of_message(unit: Unit) -> int:
    return unit.lines[min(unit.message_at, len(unit.lines) - 1)].number


def _without_what_was_not_installed(weighed: list[Weighed]) -> list[Weighed]:
    """The same without modules that are missing, where an installer says in the same log why it put nothing in, and
    that is known: to install the module again would fail again.
    """
    stopped = {one.log for one in weighed if _INSTALLED_NOTHING.search(one.match.unit.text)}
    return [one for one in weighed if one.log not in stopped or not _NOT_INSTALLED.search(one.match.quoted)]


def _families(kept: Iterable[Weighed], explained: Collection[int]) -> list[Weighed]:
    """The families of messages that no recipe explains: one per message; notices outside the attention stack only if
    there is no other.
    """
    best: dict[int, Weighed] = {}
    for one in sorted(kept, key=lambda one: one.order):
        if one.match.recipe.family is not None and id(one.match.unit) not in explained:
            best.setdefault(id(one.match.unit), one)
    printed = {unit: one for unit, one in best.items() if not is_told(one.match)}
    best = printed or best
    ours = [one for one in best.values() if one.match.recipe.family and one.match.recipe.family.ours]
    led = [one for one in ours if one.says_failed]
    only_notices = not led and any(one.says_failed for one in best.values())
    # A loss that is no number did not end the program that raised of something else.
    ended = all(one.computes_wrongly for one in led) and any(
        one.failed and not one.match.recipe.is_of_a_grammar for one in best.values()
    )
    if only_notices or ended or not ours:
        return list(best.values())
    # An exception of which a family knows one thing may be why one of our own follows.
    return [one for one in best.values() if one in ours or (one.failed and not one.match.recipe.is_of_a_grammar)]
