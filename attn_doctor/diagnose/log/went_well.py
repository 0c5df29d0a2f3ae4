"""Tells where a short log shows that its program did its work after all: then what it said before is a notice.

A server that answers, tests that passed, steps of a training whose loss is a number, an installer that installed. What
fails behind that place stays a failure, and so does all in a log in which a person complains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attn_doctor.diagnose.log.scan import Scanned
from attn_doctor.diagnose.log.unit import UnitKind
from attn_doctor.diagnose.log.weigh import OF_ONE_THING, WORK_DONE, Weighed
from attn_doctor.model.facts import Fact, Known, Origin
from attn_doctor.model.findings import Severity
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used

#: Work that no program does after it failed.
_DONE = when_used(
    r"^=+ (?![^\n]{0,200}\b(?:failed|errors?)\b)(?:[^\n=]{0,80}, )?\d+ passed\b"
    r"|\"POST [^\"\n]{1,200} HTTP/\d(?:\.\d)?\" 200\b"
    r"|^[^\n]{0,160}[\"'](?:train_runtime|eval_loss|train_loss)[\"'] ?: ?[\"']?\d+\.\d*[1-9]"
    r"|^[^\n]{0,400}(?<![\w-])[\"']?(?:lm[ _])?loss[\"']? ?[:=] ?[\"']?(?:\d+\.\d*[1-9]\d*|\d+\.\d+[eE][+-]?\d+)\b"
    r"|^\s*\*{3,} (?:train|eval) metrics \*{3,}|\bTraining (?:completed|finished|complete)\b"
    r"|\bserved \d+ requests\b[^\n]{0,80}\berrors 0\b"
)
#: Work that some do although a part of it raised: ComfyUI says so of a prompt that failed.
_DONE_OR_SO = when_used(
    r"^(?:\[[^\]\n]{1,60}\] ?)?Prompt executed in \d|^\s*Successfully (?:installed|built) \S"
    r"|\bApplication startup complete\b"
    r"|\bUvicorn running on http|^(?:all )?done in \d"
    r"|^\s*(?:\+ )?Installed \d+ packages? in \d"
)
#: What says that something is wrong, behind the work or in a person's words.
_WRONG = when_used(
    r"Traceback \(most recent|\b\w{2,60}(?:Error|Exception|Interrupt)\b(?! ?(?:handling|0))"
    r"|(?i:(?<!no )(?<!0 )\berrors?\b(?! ?[:=]? ?0))"
    r"|(?i:\bfail(?:s|ed|ure|ing)?\b(?! ?[:=]? ?0))|\b(?:Killed|Aborted|Segmentation fault|core dumped|SIG[A-Z]{3,6})\b"
    r"|(?<![\w/])(?:nan|NaN)(?![\w/])(?! iterations: +0\b)|\bout of memory\b"
    r"|\b(?:stuck|hang|hangs|hung)\b|HTTP/\d(?:\.\d)?\" [45]\d\d\b|\bexit(?:ed)? (?:code|status|with)[^\n]{0,12}[1-9]"
)
_COMPLAINS = when_used(
    r"\b(?:I|I'm|[Mm]y|[Ww]e|[Oo]ur)\b[^\n]{0,200}"
    r"\b(?:not|can't|cannot|doesn't|won't|wrong|slow\w*|problem|issue|black|garbage|nonsense|help)\b"
    r"|\b(?:but|however|although)\b[^\n]{0,120}\b(?:black|noise|garbage|nonsense|slow(?:er|ly)?|wrong)\b"
    r"|\b(?:why|how (?:do|can|to)|what (?:is|does)|is (?:it|this|that) (?:because|due))\b[^\n]{0,200}\?"
    r"|\b(?:has|have|had|with) no (?:visible )?effect\b"
    r"|(?:怎么|为什么|为何|如何|求助|请问|问题|报错|不行|全黑|黑图|乱码|噪点|很慢)"
)
#: A list of what changed between releases names failures that are mended.
_OF_CHANGES = when_used(r"(?i)^\W{0,6}(?:release notes|change ?log|what(?:'|’)?s (?:new|changed))\b")
_ITEM = when_used(r"^\s{0,6}(?:[*•+-]|\d{1,2}[.)]) \S")
_FEWEST_ITEMS = 4
#: pip tells of conflicts just before the line in which it says what it installed: that line says nothing of them.
_OF_PIP = when_used(r"^\s*Successfully installed \S")
_CONFLICT = when_used(r"requires [^\n]{1,120}, but you have \S{1,80} \S{1,40} which is incompatible")
#: What a test runner says of tests that are to fail, or are not run.
_OF_A_TEST = when_used(r"^\s*(?:XFAIL|XPASS|SKIPPED|PASSED)\b")


@dataclass(frozen=True, slots=True)
class _End:
    line: int
    """Number of the last line of such work."""
    text: str
    certain: bool
    """What raised before is survived as well."""


def noted_where_it_went_well(weighed: Sequence[Weighed], logs: Iterable[Scanned]) -> list[Weighed]:
    """The same; as notes what stands before a program's work was done, and without what is only named: changes between
    releases, tests that are meant to fail.
    """
    short = {log.name: log.text for log in logs if log.text}
    ends = {name: _good_end(text) for name, text in short.items()}
    changes = {name for name, text in short.items() if _is_a_list_of_changes(text)}
    found = (_noted(one, ends, changes) for one in weighed)
    return [one for one in found if one is not None]


def has_nothing_to_tell(log: Scanned) -> bool:
    """Whether it is of a program that did its work, or a list of changes: its words are near to no trouble."""
    return bool(log.text) and (_good_end(log.text) is not None or _is_a_list_of_changes(log.text))


def _noted(one: Weighed, ends: Mapping[str, _End | None], changes: set[str]) -> Weighed | None:
    unit = one.match.unit
    if _OF_A_TEST.match(one.match.quoted) or (one.log in changes and _ITEM.match(one.match.quoted)):
        return None
    end = ends.get(one.log)
    # What stands in the line itself came with that step, not before it.
    if end is None or unit.lines[-1].number > end.line or one.match.line == end.line:
        return one
    raised = bool(unit.exception) and unit.kind is not UnitKind.WARNING
    if raised and not end.certain:
        return one
    recipe = one.match.recipe
    if recipe.silent:
        return one  # such a run goes on, and computes wrongly
    if recipe.family is None and _OF_PIP.match(end.text) and _CONFLICT.search(one.match.quoted):
        return one
    if recipe.family is not None and not raised and (not recipe.family.ours or recipe.rank >= OF_ONE_THING):
        return None
    told = Fact(name=WORK_DONE, state=Known(end.text), how=f"line {end.line} of {one.log}", origin=Origin.DERIVED)
    return replace(one, severity=Severity.INFO, survived=True, facts=one.facts.with_facts([told]))


def _good_end(text: str) -> _End | None:
    lines = text.splitlines()
    found: _End | None = None
    for number, line in enumerate(lines, start=1):
        certain = _DONE.search(line[:1000]) is not None
        # A step that ends in an error on its own line is no work that was done.
        if (certain or _DONE_OR_SO.search(line[:1000])) and not _WRONG.search(line[:1000]):
            found = _End(number, line.strip(), certain or (found is not None and found.certain))
    if found is None or any(map(_WRONG.search, (line[:1000] for line in lines[found.line :]))):
        return None
    return None if any(map(_COMPLAINS.search, (line[:1000] for line in lines))) else found


def _is_a_list_of_changes(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback (most recent" in text or not any(map(_OF_CHANGES.search, lines[:3])):
        return False
    return sum(_ITEM.match(line) is not None for line in lines) >= _FEWEST_ITEMS
