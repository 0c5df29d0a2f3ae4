"""kernels/1: trials of attention kernels, as reports hold them and as the trials' own lines come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.formats import records
from attn_doctor.model.kernels import KernelTrials, Trial

FORMAT = "kernels/1"
#: Fields of a trial that are null in JSON where there was no answer.
_ASKED = ("chosen", "speed", "share", "reason")


def to_json(trials: KernelTrials) -> dict[str, Any]:
    """The trials as JSON values."""
    written = {"format": FORMAT, **records.to_json(trials)}
    written["cells"] = [records.to_json(one, null=one.unanswered, without=("unanswered",)) for one in trials.cells]
    return written


def from_json(written: Any) -> KernelTrials:
    """The reverse of `to_json`.

    Raises KeyError or TypeError where a key is missing or holds something else.
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
    """Whether kernels were run, of what a report holds under `kernels`; None where nobody asked."""
    return written.get("ran") is True if isinstance(written, dict) else None
