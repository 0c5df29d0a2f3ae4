"""What came of a library's sample: from the tracer's answer to one entry for the doctor.

A finding must be the library's fault. What only says that this sample cannot run here (the library cannot be
imported, its release takes other arguments, something of a GPU cannot be stood in for) is "unasked" with its
reason, never an error of the library; that it does not import is told elsewhere already.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from .catalogue import Sample

BROKEN = ("raises", "silently mixed")

_OTHER_API = ("TypeError", "AttributeError", "NameError", "ImportError", "ModuleNotFoundError", "NotImplementedError")


def blank(sample: Sample, outcome: str, reason: Optional[str]) -> Dict[str, Any]:
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


def entry(sample: Sample, answer: Dict[str, Any], simulated: bool, device: str) -> Dict[str, Any]:
    """`answer` is what trace.run.trace gave; outcome: ran, raised or unasked (with `error` saying why)."""
    outcome, error = _outcome(answer, simulated)
    found = blank(sample, outcome, error)
    verdict = answer["verdict"]
    # A run that ended early was clean as far as it came, which is no clean bill.
    if outcome == "ran" or (verdict in BROKEN and not _doubtful(outcome, answer)):
        found["verdict"] = verdict
        found["verdict_reason"] = "no attention call was seen" if verdict is None else None
    rules = answer["rules"] or {}
    found.update(
        device=device,
        rules=rules.get("words"),
        seconds=answer["seconds"],
        stand_in=next((call["stand_in"] for call in answer["attention"] if call["stand_in"]), None),
        trace=None if _doubtful(outcome, answer) else _shortened(answer, sample),
    )
    place = (answer["error"] or {}).get("at")
    if place:
        found["where"] = "{}:{}".format(place["file"], place["line"])
    return found


def _doubtful(outcome: str, answer: Dict[str, Any]) -> bool:
    """An attention call raised, but for something else than its operands: those are no trouble that was seen."""
    return outcome == "unasked" and (answer["error"] or {}).get("kind") == "attention call raised"


def _outcome(answer: Dict[str, Any], simulated: bool) -> Tuple[str, Optional[str]]:
    error = answer["error"]
    if error is None:
        return "ran", None
    kind, message = error["kind"], (error["message"] or "").strip()
    last = "{}: {}".format(error["type"], message.splitlines()[0]) if message else error["type"]
    if answer["outcome"] == "could not run":
        return "unasked", "the sample could not be made: {}".format(last)
    if "out of memory" in message:
        return "unasked", "somebody else's work fills the GPU: {}".format(last)
    if kind == "dtype mismatch":
        return "raised", last
    if kind == "attention call raised":
        own = [call for call in answer["attention"] if call["error"]]
        predicted = any(call["error"]["predicted"] for call in own)
        broken = any(not clause["kept"] for call in own for clause in call["contract"])
        said = error["type"] not in _OTHER_API or "dtype" in message
        if predicted or (broken and said):
            return "raised", last
    if error["type"] in _OTHER_API:
        return "unasked", "this release takes something else than the sample gives: {}".format(last)
    if simulated or kind in ("cannot simulate", "exit"):
        # Without a GPU the fault may as well be that of what stands in for one.
        return "unasked", "it did not come to its end without a GPU ({}): {}".format(kind, last)
    return "raised", last


def _shortened(answer: Dict[str, Any], sample: Sample) -> Dict[str, Any]:
    """The answer without what no fact is made of: paths of operands, launches, tracebacks."""
    short = dict(answer, launches=[], entry={"words": sample.words})
    short["attention"] = [
        dict(call, operands={role: dict(one, path=[]) for role, one in call["operands"].items()}, stack=[])
        for call in answer["attention"]
    ]
    if answer["error"]:
        short["error"] = dict(answer["error"], traceback=None)
    return short


def missing(samples: List[Sample], found: List[Dict[str, Any]], outcome: str, reason: str) -> List[Dict[str, Any]]:
    """`found` in the order of `samples`, with an entry for each one that gave none."""
    known = {one["name"]: one for one in found}
    return [known.get(sample.name) or blank(sample, outcome, reason) for sample in samples]
