"""Handles one trace request: chooses the rules, runs the target under the tracer, tries the fixes, returns the answer.

Never raises because of the traced code: its errors are part of the answer.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional, Tuple

import torch

from ... import outcomes
from ...libraries import flash_attn_2
from ...simulate.cuda import simulated_gpu
from .. import JUDGED, SCHEMA, unanswered
from ..hollow import NoRoom
from ..meet.attention import Conditions, Record, StopTrace
from ..read import counterfactual, result
from ..rules import ASSUMED_GPU, GPU, ON_CPU, ON_FAKE, Rules, capability_of
from . import endings, entries, slow_paths
from .session import Recording, Session, seeded

if TYPE_CHECKING:
    from ...simulate.cuda.simulated_gpu import Described
    from ...simulate.triton.record import Launch
    from ..answer import Answer, Entry, Request


def pick_rules(request: Request) -> Rules:
    """The rules for a request. "auto" means fake tensors for a config and real ones otherwise; a real GPU is used only
    on request, because it may be in use."""
    asked = request.get("rules") or "auto"
    gpu = request.get("gpu")
    if asked == "gpu":
        if not torch.cuda.is_available():
            raise entries.EntryError("no GPU", "a run on a GPU was asked for, and torch sees none")
        return Rules(GPU)
    # Assumed in both cases, since no such GPU ran anything; named, if the user chose it.
    assumed: Described = {**gpu, "assumed": True, "named": True} if gpu else {**ASSUMED_GPU}
    try:
        simulated_gpu.from_request(assumed)
    except (KeyError, ValueError) as error:
        raise entries.EntryError("usage", "this GPU cannot be stood in for: {}".format(error)) from error
    if asked not in ("auto", "cpu", "fake"):
        raise entries.EntryError("usage", "there are no rules {!r}".format(asked))
    if asked == "fake" or (asked == "auto" and request.get("kind") == "hf"):
        return Rules(ON_FAKE, assumed, request.get("scratch"))
    return Rules(ON_CPU, assumed, request.get("scratch"))


Tell = Callable[["Answer"], None]
TellLaunches = Callable[[List["Launch"]], None]


def trace(request: Request, on_progress: Optional[Tell] = None, on_launches: Optional[TellLaunches] = None) -> Answer:
    """The complete answer to one request (schema in ../__init__).

    `on_progress` receives the partial answer about once a second. `on_launches` receives the recorded Triton launches
    in the form for simulate/triton/compile.py.
    """
    with slow_paths.heard() as slow:
        answer = _trace(request, on_progress, on_launches)
    answer["slow_paths"] = slow_paths.together(slow, answer["slow_paths"])
    return answer


def _trace(request: Request, on_progress: Optional[Tell], on_launches: Optional[TellLaunches]) -> Answer:
    started = time.perf_counter()
    answer = _empty(request)
    try:
        rules = pick_rules(request)
        answer = _under(rules, request, on_progress, on_launches)
        if endings.needs_fake(answer) and rules.name == ON_CPU:
            why = _message(answer)
            answer = _under(Rules(ON_FAKE, rules.gpu, request.get("scratch")), request, on_progress, on_launches)
            _add_note(answer, "ran on fake tensors, because this torch's CPU kernels could not run it: " + why)
        elif rules.name == GPU and endings.lacking(answer):
            answer = _with_stand_ins(answer, rules, request, on_progress, on_launches)
        elif endings.needs_values(answer, request) and rules.name == ON_FAKE:
            why = _message(answer)
            small: Request = {**request, "shrink": True}
            again = Rules(ON_CPU, rules.gpu, request.get("scratch"))
            answer = _under(again, small, on_progress, on_launches)
            _add_note(
                answer,
                "ran smaller, on real CPU tensors, because the program asks for values that fake tensors lack: " + why,
            )
    except entries.EntryError as error:
        answer["error"] = endings.described(error.kind, error, None)
        answer["outcome"] = "could not run"
    except Exception as error:
        # A bug of ours: errors of the traced code are caught where it runs.
        answer["error"] = endings.described("tracer failed", error, None)
    answer["judged"] = JUDGED if any(call["verdict"] == outcomes.CLEAN for call in answer["attention"]) else None
    answer["seconds"] = round(time.perf_counter() - started, 3)
    return answer


def _with_stand_ins(
    answer: Answer,
    rules: Rules,
    request: Request,
    on_progress: Optional[Tell],
    on_launches: Optional[TellLaunches],
) -> Answer:
    """Runs again on the GPU with a stand-in for the library; returns the first answer if that does not help."""
    library, said = str(endings.lacking(answer)), _message(answer).strip().splitlines()[-1]
    again = Rules(GPU, rules.gpu, request.get("scratch"))
    other = _under(again, request, on_progress, on_launches, missing=(library,))
    if endings.lacking(other):
        return answer
    note = "without that the program ends there: {}".format(said[:300])
    if other["rules"] is not None:
        other["rules"]["stood_in"].append(note)
    return other


def _message(answer: Answer) -> str:
    """How a run ended that did not finish."""
    return answer["error"]["message"] if answer["error"] is not None else ""


def _add_note(answer: Answer, note: str) -> None:
    if answer["rules"] is not None:
        answer["rules"]["not_simulated"].append(note)


def _empty(request: Request, words: Optional[str] = None) -> Answer:
    """An answer to that request to which nothing is known yet; `words`: what is run."""
    entry: Entry = {
        "kind": request.get("kind"),
        "target": request.get("target"),
        "args": request.get("args"),
        "kwargs": request.get("kwargs"),
        "dtype": request.get("dtype"),
        "autocast": request.get("autocast"),
        "attn": request.get("attn"),
        "backward": request.get("backward"),
        "words": words,
    }
    return {**unanswered(), "entry": entry}


def _under(
    rules: Rules,
    request: Request,
    on_progress: Optional[Tell],
    on_launches: Optional[TellLaunches],
    missing: Tuple[str, ...] = (),
) -> Answer:
    conditions = Conditions(
        capability=capability_of(rules.gpu),
        simulated=rules.simulated,
        backward=bool(request.get("backward")),
        flash_attn_version=request.get("flash_attn_version") or flash_attn_2.LIBRARY.newest,
        stand_ins=tuple(request.get("stand_ins") or (flash_attn_2.LIBRARY.key,)),
    )
    conditions.missing = missing
    answer = _empty(request)
    with Session(rules, conditions) as session:
        # As known on entry: a GPU's name, and the source of the autocast lists, are read there.
        conditions.capability = capability_of(rules.gpu)
        watcher = _Watcher(session, request, on_progress)
        try:
            entry = _entry(session, request)
        except entries.EntryError as error:
            answer["rules"], answer["error"] = rules.as_json(), endings.described(error.kind, error, None)
            return answer
        except NoRoom as error:
            answer["rules"], answer["error"] = rules.as_json(), endings.described("cannot simulate", error, None)
            return answer
        except (Exception, SystemExit) as error:
            kind = "exit" if isinstance(error, SystemExit) else "factory raised"
            answer["rules"], answer["error"] = rules.as_json(), endings.described(kind, error, None)
            return answer
        answer = _empty(request, entry.words)
        run = seeded(entry.run)
        recording = _record(session, entry, run, watcher)
        while type(recording.error).__name__ in endings.NO_VALUES and session.other_guess():
            # It reached a place where values are needed, possibly because of a wrong guess earlier.
            recording = _record(session, entry, run, watcher)
        session.tell_guesses()
        _fill(answer, recording, rules)
        if on_launches is not None and session.kernels is not None:
            on_launches(list(session.kernels.launches))
        again = _again(entry, recording, run, request)
        if _settle(session, recording, again):
            _fill(answer, recording, rules)
        promotions = result.Promotions()
        answer["attention"] = [result.describe(r, promotions) for r in recording.records]
        answer["promotions"] = promotions.found
        if result.worst(recording.records) in (None, outcomes.CLEAN) or request.get("counterfactual") is False:
            return answer
        if again is None:
            answer["counterfactual"] = {
                "runs": [],
                "clean_after": None,
                "remedies": [],
                "words": "nothing was run again: no module call to repeat was seen",
            }
        else:
            answer["counterfactual"] = counterfactual.explore(session, recording, again, promotions)
    return answer


def _record(session: Session, entry: entries.Entry, run: Callable[[], object], watcher: _Watcher) -> Recording:
    with session.recorded(on_record=watcher) as recording:
        if entry.module is not None:
            recording.modules.index(entry.module)
        run()
    return recording


def _entry(session: Session, request: Request) -> entries.Entry:
    kind = request.get("kind")
    device = "cuda" if not session.rules.simulated else None
    with session.preparing(), building(session):
        if kind == "factory":
            return entries.factory(request, device)
        if kind == "hf":
            return entries.hugging_face(request, device)
    if kind == "script":
        return entries.script(request)
    raise entries.EntryError("usage", "unknown kind of target: {!r}".format(kind))


@contextlib.contextmanager
def building(session: Session) -> Iterator[None]:
    """Within this context, new tensors count as not yet moved to the GPU."""
    redirected = session.rules.redirect
    if redirected is None:
        yield
        return
    redirected.building = True
    try:
        yield
    finally:
        redirected.building = False


def _settle(session: Session, recording: Recording, again: Optional[counterfactual.Again]) -> bool:
    """Checks, for each call that raised without a matching rule, whether its dtypes were the cause; True if one was
    not.
    """
    settled = False
    for record in [one for one in recording.records if one.doubtful]:
        if counterfactual.gets_past(session, recording, again, record):
            continue
        settled = True
        if record.claimed:
            recording.attention.withdraw(record)
        else:
            record.other_trouble = True
    return settled


def _again(
    entry: entries.Entry, recording: Recording, run: Callable[[], object], request: Request
) -> Optional[counterfactual.Again]:
    """The target of a counterfactual run: the entry, or for a script the outermost module call in progress."""
    if request.get("kind") != "script":

        def whole(other: Recording) -> None:
            if entry.module is not None:
                other.modules.index(entry.module)
            run()

        return whole
    call = recording.modules.root_call
    if call is None or (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    module, args, kwargs = call

    def forward(other: Recording) -> None:
        # The script's own autocast block was left when the trace stopped.
        autocast = recording.records[-1].autocast if recording.records else None
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            module(*args, **kwargs)

    return forward


class _Watcher:
    """Ends a script after enough attention calls, and reports progress about once a second."""

    def __init__(self, session: Session, request: Request, on_progress: Optional[Tell]) -> None:
        self.session = session
        self.request = request
        self.on_progress = on_progress
        self.script = request.get("kind") == "script"
        self.calls = request.get("calls")
        self._told = 0.0

    def __call__(self, record: Record) -> None:
        recording = self.session.recording
        assert recording is not None  # a call was seen
        now = time.monotonic()
        if self.on_progress is not None and (record.broken or now - self._told > 1.0):
            self._told = now
            self.on_progress(partial(recording, self.request, self.session.rules))
        if self.calls and recording.attention.total >= int(self.calls):
            raise StopTrace("{} attention calls were seen".format(self.calls))
        if self.script and record.broken:
            raise StopTrace("the first broken attention call")


def partial(recording: Recording, request: Request, rules: Rules) -> Answer:
    """The partial answer, in case the process dies before the final one is written."""
    promotions = result.Promotions()
    answer = _empty(request, "{} {}".format(request.get("kind"), request.get("target")))
    answer["outcome"] = "under way"
    answer["rules"] = rules.as_json()
    answer["verdict"] = result.worst(recording.records)
    answer["progress"] = recording.progress()
    answer["attention"] = [result.describe(r, promotions) for r in recording.records]
    answer["promotions"] = promotions.found
    return answer


def _fill(answer: Answer, recording: Recording, rules: Rules) -> None:
    answer["rules"] = rules.as_json()
    answer["verdict"] = result.worst(recording.records)
    answer["progress"] = recording.progress()
    answer["forms"] = recording.attention.forms.as_json()
    answer["launches"] = recording.launches.seen
    answer["slow_paths"] = slow_paths.ran(recording.recorder.ran)
    error = recording.error
    script = answer["entry"] is not None and answer["entry"]["kind"] == "script"
    if script and isinstance(error, SystemExit) and error.code in (None, 0):
        error = None  # how many programs end
    if error is None:
        answer["outcome"] = "stopped" if recording.stopped else "finished"
        return
    answer["outcome"] = "raised"
    own = next((r for r in recording.records if r.error is error), None)
    failed = recording.recorder.failed
    answer["error"] = endings.described(endings.kind_of(error, own, failed, rules.simulated), error, recording)
    if failed is not None and failed.error is error and own is None:
        answer["failure"] = result.failure(failed)


__all__ = ["SCHEMA", "partial", "pick_rules", "trace"]
