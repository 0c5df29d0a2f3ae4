"""Evaluates every recipe on the facts and makes findings of those that hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from attn_doctor.diagnose.binding import Binding, bind
from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.finding import asked, covers, finding_of, with_symptoms
from attn_doctor.diagnose.log.word_facts import words_among
from attn_doctor.diagnose.placeholders import filled
from attn_doctor.diagnose.possible import is_ruled_out
from attn_doctor.machine import faults
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Location, OpenQuestion, Safety, Severity, Verdict
from attn_doctor.model.outcomes import Certainty
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.recipe import AnyOf, Condition, Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    recipe: Recipe
    binding: Binding
    verdict: Verdict
    undecided: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    finding: Finding
    binding: Binding
    explains: tuple[str, ...]
    gives_way: bool = False
    stands_in: tuple[str, str] = ("", "")
    """The package and the function that contain the place it is about; empty outside known packages."""


def judge(facts: FactSet, recipes: Iterable[Recipe]) -> Diagnosis:
    """Makes the diagnosis. `facts` already contain the derived ones (`derive`)."""
    recipes = tuple(recipes)
    judgements: list[_Judgement] = []
    found: list[_Found] = []
    for recipe in recipes:
        these, of_these = faults.survive(
            f'judging of recipe "{recipe.id}"', partial(_judged, recipe, facts), partial(_not_judged, recipe)
        )
        judgements += these
        found += of_these
    found = faults.survive(
        "reading of what compilers and runs said", lambda: _with_words(found, facts, recipes), lambda _reason: found
    )
    opened = [one for one in judgements if one.verdict is Verdict.OPEN]
    chosen = {one.recipe.id for one in opened if all(_chosen(fact) for fact in one.undecided)}
    settled = (
        {one.recipe.id for one in judgements} - {one.recipe.id for one in opened} - {one.finding.id for one in found}
    )
    return Diagnosis(
        findings=_ranked(_folded(_explained(found))),
        open_questions=tuple(
            OpenQuestion(
                recipe=one.recipe.id,
                title=_titled(one, facts),
                undecided=one.undecided,
                subject=one.binding.named,
            )
            for one in opened
            if one.recipe.id not in chosen and not any(_newer(fact, facts) for fact in one.undecided)
        ),
        cleared=tuple(sorted(settled)),
        not_asked=tuple(sorted(chosen)),
    )


def _newer(fact: Fact, facts: FactSet) -> bool:
    """True for a release newer than the newest one checked: reported once instead of by every recipe."""
    package = fact.name.subject if fact.name.kind == "package" else fact.name.kind
    known = isinstance(fact.state, Known) and fact.name.attribute == "version"
    return known and facts.value(FactName("package", package, "newer_than_checked")) is True


def _titled(one: _Judgement, facts: FactSet) -> str:
    return faults.survive(
        f'judging of recipe "{one.recipe.id}"',
        lambda: filled(one.recipe.title, facts, one.binding.bound),
        lambda _reason: one.recipe.id,
    )


def _judged(recipe: Recipe, facts: FactSet) -> tuple[list[_Judgement], list[_Found]]:
    judgements = _judge(recipe, facts)
    return judgements, [
        _Found(
            finding=finding_of(recipe, facts, one.binding),
            binding=one.binding,
            explains=tuple(filled(entry, facts, one.binding.bound) for entry in recipe.explains),
            gives_way=recipe.gives_way,
            stands_in=_stands_in(one.binding, facts),
        )
        for one in judgements
        if one.verdict is Verdict.HOLDS
    ]


def _not_judged(recipe: Recipe, reason: str) -> tuple[list[_Judgement], list[_Found]]:
    """An open question for a recipe that could not be evaluated."""
    undecided = Fact(name=FactName("recipe", "", recipe.id), state=Unknown(reason), how="judged the recipe")
    return [_Judgement(recipe=recipe, binding=Binding(), verdict=Verdict.OPEN, undecided=(undecided,))], []


def _stands_in(binding: Binding, facts: FactSet) -> tuple[str, str]:
    if binding.kind != "promotion":
        return "", ""
    own = f"promotion.{binding.subject}."
    return facts.text(own + "package") or "", facts.text(own + "function") or ""


def _with_words(found: list[_Found], facts: FactSet, recipes: tuple[Recipe, ...]) -> list[_Found]:
    """Findings proven by messages of compilers or libraries replace those that only report a failure; a message whose
    cause is unknown adds the checks of its family (log/messages_here.py).
    """
    if next(words_among(facts), None) is None:
        return found
    found = list(found)
    # Imported here because the log modules import this one, and because it costs time that most runs do not need.
    from attn_doctor.diagnose.log import messages_here

    for one in messages_here.messages(facts, recipes):
        general = [i for i, other in enumerate(found) if other.gives_way and one.subject in other.finding.subjects]
        same = next(
            (
                i
                for i, other in enumerate(found)
                if other.finding.id == one.recipe.id and other.finding.subjects in ((), one.finding.subjects)
            ),
            None,
        )
        explained = any(_explains(other, found[i]) for i in general for other in found if other is not found[i])
        if one.finding.family:
            # It names no cause: the failure stays the finding, with the checks that tell its causes apart.
            for i in () if explained else general:
                found[i] = replace(found[i], finding=_with_checks(found[i].finding, one.finding, recipes))
            if one.words.name.kind == "trace" and one.recipe.family and one.recipe.family.ours:
                found = [*found, _Found(finding=one.finding, binding=one.binding, explains=())]
            continue
        # Only the message explains why a traced model raised; in other cases the facts have already shown the failure.
        failed = general or one.words.name.kind == "trace"
        if one.recipe.gives_way or (same is None and (explained or not failed)):
            continue
        symptoms = tuple(f"{found[i].finding.id}:={one.subject}" for i in general)
        if same is None:
            found = [*found, _Found(finding=one.finding, binding=one.binding, explains=symptoms)]
            continue
        before = found[same]
        found[same] = replace(
            before, finding=_confirmed(before.finding, one.finding), explains=(*before.explains, *symptoms)
        )
    return found


def _confirmed(finding: Finding, heard: Finding) -> Finding:
    """The finding from the facts, with what the message adds: observed, its severity, and its place."""
    return replace(
        finding,
        severity=min(finding.severity, heard.severity, key=lambda one: one.rank),
        certainty=Certainty.SEEN,
        locations=_joined(finding.locations, heard.locations),
        evidence=tuple(dict.fromkeys((*finding.evidence, *heard.evidence))),
    )


def _with_checks(finding: Finding, family: Finding, recipes: tuple[Recipe, ...]) -> Finding:
    """The finding with a family's checks: behind the remedies that facts have chosen, before the general ones."""
    written = (remedy for recipe in recipes if recipe.id == finding.id for remedy in recipe.remedies)
    fitting = {remedy.id for remedy in written if remedy.when}
    first = tuple(one for one in finding.remedies if one.id in fitting)
    rest = tuple(one for one in finding.remedies if one.id not in fitting)
    return replace(
        finding,
        why=f"{finding.why} It is of this family: {family.title}. {family.why}",
        remedies=(*first, *family.remedies, *rest),
        references=tuple(dict.fromkeys((*finding.references, *family.references))),
    )


def _joined(own: tuple[Location, ...], heard: tuple[Location, ...]) -> tuple[Location, ...]:
    """Each place once: lines before whole files; of lines the finding's own first, where the trouble begins, and those
    behind it where it was met."""
    return tuple(sorted(dict.fromkeys((*own, *heard)), key=lambda one: one.line is None))


def _judge(recipe: Recipe, facts: FactSet) -> list[_Judgement]:
    if not recipe.when:
        return []  # known from logs only
    if recipe.for_each is None:
        return [_judge_one(recipe, facts, Binding())]
    judgements = [
        _judge_one(recipe, facts, bind(facts, recipe.for_each, one)) for one in facts.subjects(recipe.for_each)
    ]
    listing = facts.fact(FactName("listed", "", recipe.for_each))
    if isinstance(listing.state, Unknown):
        # More members may exist than were found; conditions that do not depend on them may still decide.
        rest = tuple(condition for condition in recipe.when if not _each(condition))
        if answer_all(rest, facts) is not Verdict.FAILS:
            judgements.append(_Judgement(recipe=recipe, binding=Binding(), verdict=Verdict.OPEN, undecided=(listing,)))
        elif not judgements:
            judgements.append(_Judgement(recipe=recipe, binding=Binding(), verdict=Verdict.FAILS))
    elif not judgements:
        judgements.append(_Judgement(recipe=recipe, binding=Binding(), verdict=Verdict.FAILS))
    return judgements


def _each(condition: Condition) -> bool:
    questions = condition.questions if isinstance(condition, AnyOf) else (condition,)
    return any(question.fact.each for question in questions)


def _chosen(fact: Fact) -> bool:
    return isinstance(fact.state, Unknown) and not fact.state.asked


def _judge_one(recipe: Recipe, facts: FactSet, binding: Binding) -> _Judgement:
    verdict = Verdict.FAILS if is_ruled_out(recipe, facts) else answer_all(recipe.when, facts, binding.bound)
    undecided: tuple[Fact, ...] = ()
    if verdict is Verdict.OPEN:
        undecided = asked(recipe.when, facts, binding.bound, Verdict.OPEN)
    return _Judgement(recipe=recipe, binding=binding, verdict=verdict, undecided=undecided)


def _explained(found: list[_Found]) -> list[Finding]:
    """Moves symptoms below the findings that explain them: one root cause is reported once."""
    above: dict[int, int] = {}
    for number, one in enumerate(found):
        cause = next((i for i, other in enumerate(found) if i != number and _explains(other, one)), None)
        if cause is not None and not _is_above(number, cause, above):
            above[number] = cause
    return [_with_symptoms(i, found, above) for i in range(len(found)) if i not in above]


def _is_above(one: int, other: int, above: dict[int, int]) -> bool:
    """True when `other` is already below `one`: of two findings that explain each other, one must stay."""
    seen: int | None = other
    while seen is not None:
        if seen == one:
            return True
        seen = above.get(seen)
    return False


def _with_symptoms(number: int, found: list[_Found], above: dict[int, int]) -> Finding:
    finding = found[number].finding
    symptoms = tuple(_folded([_with_symptoms(i, found, above) for i, cause in above.items() if cause == number]))
    if not symptoms:
        return finding
    return with_symptoms(finding, symptoms)


def _explains(cause: _Found, symptom: _Found) -> bool:
    if symptom.finding.id == cause.finding.id:
        return False
    for entry in cause.explains:
        explained, _, whose = entry.partition(":")
        if whose.startswith("@"):  # `@package function`: the place of the symptom itself
            package, _, function = whose[1:].partition(" ")
            lies = symptom.stands_in[0] == package and function in ("", symptom.stands_in[1])
        elif whose.startswith("="):  # that subject alone, including its kind
            lies = symptom.binding.named == whose[1:]
        else:
            lies = covers(entry, symptom.finding.id, symptom.binding) or (
                not symptom.binding.kind and symptom.finding.library in whose.split(", ")
            )
        if lies and explained == symptom.finding.id:
            return True
    return False


def _folded(found: list[Finding]) -> list[Finding]:
    """Merges equal findings on several subjects into one."""
    groups: dict[tuple[str, Severity, str, tuple[tuple[str, Safety], ...]], list[Finding]] = {}
    for one in found:
        groups.setdefault((one.id, one.severity, one.title, tuple((r.id, r.safety) for r in one.remedies)), []).append(
            one
        )
    return [
        replace(
            group[0],
            what=_what_of_all(group),
            subjects=tuple(dict.fromkeys(subject for one in group for subject in one.subjects)),
            locations=tuple(dict.fromkeys(location for one in group for location in one.locations)),
            evidence=tuple(dict.fromkeys(fact for one in group for fact in one.evidence)),
            symptoms=tuple(symptom for one in group for symptom in one.symptoms),
        )
        for group in groups.values()
    ]


def _what_of_all(group: list[Finding]) -> str:
    """The text that all of them share; different texts are each preceded by their subject."""
    whose: dict[str, list[str]] = {}
    for one in group:
        whose.setdefault(one.what, []).extend(one.subjects)
    if len(whose) == 1:
        return group[0].what
    return " ".join(f"{', '.join(dict.fromkeys(subjects))}: {what}" for what, subjects in whose.items())


def _ranked(found: list[Finding]) -> tuple[Finding, ...]:
    return tuple(
        sorted(
            found, key=lambda one: (one.severity.rank, one.rank, one.certainty != Certainty.SEEN, one.id, one.subjects)
        )
    )
