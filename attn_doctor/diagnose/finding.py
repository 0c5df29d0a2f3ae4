"""Makes one finding from a recipe that holds for its bound members: evidence, remedies, symptoms, and what it
explains.
"""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.diagnose.binding import Binding, Bound, bound_fact
from attn_doctor.diagnose.conditions import answer, answer_all, fact_of
from attn_doctor.diagnose.placeholders import filled, installs_a_known_package, is_of_use, locations, remedy
from attn_doctor.diagnose.possible import is_possible
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.findings import Finding, Safety, Verdict
from attn_doctor.model.kinds import kind_of
from attn_doctor.model.outcomes import Certainty
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import AnyOf, Condition, OneOf, Recipe, RecipeRemedy

#: Attributes that show the problem itself, of kinds that otherwise only imply it.
_SHOWING = frozenset({"missing_symbols", "missing_libraries", "promotes"})
_SUBJECT = FactName.parse("subject.package")


def asked(conditions: Iterable[Condition], facts: FactSet, bound: Bound, verdict: Verdict) -> tuple[Fact, ...]:
    """The facts of the conditions that have this verdict."""
    return tuple(
        dict.fromkeys(
            fact_of(question, facts, bound)
            for condition in conditions
            for question in (condition.questions if isinstance(condition, AnyOf) else (condition,))
            if answer(question, facts, bound) is verdict
        )
    )


def finding_of(recipe: Recipe, facts: FactSet, binding: Binding) -> Finding:
    """The finding of a recipe that holds for its bound members."""
    bound = binding.bound
    reached = bool(recipe.reached) and answer_all(recipe.reached, facts, bound) is Verdict.HOLDS
    severity = recipe.severity_when_reached if reached and recipe.severity_when_reached else recipe.severity
    evidence = asked(recipe.when, facts, bound, Verdict.HOLDS)
    met = asked(recipe.reached, facts, bound, Verdict.HOLDS) if reached else ()
    evidence = tuple(dict.fromkeys((*evidence, *met)))
    return Finding(
        id=recipe.id,
        severity=severity,
        title=filled(recipe.title, facts, bound),
        what=filled(recipe.what, facts, bound),
        why=filled(recipe.why, facts, bound),
        certainty=Certainty.SEEN if any(map(_was_seen, met)) or _shown(evidence) else Certainty.INFERRED,
        library=recipe.library,
        subjects=(binding.named,) if binding.kind else (),
        aliases=recipe.aliases,
        locations=locations(recipe.where, facts, bound),
        evidence=evidence,
        remedies=tuple(
            remedy(_classed(one, facts, bound), facts, bound)
            for one in offered(recipe.remedies, facts, binding)
            if installs_a_known_package(one, facts, bound) and is_of_use(one, facts, bound)
        ),
        references=tuple(url for _, url in recipe.references),
        known_problems=filled(recipe.known_problems, facts, bound),
        status=recipe.status,
        family=recipe.family is not None,
        rank=recipe.rank,
        origin=f"{recipe.origin} sha256:{recipe.sha256}",
    )


def offered(written: Iterable[RecipeRemedy], facts: FactSet, binding: Binding) -> list[RecipeRemedy]:
    """The remedies whose conditions do not fail for the members of the finding, in the recipe's order, except that
    of those with conditions the ones that hold come before the ones that are open. A fallback keeps its place. One for
    certain packages is left out while nobody knows the package, if there is another.
    """
    left = [(one, verdict) for one in written if (verdict := _stands(one, facts, binding)) is not Verdict.FAILS]
    if not isinstance(bound_fact(_SUBJECT, facts, binding.bound).state, Known):
        left = [pair for pair in left if pair[1] is Verdict.HOLDS or not _for_packages(pair[0])] or left
    moves = [pair for pair in left if pair[0].when and not pair[0].fallback]
    in_order = iter(sorted(moves, key=lambda pair: pair[1] is Verdict.OPEN))
    return [next(in_order)[0] if one.when and not one.fallback else one for one, _ in left]


def _for_packages(written: RecipeRemedy) -> bool:
    """It is for messages about some packages alone."""
    return any(isinstance(one, OneOf) and one.fact == _SUBJECT for one in written.when)


def _classed(written: RecipeRemedy, facts: FactSet, bound: Bound) -> RecipeRemedy:
    """As safe, with the reason, where the conditions hold under which its meaning is the same."""
    if not written.safe_when or answer_all(written.safe_when, facts, bound) is not Verdict.HOLDS:
        return written
    return replace(written, safety=Safety.SAFE, why_this_safety=written.why_safe)


def _stands(written: RecipeRemedy, facts: FactSet, binding: Binding) -> Verdict:
    """Its conditions for the member that they fit best."""
    if withheld(written, facts, binding):
        return Verdict.FAILS
    verdicts = {answer_all(written.when, facts, bound) for bound in binding.choices(written.when, facts)}
    if Verdict.HOLDS in verdicts:
        return Verdict.HOLDS
    return Verdict.OPEN if Verdict.OPEN in verdicts and not written.only_with_facts else Verdict.FAILS


def withheld(written: RecipeRemedy, facts: FactSet, binding: Binding) -> bool:
    """True where a fact is known that it must not meet: one of `unless`, for every member; or where what its actions
    need is missing.
    """
    return not is_possible(written, facts, binding.bound) or any(
        all(answer_all((one,), facts, bound) is Verdict.HOLDS for bound in binding.choices((one,), facts))
        for one in written.unless
    )


def _shown(evidence: tuple[Fact, ...]) -> bool:
    return any(
        (kind_of(fact.name.kind).shows_trouble or fact.name.attribute in _SHOWING) and _was_seen(fact)
        for fact in evidence
    )


def _was_seen(fact: Fact) -> bool:
    """False for an assumed fact, and for one computed from it."""
    return not fact.rests_on_assumption


def with_symptoms(finding: Finding, symptoms: tuple[Finding, ...]) -> Finding:
    """Adds symptoms to their cause: an observed symptom makes the cause observed, and it is at least as severe."""
    every = (finding, *symptoms)
    return replace(
        finding,
        symptoms=symptoms,
        certainty=Certainty.SEEN if any(one.certainty == Certainty.SEEN for one in every) else finding.certainty,
        severity=min((one.severity for one in every), key=lambda one: one.rank),
    )


def covers(entry: str, id_: str, binding: Binding) -> bool:
    """True when an entry of `explains` covers a finding of this recipe on these members.

    `import-fails` covers each of them. After a colon comes the subject: its own, `x-transformers-*` for every subject
    with that prefix, or a distribution or its import name, for all of its parts; several are separated by commas.
    """
    explained, _, whose = entry.partition(":")
    if explained != id_:
        return False
    own = binding.subject
    if not whose or own == whose or (whose.endswith("*") and own.startswith(whose[:-1])):
        return True
    packages = (*binding.of("package"), *([own.partition(".")[0]] if binding.kind == "import" else []))
    return not {canonical_name(one) for one in whose.split(", ")}.isdisjoint(map(canonical_name, packages))
