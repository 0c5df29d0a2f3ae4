"""Weighs matches: evaluates their conditions, their severity and their order."""

from __future__ import annotations

import re
from collections.abc import Callable

from attn_doctor.diagnose.binding import Binding, bind
from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.finding import asked
from attn_doctor.diagnose.log.error_lines import says_an_error, says_what_failed
from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.strangers import is_elsewhere, may_be_of_any_program
from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.diagnose.possible import is_ruled_out
from attn_doctor.model.facts import Fact, FactName, FactSet
from attn_doctor.model.findings import Severity, Verdict
from attn_doctor.model.kinds import kind_of
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.recipe import Family, LogPattern, Recipe

_OWNER, _OWNERS = FactName.parse("log.innermost_owner"), FactName.parse("log.owners")
_NAME_PACKAGE = FactName.parse("log.name_package")  # the package that lacks a name, whoever asks for it
_FOREIGN, _TORCH = FactName.parse("log.foreign"), FactName.parse("torch.version")
_REMOTE = FactName.parse("log.remote")
OF_LEARNING = FactName.parse("log.of_learning")
_SUBJECT = FactName.parse("subject.package")
WENT_ON = FactName.parse("log.went_on")
#: The line in which the program did its work after all.
WORK_DONE = FactName.parse("log.work_done")
#: Families of a higher rank are of any message that has some words.
OF_ONE_THING = 60
#: Levels of records that report a failure.
_FAILED = frozenset("ECF")
#: Frames and words of a program that loads its additions one by one, and starts without the one that fails.
SURVIVED = when_used(r", in load_(?:custom_node|scripts)\b|^Cannot import [^\n]{1,300} for custom nodes", re.MULTILINE)
#: What a person typed, and a shell repeated: a command is no message of what it does.
_TYPED = when_used(
    r"^\s*(?:\([\w.-]{1,40}\) ?)?(?:[\w.-]{1,40}@[\w.-]{1,60}[: ][^$#\n]{0,100}[$#]|PS [A-Z]:[^>\n]{0,120}>) ?\S"
)
#: What the person says of it, in the first person; what a program printed beside it is nearer to the trouble.
_TOLD = when_used(r"\b(?:I|[Ww]e|I'm|[Mm]y) (?:\w+ ){0,3}\w")
#: What a shell or a launcher says of a process that a signal ended: after the program's own warnings it is what counts.
ENDED = when_used(
    r"^\s*(?:\S{1,80}: line \d+: +\d+ )?(?:Killed|Segmentation fault|Bus error|Illegal instruction)\b(?! by)"
    r"|terminated by signal SIG[A-Z]|\(core dumped\)|exits with return code = -\d|\(exitcode: -\d|died with <Signals"
    r"|Fatal Python error: (?:Aborted|Segmentation|Bus|Illegal|Floating)"
    r"|(?:exit|exception|return|status)[ _]?code:? ?\W?"
    r"(?:-(?:6|7|11)\b|13[49]\b|0x[cC]0000(?:005|094|409)\b|0x80000003\b|3221225477|3221226505|2147483651"
    r"|-?10737(?:41819|41676|40791|40940|41571)\b)",
    re.MULTILINE,
)
_NO_PARTS = frozenset({"torch"})  # its own files are no extensions of it
_WRONG_RESULTS = "numerics"  # what a family is about whose programs go on, and compute wrongly


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A match and the result of its conditions on the facts."""

    match: Match
    log: str
    facts: FactSet
    verdict: Verdict
    binding: Binding
    evidence: tuple[Fact, ...]
    """Facts that fulfil its conditions."""
    undecided: tuple[Fact, ...]
    """Facts that would decide it and that a person can find out."""
    severity: Severity
    survived: bool = False
    """The program went on after it, and failed of something else."""
    follows: bool = False
    """It only says how a process ended that had raised before."""
    beside: bool = False
    """It warns of one thing, and is never why the program failed of the other."""
    by_words: bool = False
    """No pattern of it stands there: the words are those of its cases (by_words.py)."""
    place: int = 0
    """Among those that are possible and of which none is stated (by_words.py), from 1; 0 for what is stated."""

    @property
    def failed(self) -> bool:
        """Its message is an exception that was no warning, or says that a program could not load an addition, or that a
        signal ended it.
        """
        unit = self.match.unit
        raised = bool(unit.exception) or SURVIVED.search(unit.text) or ENDED.search(unit.text)
        return bool(raised) and unit.kind is not UnitKind.WARNING and not self.survived

    def _on_error(self, says: Callable[[str, str], bool]) -> bool:
        """Its message is no exception, and a line that says that some program failed."""
        unit = self.match.unit
        if unit.exception or unit.kind is UnitKind.WARNING or self.survived or is_told(self.match):
            return False
        said = next((line for line in unit.lines if line.number == self.match.line), unit.lines[0])
        return any(says(line.text, line.level) for line in (unit.lines[0], said))

    @property
    def says_failed(self) -> bool:
        """It is of an exception, or of an error of which it knows more than its form."""
        return self.failed or self.computes_wrongly or (self._is_known and self._on_error(says_an_error))

    @property
    def computes_wrongly(self) -> bool:
        """It is of wrong results: nothing is raised, and it is what somebody complains of, not a notice beside it."""
        recipe = self.match.recipe
        about = recipe.family.about if recipe.family is not None else ""
        noted = self.survived or self.match.unit.kind is UnitKind.WARNING or self.facts.value(WENT_ON) is True
        return about == _WRONG_RESULTS and not (noted or recipe.is_of_a_grammar)

    @property
    def is_of_what_goes_on(self) -> bool:
        """It is a notice about which nothing has to be done, or after which the program says that it goes on."""
        went_on = self.facts.value(WENT_ON) is True and not self.match.unit.exception
        return not self.failed and (went_on or (self._is_notice and self.is_harmless))

    @property
    def is_harmless(self) -> bool:
        """Its recipe says of every notice that nothing has failed."""
        recipe = self.match.recipe
        return recipe.harmless or (recipe.family is None and recipe.severity is Severity.INFO)

    @property
    def warns(self) -> bool:
        """Its message is a warning that proves one cause, and no record of a failure."""
        return self.severity is Severity.WARNING and not self.failed and self._is_notice and self.proven

    @property
    def crashed(self) -> bool:
        """It is of a process that a signal ended, in a program of the attention stack."""
        family = self.match.recipe.family
        ours = family is not None and family.ours
        return ours and not self.follows and self.failed and ENDED.search(self.match.quoted) is not None

    @property
    def says_what_failed(self) -> bool:
        """The same, and the line is not only the last word of a step whose own error stands above it."""
        return self.failed or (self._is_known and self._on_error(says_what_failed))

    @property
    def _is_known(self) -> bool:
        recipe = self.match.recipe
        return not self.match.pattern.wrapper and (recipe.is_certain or not recipe.is_of_a_grammar)

    @property
    def proven(self) -> bool:
        """The text alone proves it, or the facts do."""
        return self.match.pattern.confirms or (self.verdict is Verdict.HOLDS and bool(self.evidence))

    @property
    def _standing(self) -> int:
        """Recipes stand before families; but what a notice says never leads where an exception is of a family, one that
        nothing has to be done about never where anything else is known, one after which the program went on not where a
        line is of a family, and the last words of a failed build lead no note. An exception that is known by its
        grammar alone stands behind a line of which one thing is known.
        """
        failed = self.failed and not self.match.pattern.wrapper
        if self.place:
            return 0
        if self.beside:
            return 7
        if self.follows:
            return 6
        family, rank = self.match.recipe.family, self.match.recipe.rank
        if family is None:
            said = not self._is_notice and not self.match.pattern.wrapper  # a compiler's error is no notice
            if self.match.recipe.harmless and not failed and self.severity is Severity.INFO:
                return 7  # also where its record calls it an error
            if failed or said or self.severity is not Severity.INFO:
                return 0
            return 6 if self.facts.value(WENT_ON) is True else 3
        if failed:
            return 5 if self.match.recipe.is_of_a_grammar else 1
        if self.says_failed and not self.failed:
            return 2
        if self.facts.value(WENT_ON) is True:
            # A sentence that tells of the notice and of wrong results asks for these.
            complained = family.about == _WRONG_RESULTS and self.match.unit.kind is UnitKind.LINE
            return 5 if complained else 6 if self.match.recipe.harmless else 7
        return 6 if rank >= OF_ONE_THING else 3 if family.ours else 4

    @property
    def _is_notice(self) -> bool:
        """The program went on after it: neither an exception nor a compiler's message, nor a record of a failure."""
        unit = self.match.unit
        failed = unit.kind not in (UnitKind.WARNING, UnitKind.LINE)
        on = not failed and not any(line.level in _FAILED for line in unit.lines if line.level)
        return self.survived or on

    @property
    def order(self) -> tuple[int, int, int, bool, bool, int, int, int, int, int, int]:
        """Sort key; the smallest comes first."""
        return (
            self.severity.rank,
            self._standing,
            self.place,
            self.match.pattern.wrapper,
            self._is_notice,
            self.match.unit.depth,
            0 if self.proven else 1 if self.evidence else 2,
            self.match.unit.kind is UnitKind.LINE,
            self.match.recipe.rank,
            -self.match.length,
            self.match.line,
        )


def is_told(match: Match) -> bool:
    """True for a sentence in which a person tells of the trouble."""
    return match.unit.kind is UnitKind.LINE and _TOLD.search(match.quoted) is not None


def weigh(match: Match, facts: FactSet, log: str) -> Weighed | None:
    """The match with its result; None when facts refute it."""
    recipe, pattern = match.recipe, match.pattern
    conditions = recipe.when if pattern.when is None else pattern.when
    if recipe.family is not None and (facts.value(_REMOTE) or not _is_of(recipe.family, match.unit, facts)):
        return None
    if recipe.family is not None and match.unit.kind is UnitKind.LINE and _TYPED.match(match.quoted):
        return None
    if not _is_of_such_a_program(recipe, pattern, facts):
        return None
    if is_ruled_out(recipe, facts):
        return None
    facts, candidates = _about(facts, recipe.for_each)
    # Of several GPUs the one that fits best: the log's GPU may be any of them.
    verdicts = [
        (answer_all(conditions, facts, bound), binding, bound)
        for binding in candidates
        for bound in binding.choices(conditions, facts)
    ]
    best, binding, bound = min(verdicts, key=lambda one: (Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS).index(one[0]))
    if (best is Verdict.FAILS and not pattern.confirms) or (best is Verdict.OPEN and pattern.only_with_facts):
        return None
    undecided = asked(conditions, facts, bound, Verdict.OPEN) if best is Verdict.OPEN else ()
    if pattern.confirms:
        undecided = ()
    return Weighed(
        match=match,
        log=log,
        facts=facts,
        verdict=Verdict.HOLDS if pattern.confirms else best,
        binding=binding,
        evidence=tuple(one for one in asked(conditions, facts, bound, Verdict.HOLDS) if one.name != WENT_ON),
        undecided=tuple(fact for fact in undecided if kind_of(fact.name.kind).askable),
        severity=_severity(match, recipe, facts),
    )


def _is_of_such_a_program(recipe: Recipe, pattern: LogPattern, facts: FactSet) -> bool:
    """Whether the log is of a program that the pattern asks for; what a message of Python, a shell or an installer says
    by itself it says of any program.
    """
    of_any = recipe.is_certain and not (recipe.family and recipe.family.ours) and pattern.of_learning == "possible"
    shown = facts.text(OF_LEARNING) or "possible"
    return pattern.of_learning is None or of_any or shown in (pattern.of_learning, "shown")


def _is_of(family: Family, unit: Unit, facts: FactSet) -> bool:
    """True when the exception's class and the message's owner are those of the family."""
    cls = unit.exception.rpartition(".")[2]
    if cls and family.exceptions and cls not in family.exceptions:
        return False
    if not family.owners:
        return True
    told = facts.value(_OWNERS)
    owners = {*(told if isinstance(told, tuple) else ()), unit.exception.partition(".")[0]}
    subject = facts.text(_SUBJECT)
    return any(one in owners or distribution_of(one) == subject for one in family.owners)


def _about(facts: FactSet, kind: str | None) -> tuple[FactSet, list[Binding]]:
    """The subjects that the match may concern, and the facts including those from its text.

    The package of a message is its subject even if this node has no such package.
    """
    if kind is None:
        return facts, [bind(facts, None, None)]
    subjects = facts.subjects(kind)
    package = facts.text(_SUBJECT)
    if kind == "package" and package:
        subjects = (package,)
    elif kind_of(kind).part_of_package and package and package not in _NO_PARTS:
        own = tuple(one for one in subjects if facts.text(FactName(kind, one, "package")) == package)
        if not own:
            told = facts.fact(_SUBJECT)
            own = (str(facts.value(_OWNER) or package),)
            facts = facts.with_facts([replace(told, name=FactName(kind, own[0], "package"))])
        subjects = own
    return facts, [bind(facts, kind, one) for one in subjects or ("0",)]


def _severity(match: Match, recipe: Recipe, facts: FactSet) -> Severity:
    if recipe.family is not None or is_elsewhere(
        recipe.library, facts.text(_NAME_PACKAGE) or facts.text(_SUBJECT), match.unit.kind
    ):
        return Severity.INFO
    if facts.value(_FOREIGN) and may_be_of_any_program(recipe.library) and not facts.value(_TORCH):
        return Severity.INFO  # the compiler or driver of a program that has no part of the attention stack
    if facts.value(WENT_ON) is True and match.unit.kind is UnitKind.LINE and not says_an_error(match.quoted, ""):
        return Severity.INFO
    if match.pattern.severity is not None:
        return match.pattern.severity
    if match.unit.kind is UnitKind.WARNING:
        return recipe.severity  # a warning proves no more than the facts do
    if recipe.severity_when_reached is not None:
        return recipe.severity_when_reached
    return Severity.INFO if recipe.severity is Severity.INFO else Severity.ERROR
