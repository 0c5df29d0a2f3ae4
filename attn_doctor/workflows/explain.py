"""Searches logs for known errors: their cause, why they happen, the confidence, and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.by_words import nearest
from attn_doctor.diagnose.log.causes import Explained, Refuted, words_of
from attn_doctor.diagnose.log.causes import explain as explain_scanned
from attn_doctor.diagnose.log.devices import DEVICE, MADE_FOR_ONE, of_gpu
from attn_doctor.diagnose.log.match import patterns_of
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from attn_doctor.diagnose.log.unmet import drop_unmet
from attn_doctor.diagnose.log.weigh import OF_LEARNING
from attn_doctor.diagnose.possible import is_ruled_out
from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.machine import faults
from attn_doctor.machine.files import read_input
from attn_doctor.machine.scratch import scratch
from attn_doctor.model import exit_status
from attn_doctor.model.facts import Absent, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Examined, LogRead, Near, Report
from attn_doctor.probe import logs
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import NOBODY, Say, assumed_names, examined, pick_recipes, silent

_GPU_NAME = FactName.parse("gpu.0.name")
_IN_PART = "it is full of lines that may be failures: the first ones and its end were examined, not all that is between"
#: What the name of a GPU says whatever stands in the log.
_OF_ITS_MAKER = (DEVICE, MADE_FOR_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """The logs, the machine they come from, and the recipes."""

    logs: tuple[str, ...] = ()
    """Files, folders of logs, or - for standard input; may be empty when `texts` is given."""
    texts: tuple[str, ...] = ()
    """Error messages that are in no file."""
    here: bool = False
    """The logs come from this node: its facts are used, from files alone."""
    python: str | None = None
    """The logs come from this interpreter or environment on this node."""
    as_module: bool = False
    """With `here` and without `python`: the interpreter that this code runs in."""
    facts_file: Path | None = None
    """A report whose facts are used."""
    gpu: str | None = None
    assumptions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    fail_on: Severity = Severity.ERROR
    strict: bool = False


def explain(request: ExplainRequest, *, say: Say = silent) -> Report:
    """Searches the logs and makes the report. `say` receives progress messages.

    Raises BadInput for an invalid request, TargetUnusable when the interpreter does not answer.
    """
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    base, whose = _base(request, say)
    base = as_if_partly(base, request.gpu, request.assumptions)
    found: list[logs.Log] = [logs.Held("the text", text.encode(errors="surrogateescape")) for text in request.texts]
    if request.logs or not request.texts:
        found = [*found, *logs.find_logs(request.logs)]
    return explained(found, recipes, base, whose, fail_on=request.fail_on, strict=request.strict, say=say)


def explained(
    found: Iterable[logs.Log],
    recipes: tuple[Recipe, ...],
    base: FactSet,
    whose: Examined,
    *,
    fail_on: Severity = Severity.ERROR,
    strict: bool = False,
    say: Say = silent,
) -> Report:
    """Searches the logs and makes the report."""
    found = tuple(found)
    scanner = Scanner(patterns_of(recipes), given=words_of(base))
    scanned, read = [], []
    for log in found:
        say(f"reading {log.name}")
        one = scanner.scan(log.name, log.chunks())
        drop_unmet(one, base)
        scanned.append(one)
        line, text = one.last_failure or (None, "")
        read.append(
            LogRead(
                name=log.name,
                lines=one.lines,
                failures=one.failures,
                unknown_line=line,
                unknown=text,
                note="; ".join(filter(None, (log.note, _endless(one), _IN_PART if one.examined_in_part else ""))),
            )
        )
    scanner.look_again(scanned)
    told = _with_silent(explain_scanned(scanned, base, {recipe.id: recipe for recipe in recipes}), recipes)
    if not told.knows_a_failure:
        read = [_with_error_line(one, log) for one, log in zip(read, scanned, strict=True)]
    refuted = {one.log: one for one in reversed(told.refuted)}
    where = frozenset(recipe.id for recipe in recipes if recipe.says_where)
    read = [_without_what_is_told(one, told, where) for one in read]
    read = [_with_refuted(one, refuted[one.name]) if one.name in refuted else one for one in read]
    status = exit_status.status_of(told.diagnosis, fail_on=fail_on, strict=strict, own_faults=bool(faults.met()))
    if status == exit_status.Status.HEALTHY and any(log.broken for log in found):
        status = exit_status.Status.COULD_NOT_EXAMINE
    return Report(
        command="explain",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=whose,
        quick=True,
        assumed=assumed_names(told.facts),
        diagnosis=told.diagnosis,
        exit_status=int(status),
        facts=told.facts,
        logs=tuple(read),
        own_faults=faults.met(),
        nearest=_nearest(scanned, told, recipes),
        looked_for=tuple(recipe.id for recipe in recipes if recipe.logs),
    )


def _nearest(scanned: Sequence[Scanned], told: Explained, recipes: Sequence[Recipe]) -> tuple[Near, ...]:
    """What to look at where nothing is known, or no more than what the log is about."""
    known = {recipe.id: recipe for recipe in recipes}
    named = [known[one.id] for one in told.diagnosis.findings if one.id in known]
    if told.facts.text(OF_LEARNING) != "shown" or any(recipe.has_words_of_its_own for recipe in named):
        return ()
    text = "\n".join(log.text for log in scanned if log.text)
    told_already = {one.id for one in named}
    others = [one for one in recipes if one.id not in told_already and not is_ruled_out(one, told.facts)]
    return tuple(Near(id=one.id, title=TEMPLATE.sub("…", one.title)) for one in nearest(text, others))


def _with_silent(told: Explained, recipes: tuple[Recipe, ...]) -> Explained:
    """The same, with the silent errors of calls whose form is known: no line of a log tells them.

    The form is assumed (--assume call.…) or in a report (--facts); versions and the GPU may be the log's.
    """
    calls = told.facts.subjects("call")
    if not calls:
        return told
    listed = FactNotes()
    listed.known("listed.call", len(calls), "--assume or --facts")
    asked = [one for one in recipes if one.silent and one.for_each == "call"]
    judged = judge(derive(told.facts.with_facts(listed.facts())), asked)
    known = {one.id for one in told.diagnosis.findings}
    findings = (*told.diagnosis.findings, *(one for one in judged.findings if one.id not in known))
    questions = (*told.diagnosis.open_questions, *judged.open_questions)
    return replace(told, diagnosis=replace(told.diagnosis, findings=findings, open_questions=questions))


def _endless(one: Scanned) -> str:
    if one.cut_line is None:
        return ""
    size = f"{one.cut_length / 1e6:.1f} million" if one.cut_length >= 1e6 else f"{one.cut_length:,}"
    return (
        f"line {one.cut_line} has about {size} characters and was looked at in pieces: only a message at its "
        "beginning, at its end or after a carriage return is seen in it"
    )


def _with_error_line(log: LogRead, scanned: Scanned) -> LogRead:
    """The log with a line as unknown that says an error in another form than an exception's: no finding rests on it."""
    if log.failures or log.unknown or scanned.error_line is None:
        return log
    line, text = scanned.error_line
    return replace(log, failures=1, unknown_line=line, unknown=text)


def _with_refuted(log: LogRead, refuted: Refuted) -> LogRead:
    """The log, with its first recognized message whose every known cause is refuted by facts."""
    note = (
        f"line {refuted.line} has the words of {' and '.join(refuted.recipes)}, "
        "and what is known of the machine speaks against that"
    )
    return replace(
        log,
        note=f"{log.note}; {note}" if log.note else note,
        unknown_line=log.unknown_line or refuted.line,
        unknown=log.unknown or refuted.quoted,
    )


def _without_what_is_told(log: LogRead, told: Explained, where: frozenset[str]) -> LogRead:
    """The log, whose last unknown message is none where a finding quotes that very line and says more of it than
    where to look; `where` has the ids of those that say no more, and what the words alone name knows no message.
    """
    findings = [one for one in told.diagnosis.findings if one.id not in where and not one.by_words]
    quoted = {(place.file, place.line) for one in findings for place in one.locations}
    return replace(log, unknown_line=None, unknown="") if (log.name, log.unknown_line) in quoted else log


def as_if_partly(base: FactSet, gpu: str | None, assumptions: tuple[str, ...]) -> FactSet:
    """The facts with the user's assumptions. Unlike in `check`, other facts become unknown instead of absent: an
    assumed torch does not imply that triton is missing. A GPU's name tells its maker, as a log's line does."""
    facts = assume(base if gpu is None else assume_gpu(base, named_gpu(gpu)), assumptions)
    named = facts.fact(_GPU_NAME)
    for name, value in of_gpu(facts.text(_GPU_NAME) or ""):
        state = Absent(f"the GPU is {facts.text(_GPU_NAME)}") if value is None else Known(value)
        # What else it tells, the log may know better: a container on a Mac is of Linux.
        origin = named.origin if name in _OF_ITS_MAKER else Origin.DERIVED
        facts = facts.with_facts([replace(named, name=FactName.parse(name), state=state, origin=origin)])
    return FactSet(fact for fact in facts.values() if fact.name.kind != "listed" or fact.origin is not Origin.ASSUMED)


def _base(request: ExplainRequest, say: Say) -> tuple[FactSet, Examined]:
    here, facts_file = request.here or request.python is not None, request.facts_file
    if here and facts_file is not None:
        raise BadInput(
            "the log is of this node or of the report's",
            about=f"--here and --facts {facts_file}",
            hint="Leave one of them out.",
        )
    if facts_file is not None:
        try:
            text = read_input(facts_file, most=report_v1.LARGEST).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"the report cannot be read: {getattr(error, 'strerror', None) or error}",
                about=f"--facts {facts_file}",
                hint="Give a file written by `attn-doctor check --json`.",
            ) from None
        report = report_v1.loads(text, about=f"--facts {facts_file}")
        return report.facts, report.examined
    if not here:
        return FactSet(), NOBODY
    from attn_doctor.machine.target import examine_target  # the probes, which a log of elsewhere does without
    from attn_doctor.probe.examine import ExaminationRequest, examine

    with scratch() as folder:
        target = examine_target(request.python, as_module=request.as_module, folder=folder, timeout=60.0, isolated=True)
        return examine(target, ExaminationRequest(quick=True), folder=folder, say=say), examined(target)
