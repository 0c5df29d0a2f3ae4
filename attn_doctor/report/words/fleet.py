"""The verdict over a fleet as lines in sections, worst first, for text and HTML.

All text from nodes is made safe here: no control character reaches a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from attn_doctor.machine.printable import harmless
from attn_doctor.model.fingerprint import Importance
from attn_doctor.model.fleet import Cohort, Difference, FleetVerdict, NodeFinding, OddGroup, State
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.report.language import recipe_text, say, to_say

_T = TypeVar("_T")
Fold = Callable[[Iterable[str]], str]
#: Most entries shown of a long list; the JSON has all of them.
_MOST = 20
_MOST_VALUES = 6
_WIDTH = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, how bad it is (`bad`, `unsure`, `note`), and its lines: (nodes, words)."""

    title: str
    tone: str
    lines: tuple[tuple[str, str], ...]


def headline(verdict: FleetVerdict) -> str:
    """One sentence: fit or not, and how many."""
    counts = [f"{len(verdict.nodes_in(state)):,} {say(_WORDS[state])}" for state in State if verdict.nodes_in(state)]
    asked = "" if verdict.expected is None else say(" of {expected:,} expected nodes", expected=len(verdict.expected))
    answer = {0: say("fit"), 1: say("not fit"), 3: say("not known to be fit")}[verdict.exit_status]
    fit = set(verdict.nodes_in(State.FIT))
    blind = say(" (no GPU seen)") if fit and fit.issubset(verdict.without_gpu) else ""
    return f"{answer}: {'; '.join(counts) or say('no report arrived')}{asked}{blind}"


_WORDS = {
    State.FAILS: to_say("fail"),
    State.DRIFTS: to_say("drift"),
    State.MISSING: to_say("missing"),
    State.UNREADABLE: to_say("unreadable"),
    State.UNSURE: to_say("unsure"),
    State.FIT: to_say("fit"),
}


def cohort_lines(verdict: FleetVerdict, fold: Fold) -> Iterator[str]:
    """The cohorts, one line each."""
    for cohort in verdict.cohorts:
        count = say("1 node") if len(cohort.nodes) == 1 else say("{nodes:,} nodes", nodes=len(cohort.nodes))
        same = (
            say("one fingerprint")
            if cohort.fingerprints == 1
            else say("{fingerprints:,} fingerprints", fingerprints=cohort.fingerprints)
        )
        depth = (
            ""
            if not cohort.quick
            else say("; in depth: {fold}", fold=fold(cohort.deep))
            if cohort.deep
            else say("; files only")
        )
        yield _plain(f"{count}, {same}: {cohort_words(cohort)}{depth}")


def sections(verdict: FleetVerdict, fold: Fold) -> Iterator[Section]:
    """The sections, worst first."""
    told = [
        Section(title=say("missing"), tone="bad", lines=_missing(verdict, fold)),
        Section(title=say("unreadable"), tone="bad", lines=tuple(_unreadable(verdict))),
        Section(
            title=say("same name"), tone="bad", lines=_one(verdict.same_name, say("two machines go by this name"), fold)
        ),
        Section(title=say("fails"), tone="bad", lines=tuple(_failing(verdict, fold))),
    ]
    for cohort in verdict.cohorts:
        told += _odd_ones(cohort, verdict, fold)
    told += [
        Section(title=say("could not examine"), tone="unsure", lines=tuple(_unexamined(verdict, fold))),
        Section(
            title=say("not looked at in depth"),
            tone="unsure",
            lines=_one(verdict.not_deep, say("the deep examination sent no report"), fold),
        ),
        Section(
            title=say("no fingerprint"),
            tone="unsure",
            lines=_one(verdict.without_fingerprint, say("reports of an older attn-doctor: not compared"), fold),
        ),
    ]
    if verdict.age_decides:
        told.append(Section(title=say("too old"), tone="unsure", lines=tuple(_old(verdict.old, fold))))
    clocks = tuple(
        (node, say("its clock is off: the report is {what}", what=what)) for node, what in _most(verdict.skewed)
    )
    told.append(Section(title=say("not known how old"), tone="unsure", lines=clocks))
    told.append(Section(title=say("slower than its peers"), tone="unsure", lines=tuple(_most(verdict.slow))))
    for cohort in verdict.cohorts:
        told.append(
            Section(title=_titled("benign", cohort, verdict), tone="note", lines=_groups(cohort.benign, cohort, fold))
        )
    told.append(Section(title=say("also"), tone="note", lines=tuple(_notes(verdict, fold))))
    yield from _each_title_once(section for section in told if section.lines)


def _each_title_once(told: Iterable[Section]) -> Iterable[Section]:
    """Cohorts whose keys read alike share a section."""
    by_title: dict[str, Section] = {}
    for section in told:
        before = by_title.get(section.title)
        lines = section.lines if before is None else tuple(dict.fromkeys((*before.lines, *section.lines)))
        by_title[section.title] = replace(before or section, lines=lines)
    return by_title.values()


def _missing(verdict: FleetVerdict, fold: Fold) -> tuple[tuple[str, str], ...]:
    by_words: dict[str, list[str]] = {}
    for node in verdict.missing:
        by_words.setdefault(verdict.missing_because.get(node, ""), []).append(node)
    return tuple((fold(nodes), words or say("no report")) for words, nodes in _most(list(by_words.items())))


def _unreadable(verdict: FleetVerdict) -> Iterator[tuple[str, str]]:
    for one in verdict.unreadable[:_MOST]:
        who = one.node or (say("task {task}", task=one.task) if one.task is not None else "?")
        said = verdict.missing_because.get(who, "")
        yield who, f"{one.reason}  ({one.source}){f'; {said}' if said else ''}"
    if len(verdict.unreadable) > _MOST:
        yield "", say("and {number:,} more", number=len(verdict.unreadable) - _MOST)
    if any(one.unlabelled for one in verdict.unreadable):
        yield "", say("srun tears long lines apart: start it with --label, or use `check --format chunks`.")


def _failing(verdict: FleetVerdict, fold: Fold) -> Iterator[tuple[str, str]]:
    spoken_for = {node: deep for deep, nodes in verdict.stands_for.items() for node in nodes}
    for one in _most(verdict.failing):
        seen = [node for node in one.nodes if node not in spoken_for]
        note = (
            say("; seen on {fold}, the others have its fingerprint", fold=fold(seen))
            if len(seen) < len(one.nodes)
            else ""
        )
        yield fold(one.nodes), f"{_named(one.finding)}{note}"


def _odd_ones(cohort: Cohort, verdict: FleetVerdict, fold: Fold) -> list[Section]:
    critical = [one for one in cohort.undecided if one.importance is Importance.CRITICAL]
    return [
        Section(title=_titled("differs", cohort, verdict), tone="bad", lines=_groups(cohort.drifting, cohort, fold)),
        Section(
            title=_titled("no majority", cohort, verdict),
            tone="bad",
            lines=tuple(line for one in _most(critical) for line in _values(one, fold)),
        ),
        Section(
            title=_titled("not compared", cohort, verdict),
            tone="unsure",
            lines=tuple(
                (
                    fold(value.nodes),
                    say(
                        "{fact} {shown}; the others have {baseline}",
                        fact=one.fact,
                        shown=value.shown,
                        baseline=one.baseline,
                    ),
                )
                for one in _most(cohort.uncompared)
                for value in one.unknown[:_MOST_VALUES]
            ),
        ),
        Section(
            title=_titled("unknown on every node", cohort, verdict),
            tone="unsure" if cohort.unproven else "note",
            lines=tuple((fold(cohort.nodes), f"{fact} {why}") for fact, why in _most(cohort.unknown)),
        ),
        Section(
            title=_titled("not in the golden file", cohort, verdict),
            tone="unsure",
            lines=_one(cohort.nodes if cohort.golden_missing else (), say("it knows no such cohort"), fold),
        ),
    ]


def _titled(words: str, cohort: Cohort, verdict: FleetVerdict) -> str:
    alike = say(
        "{more} of {nodes:,}", more=say("golden file") if cohort.by_golden else say("majority"), nodes=len(cohort.nodes)
    )
    title = say("{words} from the {alike}", words=say(words), alike=alike) if words == "differs" else say(words)
    several = len({cohort.key for cohort in verdict.cohorts}) > 1
    return f"{title} ({cohort_words(cohort)})" if several else title


def cohort_words(cohort: Cohort) -> str:
    """The properties that a cohort shares."""
    return _plain(", ".join(value for _, value in cohort.key if value) or say("no GPU"))


def _groups(groups: Sequence[OddGroup], cohort: Cohort, fold: Fold) -> tuple[tuple[str, str], ...]:
    # Not `old → new`: elsewhere an arrow is a change to make, and a reader turned the right nodes round.
    right = say("the golden file has") if cohort.by_golden else say("the others have")
    lines = []
    for group in _most(groups):
        changes = [f"{fact} {here}; {right} {theirs}" for fact, theirs, here in group.differences[:_MOST_VALUES]]
        if len(group.differences) > _MOST_VALUES:
            changes.append(say("and {number:,} facts more", number=len(group.differences) - _MOST_VALUES))
        lines += [(fold(group.nodes) if place == 0 else "", change) for place, change in enumerate(changes)]
    if len(groups) > _MOST:
        lines.append(("", say("and {number:,} groups more", number=len(groups) - _MOST)))
    return tuple(lines)


def _values(one: Difference, fold: Fold) -> Iterator[tuple[str, str]]:
    for value in one.others[:_MOST_VALUES]:
        yield fold(value.nodes), f"{one.fact} {value.shown}"
    if len(one.others) > _MOST_VALUES:
        yield (
            "",
            say(
                "{fact} has {others:,} values in all: a fact that is each node's own?",
                fact=one.fact,
                others=len(one.others),
            ),
        )
    yield "", say("--golden FILE says which one is right.")


def _unexamined(verdict: FleetVerdict, fold: Fold) -> Iterator[tuple[str, str]]:
    by_words: dict[str, list[str]] = {}
    for node, why in verdict.unexamined:
        by_words.setdefault(why or say("its report says so"), []).append(node)
    for why, nodes in _most(list(by_words.items())):
        yield fold(nodes), why


def _old(nodes_of: Iterable[tuple[str, str]], fold: Fold) -> Iterator[tuple[str, str]]:
    by_day: dict[str, list[str]] = {}
    for node, created in nodes_of:
        by_day.setdefault(created[:10], []).append(node)
    for day, nodes in _most(sorted(by_day.items())):
        yield fold(nodes), say("last examined on {day}", day=day)


def _notes(verdict: FleetVerdict, fold: Fold) -> Iterator[tuple[str, str]]:
    for one in _most(verdict.warned):
        yield fold(one.nodes), f"{_named(one.finding)}"
    if verdict.without_gpu:
        yield fold(verdict.without_gpu), say("no GPU seen: nothing here says that a GPU job would run")
    for state, nodes in verdict.kernels:
        yield fold(nodes), say(_KERNELS[state])
    if verdict.without_torch:
        yield (
            fold(verdict.without_torch),
            say("no torch in its environment: nothing here says that attention would run"),
        )
    for cohort in verdict.cohorts:
        for difference in cohort.undecided:
            if difference.importance is not Importance.CRITICAL:
                yield (
                    fold(cohort.nodes),
                    say(
                        "{fact} has no majority: {others:,} values", fact=difference.fact, others=len(difference.others)
                    ),
                )
        alone = cohort.nodes[0] if len(cohort.nodes) == 1 else ""
        if (
            alone
            and len(verdict.states) > 1
            and not any(alone in other.nodes for other in verdict.cohorts if other is not cohort)
        ):
            yield (
                fold(cohort.nodes),
                say(
                    "compared with no other node: alone in its cohort ({cohort_words})",
                    cohort_words=cohort_words(cohort),
                ),
            )
    yield from _old(verdict.aging if verdict.age_decides else {*verdict.old, *verdict.aging}, fold)
    for version, nodes in verdict.versions:
        yield fold(nodes), f"attn-doctor {version}"
    yield from _one(verdict.repeated, say("several reports: the latest counts"), fold)
    yield from _one(verdict.unexpected, say("not expected"), fold)
    for recipe, nodes in _most(verdict.open_questions):
        yield fold(nodes), say("open question: {recipe}", recipe=recipe)


_KERNELS = {
    "ran": to_say("attention kernels were run there (--kernels)"),
    "none ran": to_say("attention kernels were asked for (--kernels), and none was run"),
    "not asked for": to_say("no attention kernel was asked for there (--kernels)"),
}


def _named(one: NodeFinding) -> str:
    return f"[{say(one.severity)}] {one.id}: {recipe_text(one.id, one.title)}"


def _one(nodes: Sequence[str], words: str, fold: Fold) -> tuple[tuple[str, str], ...]:
    return ((fold(nodes), words),) if nodes else ()


def _most(items: Sequence[_T]) -> Sequence[_T]:
    return items[:_MOST]


def _plain(text: str) -> str:
    """Without control characters, and not endless."""
    shown = harmless(text).replace("\n", "\\x0a")
    return shown if len(shown) <= _WIDTH * 4 else f"{shown[: _WIDTH * 4]}…"


def plain(line: tuple[str, str]) -> tuple[str, str]:
    """A line as it may be shown."""
    return _plain(line[0]), _plain(line[1])
