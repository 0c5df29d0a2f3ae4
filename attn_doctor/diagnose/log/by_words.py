"""A second opinion: what a short log is about by its words, where patterns do not prove one cause.

A pattern knows a message by a few of its words; where it is a family's, half of the messages of the field that it meets
mean something else. A model of all words that the cases of each recipe have (recipes/words.json) is right about as
often as the patterns, and for other reasons: where both name the same, few are wrong. So where the family that the
patterns lead with is not among the model's first, nothing is stated: it and what the words are nearest to are told as
possible, the likelier first. So is a cause that is only likely and not the model's first, and what the words are near
to where nothing matches at all. A family whose messages are certain (what Python or a shell says by itself) stays
stated, unless a cause is likelier, and so does a notice of a program that goes on; so do a crash in native code, and
wrong results that somebody complains of beside notices: there the words are those of what stands around. Where the text
proves one cause the model's first has no say: there it was more often wrong than right. But what proves it is one line,
and where the words of all lines are far from the cause it was true for six of seven, as for two of three families among
the first three: these are possible too, and stand first (not where the line names a C++ function, which is no word).
What is less near is shown beside the answer as something to look at, never as a finding. A log without an error line in
which somebody complains is near to something as one with it is. That a family's own long text stood in the message was
held to be as good as the model's word until 2026-11-27: of 42 such families in four unread sets 16 were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_doctor.diagnose.log.match import Match, excludes
from attn_doctor.diagnose.log.scan import Scanned
from attn_doctor.diagnose.log.subjects import every_named
from attn_doctor.diagnose.log.unit import Line, Unit, UnitKind
from attn_doctor.diagnose.log.weigh import OF_LEARNING, OF_ONE_THING, WENT_ON, Weighed, is_told, weigh
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data import words
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: On 336 reports of the field that neither the patterns nor the model had seen: of the families among the model's first
#: three 7 in 100 were wrong, of those behind them or known by a grammar alone 31, and of single causes 4.
_AGREED = 3
#: Of 15 causes that were likely, and not the model's first, 5 were wrong; of 30 that were its first one.
_AGREED_ON_A_CAUSE = 1
#: From this score on the words' own stands before the family: behind a family with words of its own it was right for 11
#: of 14 such reports and the family for 3, below it for 3 of 14 and the family for 6; a grammar's was right more often
#: up to 0. Where nothing matches at all what is nearer than _ALONE is told.
_LIKELIER, _LIKELIER_THAN_A_GRAMMAR, _ALONE = -0.3, 0.0, -0.45
#: How near words have to be to be told at all: of the nearest down to here one of four was right, of further ones none
#: of 30 below the second score.
_NEAR, _NEAR_TOO = -0.7, -0.6
_MOST_NEAR, _MOST_POSSIBLE = 3, 3
#: Characters of a message by which its text is found again.
_BEGINNING = 40
#: The name of a C++ function, as linkers know it: it says which build it is of, and is no word.
_SYMBOL = when_used(r"\b_Z\w{6}|\?\w{3,80}@\w{1,80}@@")
#: Words that stand where somebody says that something is not as it should be.
_COMPLAINS = when_used(
    r"(?i)\b(?:not|can['’]?t|cannot|won['’]?t|does ?n['’]?t|is ?n['’]?t|un(?:able|available|supported)|fail\w*|wrong"
    r"|(?<!no )(?<!\b0 )(?:errors?|problems?|issues?)|no longer|stuck|hang\w*|crash\w*|freez\w*|slow\w*|forever"
    r"|(?:black|pure|only|random) (?:images?|pictures?|noise|output)|missing|refuse\w*|broken?)\b"
    r"|\b(?:for|takes|taking) (?:\d+|many|several) hours\b"
    r"|没有|不能|无法|不支持|报错|失败|卡住|错误"
)
#: Nothing was searched for.
_NO_PATTERN = LogPattern(pattern="")


def with_second_opinion(
    kept: list[Weighed], logs: Sequence[tuple[Scanned, FactSet]], shelf: Mapping[str, Recipe]
) -> list[Weighed]:
    """The same; a family that leads, or a likely cause, of which the words are not is one of several possible ones.

    `kept` are the matches that count, `logs` all that were read, with what is known of each: a long one has no words of
    its own. `shelf` has the recipes that were asked for, by id.
    """
    if not logs or not all(log.text for log, _ in logs):
        return kept
    if not kept:
        return _where_nothing_is_known(*logs[-1], shelf) if len(logs) == 1 else kept
    leading = min(kept, key=lambda one: one.order)
    led = leading.match.recipe
    if led.says_where or (led.harmless and leading.facts.value(WENT_ON) is True):
        return kept
    if leading.crashed or _SYMBOL.search(leading.match.quoted):
        return kept  # native code left no words of its own: all others are of what stood before it
    text, of_its_text = _text_of(leading, kept, [log for log, _ in logs])
    if leading.computes_wrongly and not all(one.says_failed for one in of_its_text):
        return kept  # the words are mostly those of the notices beside the complaint
    ranked = words.bundled().ranked(text)
    if not ranked or _agree(ranked, leading):
        return kept
    if led.family is None:
        # Of another cause the words alone knew too little: only what matches as well is told beside it.
        others = (one for one in of_its_text if one.match.recipe.family is None and one.match.recipe.id != led.id)
        possible = [leading, *sorted(others, key=lambda one: one.order)]
    else:
        before, behind = _rivals(leading, of_its_text, ranked[:_AGREED], shelf, text)
        if led.is_certain and all(one.match.recipe.id == led.id for one in before):
            return kept  # also where the words are of it, and not near enough
        possible = [*before[: _MOST_POSSIBLE - 1], leading, *behind][:_MOST_POSSIBLE]
    places = {one.match.recipe.id: place for place, one in enumerate(possible, start=1)}
    added = [one for one in possible if one.by_words]
    here = {id(one) for one in (*possible, *of_its_text)}
    return [
        replace(one, place=places.get(one.match.recipe.id, 0)) if id(one) in here else one for one in (*added, *kept)
    ]


def _agree(ranked: Sequence[words.Ranked], leading: Weighed) -> bool:
    """Whether the words are near to what leads and it is among the first; one of both is enough for a proven cause."""
    led = leading.match.recipe
    is_proven = led.family is None and leading.proven
    place, score = next(((at, one.score) for at, one in enumerate(ranked) if one.id == led.id), (len(ranked), None))
    if score is None:
        return is_proven  # of that the model knows nothing
    first, near = place < (_AGREED if led.family else _AGREED_ON_A_CAUSE), score >= _NEAR
    return first or near if is_proven else first and near


def _text_of(leading: Weighed, kept: list[Weighed], logs: Sequence[Scanned]) -> tuple[str, list[Weighed]]:
    """The text that the match stands in, and what else is of that text; several texts may have one name."""
    if len(logs) == 1:
        return logs[0].text, kept
    texts = [log.text for log in logs if log.name == leading.log]
    text = next((one for one in texts if leading.match.quoted[:_BEGINNING] in one), texts[0])
    return text, [one for one in kept if one.match.quoted[:_BEGINNING] in text]


def _rivals(
    leading: Weighed,
    of_its_text: Sequence[Weighed],
    nearest: Sequence[words.Ranked],
    shelf: Mapping[str, Recipe],
    text: str,
) -> tuple[list[Weighed], list[Weighed]]:
    """What the words are nearest to, as far as facts allow it: likelier than what leads, and less likely."""
    enough = _LIKELIER if leading.match.recipe.has_words_of_its_own else _LIKELIER_THAN_A_GRAMMAR
    there = leading.match
    before: list[Weighed] = []
    behind: list[Weighed] = []
    notices = {each.match.recipe.id for each in of_its_text if each.beside}
    for number, one in enumerate(nearest):
        if one.id in notices:
            continue  # the words are those of the notice
        matched = next((each for each in of_its_text if each.match.recipe.id == one.id and not _is_last(each)), None)
        told = matched
        if told is None and one.score >= (_NEAR_TOO if number else _NEAR):
            told = _weighed(shelf.get(one.id), there.unit, there.line, there.quoted, leading.facts, leading.log, text)
        if told is not None:
            notice = told.match.recipe.harmless and leading.says_failed  # it ended nothing, and something did
            (before if (matched or one.score >= enough) and not notice else behind).append(told)
    return before, behind


def _is_last(one: Weighed) -> bool:
    """Nothing that a program printed as what failed: it says how a process ended, or a person tells of it."""
    return one.follows or one.beside or is_told(one.match)


def _where_nothing_is_known(log: Scanned, facts: FactSet, shelf: Mapping[str, Recipe]) -> list[Weighed]:
    """What a log may be of that no recipe matches, where it is of a program that learns and its words are near enough:
    the nearest was right for 5 of 7 such reports, and for 6 of 9 that hold no error line: people tell of the trouble.
    """
    failed = log.last_failure or log.error_line or _complaint(log.text)
    if failed is None or facts.text(OF_LEARNING) != "shown":
        return []
    number, text = failed
    unit = Unit(kind=UnitKind.LINE, lines=(Line(number, text),))
    told: list[Weighed] = []
    for one in words.bundled().ranked(log.text)[:_MOST_POSSIBLE]:
        if one.score < (_NEAR_TOO if told else _ALONE):
            break
        if found := _weighed(shelf.get(one.id), unit, number, text, facts, log.name, log.text):
            told.append(replace(found, place=len(told) + 1))
    return told


def _complaint(text: str) -> tuple[int, str] | None:
    """The first line in which something is said not to be as it should, and its number."""
    lines = enumerate(text.splitlines(), start=1)
    return next(((number, line.strip()) for number, line in lines if _COMPLAINS.search(line)), None)


def _weighed(
    recipe: Recipe | None, unit: Unit, line: int, quoted: str, facts: FactSet, log: str, around: str
) -> Weighed | None:
    """The recipe as if it had matched there; None where facts, the line or its text speak against it, and for families
    whose words stand in logs of all kinds: wide ones, and those outside the attention stack.
    """
    family = recipe.family if recipe is not None else None
    if recipe is None or not recipe.logs or (family is not None and not (family.ours and recipe.rank < OF_ONE_THING)):
        return None
    if excludes(recipe, quoted, unit, around) or not _may_be_of(recipe.library, around):
        return None
    match = Match(recipe=recipe, pattern=_NO_PATTERN, unit=unit, line=line, quoted=quoted, length=0)
    told = weigh(match, facts, log)
    return None if told is None else replace(told, severity=Severity.INFO, by_words=True)


def _may_be_of(library: str, text: str) -> bool:
    """False for a package's own trouble in a text that does not name the package: of 32 that the words alone took for
    one of flash-attn, DeepSpeed, mamba-ssm or xformers none was.
    """
    if library not in BY_NAME or library == "torch":
        return True
    return library in text.lower().replace("_", "-") or any(name.startswith(library) for name in every_named(text))


def nearest(text: str, recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """The recipes whose words are nearest to those of a short log, the nearest first; none where all are far."""
    known = {recipe.id: recipe for recipe in recipes}
    near = (one for one in words.bundled().ranked(text) if one.score >= _NEAR and one.id in known)
    return tuple(known[one.id] for one in near)[:_MOST_NEAR]
