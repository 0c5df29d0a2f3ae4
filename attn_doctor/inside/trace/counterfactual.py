"""What else would promote, were the first culprit mended? Found by running again with its results cast back.

Once one call has made q float32, a later `q * float32_scale` shows as float32 x float32 and looks innocent.
Without this the tool would offer half a cure.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from . import ops, provenance
from .boundaries.attention import Record
from .recorder import Heal
from .result import Promotions, suspects, worst
from .session import Recording, Session

_MAX_RUNS = 8


def remedies(records: List[Record]) -> Dict[Heal, torch.dtype]:
    """The calls whose results a further run should cast back, and to which dtype."""
    found: Dict[Heal, torch.dtype] = {}
    for record in records:
        if record.verdict == "clean":
            continue
        for role in suspects(record):
            unit = provenance.promotion_of(record.operands[role].node)
            key = provenance.heal_key(unit) if unit is not None else None
            if key is not None:
                found[key[0]] = key[1]
    return found


def explore(
    session: Session, first: Recording, again: Callable[[Recording], Any], promotions: Promotions
) -> Dict[str, Any]:
    """Run again until clean, each time with all culprits so far mended; latent ones go to `promotions`."""
    heals = remedies(first.records)
    answer: Dict[str, Any] = {"runs": [], "clean_after": None, "words": "", "remedies": []}
    if not heals:
        answer["words"] = "no promoting call that could be mended for a trial was found"
        return answer
    records = first.records
    for run in range(1, _MAX_RUNS + 1):
        with session.recorded(heals=heals) as recording:
            again(recording)
        verdict = worst(recording.records)
        error = recording.error
        answer["runs"].append(
            {
                "mended": len(heals),
                "verdict": verdict,
                "error": None if error is None else "{}: {}".format(type(error).__name__, error),
                "attention_calls": recording.attention.total,
            }
        )
        records = recording.records
        new = {k: v for k, v in remedies(records).items() if k not in heals}
        for record in records:
            for role in suspects(record):
                unit = provenance.promotion_of(record.operands[role].node)
                if unit is not None:
                    promotions.add(unit, record, role, run)
        # None: what refused was the code before a kernel, and no kernel was met after it either.
        if verdict in ("clean", None) and error is None:
            answer["clean_after"] = run
            answer["words"] = "clean once {} is cast back".format(
                "this call" if len(heals) == 1 else "each of these {} calls".format(len(heals))
            )
            break
        if not new:
            answer["words"] = "still {} with every promoting call mended".format(verdict or "without a verdict")
            break
        heals = dict(heals)
        heals.update(new)
    else:
        answer["words"] = "stopped after {} runs".format(_MAX_RUNS)
    answer["remedies"] = [
        {"file": k[0], "line": k[1], "function": k[2], "call": provenance._short_name(k[3]), "to": ops.short(v)}
        for k, v in heals.items()
    ]
    return answer
