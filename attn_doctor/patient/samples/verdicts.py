"""Classifies the result of a library's sample: turns the tracer's answer into one entry for the doctor.

A finding must be the library's fault. A result that only shows that this sample cannot run here (the library cannot be
imported, its release takes other arguments, a GPU feature has no stand-in) is "unasked" with its reason, never an error
of the library; a failed import is reported elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Tuple, TypedDict

from .. import outcomes
from .catalogue import Sample

if TYPE_CHECKING:
    from ..trace.answer import Answer


_OTHER_API = ("TypeError", "AttributeError", "NameError", "ImportError", "ModuleNotFoundError", "NotImplementedError")


class SampleEntry(TypedDict):
    """The result of one sample."""

    name: str
    words: str
    outcome: str
    """ran | raised | unasked | crashed | hung"""
    error: Optional[str]
    where: Optional[str]
    verdict: Optional[str]
    verdict_reason: Optional[str]
    device: Optional[str]
    rules: Optional[str]
    stand_in: Optional[str]
    seconds: Optional[float]
    trace: Optional[Mapping[str, object]]
    """The tracer's answer, without what no fact is made of."""


def blank(sample: Sample, outcome: str, reason: Optional[str]) -> SampleEntry:
    """An entry without a trace: `outcome` is unasked, crashed or hung."""
    return {
        "name": sample.name,
        "words": sample.words,
        "outcome": outcome,
        "error": reason,
        "where": None,
        "verdict": None,
        "verdict_reason": reason,
        "device": None,
        "rules": None,
        "stand_in": None,
        "seconds": None,
        "trace": None,
    }


def entry(sample: Sample, answer: Answer, simulated: bool, device: str) -> SampleEntry:
    """The entry for the answer of trace.run.trace; outcome: ran, raised or unasked (with the reason in `error`)."""
    outcome, error = _outcome(answer, simulated)
    found = blank(sample, outcome, error)
    verdict = answer["verdict"]
    # A run that ended early was clean only as far as it came.
    if outcome == outcomes.RAN or (verdict in outcomes.BROKEN and not _doubtful(outcome, answer)):
        found["verdict"] = verdict
        found["verdict_reason"] = "no attention call was seen" if verdict is None else None
    found["device"] = device
    found["rules"] = answer["rules"]["words"] if answer["rules"] is not None else None
    found["seconds"] = answer["seconds"]
    found["stand_in"] = next((call["stand_in"] for call in answer["attention"] if call["stand_in"]), None)
    found["trace"] = None if _doubtful(outcome, answer) else _shortened(answer, sample)
    place = answer["error"]["at"] if answer["error"] is not None else None
    if place:
        found["where"] = "{}:{}".format(place["file"], place["line"])
    return found


def _doubtful(outcome: str, answer: Answer) -> bool:
    """True when an attention call raised for a reason other than its operands, which is no observed problem."""
    error = answer["error"]
    return outcome == outcomes.UNASKED and error is not None and error["kind"] == "attention call raised"


def _outcome(answer: Answer, simulated: bool) -> Tuple[str, Optional[str]]:
    error = answer["error"]
    if error is None:
        return outcomes.RAN, None
    kind, message = error["kind"], (error["message"] or "").strip()
    last = "{}: {}".format(error["type"], message.splitlines()[0]) if message else error["type"]
    if answer["outcome"] == "could not run":
        return outcomes.UNASKED, "the sample could not be made: {}".format(last)
    if "out of memory" in message:
        return outcomes.UNASKED, "somebody else's work fills the GPU: {}".format(last)
    if kind == "dtype mismatch":
        return outcomes.RAISED, last
    if kind == "attention call raised":
        own = [(call, call["error"]) for call in answer["attention"] if call["error"] is not None]
        predicted = any(raised["predicted"] for _, raised in own)
        broken = any(not clause["kept"] for call, _ in own for clause in call["contract"])
        said = error["type"] not in _OTHER_API or "dtype" in message
        if predicted or (broken and said):
            return outcomes.RAISED, last
    if error["type"] in _OTHER_API:
        return outcomes.UNASKED, "this release takes something else than the sample gives: {}".format(last)
    if simulated or kind in ("cannot simulate", "exit"):
        # Without a GPU the error may as well come from a stand-in.
        return outcomes.UNASKED, "it did not come to its end without a GPU ({}): {}".format(kind, last)
    return outcomes.RAISED, last


def _shortened(answer: Answer, sample: Sample) -> Dict[str, object]:
    """The answer without parts that no fact uses: paths of operands, launches, tracebacks."""
    short = dict(answer, launches=[], entry={"words": sample.words})
    short["attention"] = [
        dict(call, operands={role: dict(one, path=[]) for role, one in call["operands"].items()}, stack=[])
        for call in answer["attention"]
    ]
    if answer["error"]:
        short["error"] = dict(answer["error"], traceback=None)
    return short


def missing(samples: List[Sample], found: List[SampleEntry], outcome: str, reason: str) -> List[SampleEntry]:
    """`found` in the order of `samples`, with an entry for each sample without a result."""
    known = {one["name"]: one for one in found}
    return [known.get(sample.name) or blank(sample, outcome, reason) for sample in samples]
