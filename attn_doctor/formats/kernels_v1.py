"""kernels/1: trials of attention kernels, in reports and in the lines that the trials print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.formats import records
from attn_doctor.model.kernels import KernelTrials, Trial

FORMAT = "kernels/1"
#: Fields of a trial that are null in JSON when there was no answer.
_ASKED = ("chosen", "speed", "share", "reason")


def to_json(trials: KernelTrials) -> dict[str, Any]:
    """The trials as JSON values."""
    written = {"format": FORMAT, **records.to_json(trials)}
    written["cells"] = [records.to_json(one, null=one.unanswered, without=("unanswered",)) for one in trials.cells]
    return written


def from_json(written: Any) -> KernelTrials:
    """The reverse of `to_json`.

    Raises KeyError or TypeError when a key is missing or has a value of another type.
    """
    if not isinstance(written, Mapping) or not isinstance(written["cells"], list):
        raise TypeError(f"kernels is {str(written)[:40]!r}")
    return records.from_json(KernelTrials, written, cells=tuple(trial(one) for one in written["cells"]))


def trial(written: Any) -> Trial:
    """One trial. Raises KeyError or TypeError as `from_json` does."""
    if not isinstance(written, Mapping):
        raise TypeError(f"a trial is {str(written)[:40]!r}")
    silent = tuple(name for name in _ASKED if name in written and written[name] is None)
    return records.from_json(Trial, written, unanswered=silent)


def ran(written: Any) -> bool | None:
    """Whether kernels were run, judged by the value of a report's key `kernels`; None when not requested."""
    return written.get("ran") is True if isinstance(written, dict) else None
