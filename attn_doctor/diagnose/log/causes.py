"""Turns the matches of one or more logs into a diagnosis: one finding for each cause, the most probable first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from attn_doctor.diagnose.binding import Binding
from attn_doctor.diagnose.finding import covers, finding_of, with_symptoms
from attn_doctor.diagnose.log.advice import with_its_own_words
from attn_doctor.diagnose.log.by_words import with_second_opinion
from attn_doctor.diagnose.log.choose import chosen
from attn_doctor.diagnose.log.join import join
from attn_doctor.diagnose.log.match import Match, patterns_of
from attn_doctor.diagnose.log.message_facts import of_match
from attn_doctor.diagnose.log.modules_wanted import with_what_brings_it
from attn_doctor.diagnose.log.others_wanted import with_those_beside_it
from attn_doctor.diagnose.log.partners import beside_its_partners
from attn_doctor.diagnose.log.pip_there import with_its_pip
from attn_doctor.diagnose.log.places import place_in
from attn_doctor.diagnose.log.plain_texts import plainly, title_of, told_plainly
from attn_doctor.diagnose.log.programs import for_users
from attn_doctor.diagnose.log.remedy_order import useful_first
from attn_doctor.diagnose.log.replaced import start_anew_first
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from attn_doctor.diagnose.log.there_already import in_the_python_that_runs
from attn_doctor.diagnose.log.two_packages import with_the_call
from attn_doctor.diagnose.log.unmet import drop_unmet
from attn_doctor.diagnose.log.weigh import Weighed, weigh
from attn_doctor.diagnose.log.went_well import has_nothing_to_tell, noted_where_it_went_well
from attn_doctor.diagnose.placeholders import filled
from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Diagnosis, Finding, Location, OpenQuestion, Remedy
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.left import left_for
from attn_doctor.recipes.recipe import Recipe

#: Most places listed for one cause; a thousand ranks report the same.
_MOST_LOCATIONS = 40
_LONGEST_QUOTE = 400
_PYTHON, _ABOUT = FactName.parse("python.executable"), FactName.parse("subject.package")
_ANY_PYTHON = Fact(name=_PYTHON, state=Known("python"), how="not named", origin=Origin.DERIVED)
_FRAME_LINE = when_used(r", line \d+")  # ranks raise the same from different lines
_RANK_IN_NAME = when_used(r"(?:^|[/_.-])(?:rank|RANK|worker|task|proc|local_rank|r)[_=-]?(\d{1,6})(?=[/_.-]|$)")
_TORCHRUN = when_used(r"attempt_\d+/(\d{1,6})/std(?:out|err)\.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted:
    """A message that recipes recognize, but whose known causes are impossible on this machine."""

    log: str
    line: int
    quoted: str
    recipes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The result for some logs."""

    diagnosis: Diagnosis
    facts: FactSet
    """The facts used: those on which all logs agree, and those known before."""
    refuted: tuple[Refuted, ...] = ()
    """Messages whose every known cause was refuted by facts, in order."""
    knows_a_failure: bool = False
    """A finding rests on an exception or on a line that says an error, not only on prose and notices."""


def explain(logs: Sequence[Scanned], base: FactSet, shelf: Mapping[str, Recipe] | None = None) -> Explained:
    """The diagnosis of scanned logs, from `base` and the facts in the logs themselves.

    With a `shelf`, the recipes by id, the words of a short log have a say where no more than a family is known.
    """
    weighed: list[Weighed] = []
    refuted: list[tuple[str, Match]] = []
    told: list[list[Fact]] = []
    known: list[FactSet] = []
    for log in logs:
        read = partial(list[Fact], log.clues.facts(log.name))
        clues = faults.survive("reading of what a log tells", read, lambda _reason: [])
        told.append(clues)
        known.append(facts := join(base, clues))
        alike: dict[tuple[str, int, str, str], Weighed | _NotWeighed | None] = {}
        for match in log.matches:
            part = f'weighing of recipe "{match.recipe.id}"'
            key = (match.recipe.id, id(match.pattern), match.unit.kind.value, _FRAME_LINE.sub("", match.unit.text))
            if key not in alike:
                weigh_it = partial(_weighed, match, facts, log.name)
                alike[key] = faults.survive(part, weigh_it, lambda _reason: _NOT_WEIGHED)
            found = alike[key]
            if isinstance(found, Weighed) and found.match is not match:
                found = replace(found, match=match)  # the same message, elsewhere
            if isinstance(found, _NotWeighed):
                continue
            if found is not None:
                weighed.append(found)
            elif not match.pattern.only_with_facts and match.recipe.family is None:
                refuted.append((log.name, match))
    kept = chosen(noted_where_it_went_well(weighed, logs))
    if shelf is not None and not any(map(has_nothing_to_tell, logs)):
        ask = partial(with_second_opinion, kept, [*zip(logs, known, strict=True)], shelf)
        kept = faults.survive("reading of a log's words", ask, lambda _reason: kept)
    groups: dict[str, list[Weighed]] = {}
    for one in sorted(kept, key=lambda one: one.order):
        groups.setdefault(one.match.recipe.id, []).append(one)
    several = len(logs) > 1
    symptoms = _symptoms(groups)
    hung = {name for names in symptoms.values() for name in names}
    groups_left = {name: group for name, group in groups.items() if name not in hung}
    every = (_finding(group, several=several) for group in groups_left.values())
    whole = (
        with_symptoms(one, tuple(_finding(groups[name], several=several) for name in symptoms.get(one.id, ())))
        for one in every
    )
    findings = tuple(sorted(whole, key=lambda one: one.severity.rank))
    leading = [groups_left[finding.id] for finding in findings]
    return Explained(
        diagnosis=Diagnosis(
            findings=findings,
            open_questions=tuple(
                OpenQuestion(recipe=finding.id, title=finding.title, undecided=group[0].undecided)
                for finding, group in zip(findings, leading, strict=True)
                if not (group[0].proven or finding.family or finding.possible)
                and (group[0].undecided or _has_rival(group[0], leading))
            ),
        ),
        facts=join(base, _agreed(told)),
        refuted=_refuted(refuted, weighed),
        knows_a_failure=any(one.says_what_failed and not one.by_words for one in kept),
    )


class _NotWeighed:
    """Replaces a match that could not be evaluated."""


_NOT_WEIGHED = _NotWeighed()


def _weighed(match: Match, facts: FactSet, log: str) -> Weighed | None:
    return weigh(match, join(facts, own) if (own := tuple(of_match(match, log, facts))) else facts, log)


def _symptoms(groups: dict[str, list[Weighed]]) -> dict[str, list[str]]:
    """Recipe -> recipes that it explains according to its own entry: where the symptom is, the proven cause is too."""
    found: dict[str, list[str]] = {}
    hung: set[str] = set()
    for cause, group in groups.items():
        for name in groups:
            if name == cause or name in hung or name in found or cause in hung:
                continue
            bound = group[0].binding.bound
            entries = [filled(entry, group[0].facts, bound) for entry in group[0].match.recipe.explains]
            if not all(any(covers(entry, name, one.binding) for entry in entries) for one in groups[name]):
                continue
            logs = {one.log for one in group if one.proven}
            if all(one.log in logs for one in groups[name]):
                found.setdefault(cause, []).append(name)
                hung.add(name)
    return found


def _refuted(ruled_out: Iterable[tuple[str, Match]], weighed: Iterable[Weighed]) -> tuple[Refuted, ...]:
    """One for each message, unless something else explains it, or the same log proves the recipe by other text."""
    weighed = tuple(weighed)
    explained = {id(one.match.unit) for one in weighed if one.match.recipe.family is None}  # a family names no cause
    proven = {(one.log, one.match.recipe.id) for one in weighed if one.proven}
    by_place: dict[tuple[str, int], list[Match]] = {}
    for log, match in ruled_out:
        if id(match.unit) not in explained and (log, match.recipe.id) not in proven:
            by_place.setdefault((log, match.line), []).append(match)
    return tuple(
        Refuted(log=log, line=line, quoted=of[0].quoted, recipes=tuple(dict.fromkeys(one.recipe.id for one in of)))
        for (log, line), of in sorted(by_place.items())
    )


def explain_text(text: str, recipes: Iterable[Recipe], facts: FactSet, *, pasted: bool = True) -> Explained:
    """The diagnosis of one short text. Unless it is `pasted`, it has to be known as it stands."""
    scanner = Scanner(patterns_of(recipes), given=words_of(facts))
    scanned = [scanner.scan("the text", [text])]
    if pasted:
        drop_unmet(scanned[0], facts)
        scanner.look_again(scanned)
    return explain(scanned, facts)


def words_of(facts: FactSet) -> str:
    """What somebody assumes, as a log would have it: a version that is named counts as if it stood close by."""
    lines = []
    for fact in facts.values():
        if fact.origin is Origin.ASSUMED and isinstance(fact.state, Known):
            name = fact.name.subject or fact.name.kind
            known = BY_NAME.get(name)
            lines += [f"{each} {fact.state.value}" for each in dict.fromkeys((name, known.module if known else name))]
    return "\n".join(lines)


def _agreed(told: Iterable[Iterable[Fact]]) -> list[Fact]:
    """Facts on which no two logs disagree."""
    by_name: dict[str, list[Fact]] = {}
    for facts in told:
        for fact in facts:
            by_name.setdefault(str(fact.name), []).append(fact)
    return [facts[0] for facts in by_name.values() if all(fact.state == facts[0].state for fact in facts)]


def _finding(group: list[Weighed], *, several: bool) -> Finding:
    first = group[0]
    # Commands are for the log's machine, whose interpreter is unknown.
    facts = first.facts if first.facts.value(_PYTHON) else first.facts.with_facts([_ANY_PYTHON])
    unit = first.match.unit
    paths = [path for path, _ in unit.frames]
    facts = with_the_call(with_what_brings_it(facts, paths, unit.message), paths, unit.message)
    recipe, facts = beside_its_partners(for_users(first.match.recipe, facts), facts, first.binding, unit.text)
    recipe = start_anew_first(in_the_python_that_runs(recipe, facts, unit), facts, unit)
    recipe, facts = with_its_pip(with_those_beside_it(recipe, facts, unit), facts)
    finding = finding_of(with_its_own_words(recipe, facts), facts, first.binding)
    if not finding.remedies and first.failed and not first.is_harmless:
        about = facts.text(_ABOUT) or recipe.library
        finding = finding_of(replace(recipe, remedies=left_for(about)), facts, first.binding)
    spoken = tuple(fact for fact in first.facts.values() if fact.name.kind == "log")
    return replace(
        finding,
        severity=first.severity,
        title=title_of(recipe, facts, first.binding, finding.title),
        what="",  # a recipe's `what` describes a finding on a node
        why=told_plainly(finding.why),
        certainty="seen" if first.proven and not (finding.family or first.place) else "inferred",
        subjects=tuple(dict.fromkeys(name for one in group if (name := _origin(one, several)))),
        locations=_locations(group),
        evidence=tuple(
            dict.fromkeys((*first.evidence, *(fact for fact in spoken if fact in first.evidence or _telling(fact))))
        ),
        known_problems=told_plainly(finding.known_problems),
        remedies=_steps(finding, facts, possible=bool(first.place)),
        by_words=first.by_words,
        possible=bool(first.place),
    )


def _steps(finding: Finding, facts: FactSet, *, possible: bool) -> tuple[Remedy, ...]:
    """What to do, the most useful first and each command once; of what is only possible first what tells whether it is
    that, and then what is to be done if so.
    """
    typed: dict[object, Remedy] = {}
    for one in {one.id: plainly(one) for one in useful_first(finding, facts)}.values():
        commands = tuple(command for each in one.actions for command in each.commands)
        typed.setdefault(one.id if finding.is_a_look(one) or not (finding.family and commands) else commands, one)
    # Two remedies of a recipe can become one, the program's own switch.
    said: dict[object, Remedy] = {}
    for one in typed.values():
        said.setdefault((one.title, one.actions), one)
    steps = tuple(said.values())
    if not possible:
        return steps
    looks, fixes = ([one for one in steps if finding.is_a_look(one) is look] for look in (True, False))
    return (*looks[:1], *fixes[:1], *looks[1:], *fixes[1:])


def from_words_alone(recipe: Recipe) -> Finding:
    """What a recipe says where nothing is known but its own words: no node or message decides its conditions."""
    facts, binding = FactSet([_ANY_PYTHON]), Binding()
    free = [replace(one, safe_when=(), unless=(), when=one.when * one.only_with_facts) for one in recipe.remedies]
    finding = finding_of(replace(recipe, when=(), reached=(), remedies=tuple(free)), facts, binding)
    return replace(
        finding,
        title=title_of(recipe, facts, binding, finding.title),
        what=told_plainly(finding.what),
        why=told_plainly(finding.why),
        known_problems=told_plainly(finding.known_problems),
        remedies=tuple(map(plainly, finding.remedies)),
    )


def _telling(fact: Fact) -> bool:
    return fact.name.attribute in ("fp32_operands", "symbol", "library", "innermost_owner", "reasons", "work_done")


def _origin(one: Weighed, several: bool) -> str:
    """`rank 3`: from the line's prefix, else from the name of the file."""
    if one.match.unit.origin:
        return one.match.unit.origin
    found = _TORCHRUN.search(one.log) or _RANK_IN_NAME.search(one.log)
    return f"rank {found[1]}" if found else one.log if several else ""


def _locations(group: list[Weighed]) -> tuple[Location, ...]:
    places: dict[tuple[str, int], Location] = {}
    seen: set[tuple[str, str]] = set()
    again: list[Location] = []
    sources: dict[Location, None] = {}
    for one in group:
        key = (one.log, one.match.line)
        if key in places:
            continue
        if (source := place_in(one.match.quoted)) is not None:
            sources[source] = None
        quoted = one.match.quoted
        note = quoted if len(quoted) <= _LONGEST_QUOTE else quoted[: _LONGEST_QUOTE - 2] + " …"
        location = Location(file=one.log, line=one.match.line, note=note)
        who = (one.log, one.match.unit.origin)
        if who in seen:
            again.append(location)
        else:
            places[key] = location
            seen.add(who)
    first = list(places.values())
    # The source line that a compiler names follows directly after the log line that reports it.
    return tuple(dict.fromkeys([*first[:1], *sources, *first[1:], *again]))[:_MOST_LOCATIONS]


def _has_rival(one: Weighed, groups: Iterable[list[Weighed]]) -> bool:
    """True when the same line may have another cause."""
    return any(
        (other.log, other.match.line) == (one.log, one.match.line) and other.match.recipe.id != one.match.recipe.id
        for group in groups
        for other in group[:1]
    )
