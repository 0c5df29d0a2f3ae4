"""Classifies a traced run that ended early: the kind of error, its description, and whether another attempt is
possible.
"""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Optional

from ...libraries import LIBRARIES
from .. import redirect
from ..hollow import NoRoom
from ..meet.attention import Record
from ..read import result
from ..record import frames
from . import entries
from .session import Recording

if TYPE_CHECKING:
    from ..answer import Answer, Error, Request
    from ..record.recorder import Failed

NO_VALUES = (
    "NoValues",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "GuardOnDataDependentSymNode",
)
"""Exceptions raised when a program reads values that a hollow tensor lacks. By name: torch's own moved between
releases."""


def lacking(answer: Answer) -> Optional[str]:
    """The attention library whose import ended the run, if one did."""
    error = answer["error"]
    text = (error["message"] or "") if error is not None else ""
    # transformers wraps its own error.
    if error is None or not (error["type"] in ("ImportError", "ModuleNotFoundError") or "ImportError: " in text):
        return None
    said = [(one, re.search(one.errors, text)) for one in LIBRARIES if one.errors]
    # One library's name may be a prefix of another's: the longest match is the most specific.
    named = [(len(hit[0]), one.key) for one, hit in said if hit is not None]
    return max(named)[1] if named else None


_ABOUT_DTYPES = re.compile(r"dtype|scalar type|(input|weight|bias) type|\bHalf\b|BFloat16", re.IGNORECASE)


def kind_of(error: BaseException, own: Optional[Record], failed: Optional[Failed], simulated: bool) -> str:
    """`own` is the attention call that raised it, `failed` the last torch function that raised (Recorder.failed)."""
    text = str(error)
    if own is not None:
        return "attention call raised"
    if isinstance(error, SystemExit):
        return "exit"
    if isinstance(error, entries.EntryError):
        return error.kind
    if isinstance(error, (redirect.CannotSimulate, NoRoom)) or type(error).__name__ in NO_VALUES:
        return "cannot simulate"
    if (
        # a real GPU uses these words for an operand's dtype: cdist has no half-precision kernel, and refuses a mixed
        # call so
        ("not implemented for" in text and simulated)
        or "Jiterator is only supported on CUDA" in text
        or "not compiled with CUDA" in text
        or "Found no NVIDIA driver" in text
        or ("not linked with support for cuda" in text)
        or ("Could not run" in text and "CUDA" in text)
    ):
        return "cannot simulate"
    if "same device" in text or "expected device" in text or "is on cpu" in text:
        return "wrong device"
    operands = failed.operands if failed is not None and failed.error is error else []
    if len({node.dtype for node, _ in operands}) > 1 and _ABOUT_DTYPES.search(text):
        return "dtype mismatch"
    return "model raised"


def needs_fake(answer: Answer) -> bool:
    """True when this torch has no CPU kernel for an operation and a dtype: fake tensors need none."""
    error = answer["error"]
    return error is not None and error["kind"] == "cannot simulate" and "not implemented for" in error["message"]


def needs_values(answer: Answer, request: Request) -> bool:
    """True when a config failed on fake tensors for lack of values: then a small copy with values can be run."""
    asked = request.get("rules") or "auto"
    error = answer["error"]
    return request.get("kind") == "hf" and asked == "auto" and error is not None and error["type"] in NO_VALUES


def described(kind: str, error: BaseException, recording: Optional[Recording]) -> Error:
    """The error in the form of an answer. `recording`: the run before it, None for nothing."""
    text = str(error).strip()
    if isinstance(error, SystemExit):
        text = "the program called exit({})".format("" if error.code is None else repr(error.code))
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": text[:4000],
        "at": frames.described(frames.raising_site(error)),
        "words": _words(kind, error, text, recording),
        "traceback": "".join(lines)[-6000:] if kind not in ("usage", "exit") else None,
    }


def _words(kind: str, error: BaseException, text: str, recording: Optional[Recording]) -> str:
    """What ended the run and how far it came; with the line and the first cause, which a wrapped error hides."""
    text = text.splitlines()[0] if text else ""
    if not isinstance(error, (SystemExit, entries.EntryError)):
        site = frames.raising_site(error)
        at = " at {}:{}".format(*site[:2]) if site is not None else ""
        text = "{}{}{}".format(type(error).__name__, at, ": " + text if text else "")
        first = _first_cause(error)
        if first is not None:
            said = str(first).strip().splitlines()
            text += "; caused by {}{}".format(type(first).__name__, ": " + said[0] if said else "")
    if recording is None:
        return "{}: nothing was traced. {}".format(kind, text)
    progress = recording.progress()
    worst = result.worst(recording.records)
    calls = "{} ({})".format(_many(progress["attention_calls"], "attention call"), worst or "no verdict")
    return "{} after {} and {}: {}".format(kind, _many(progress["ops"], "op"), calls, text)


def _many(number: int, what: str) -> str:
    return "{} {}{}".format(number, what, "" if number == 1 else "s")


def _first_cause(error: BaseException) -> Optional[BaseException]:
    """The first exception in a chain of `raise … from …`; None without a chain."""
    seen = {id(error)}
    first = error
    while first.__cause__ is not None and id(first.__cause__) not in seen:
        first = first.__cause__
        seen.add(id(first))
    return None if first is error else first
