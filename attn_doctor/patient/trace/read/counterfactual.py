"""Finds latent promotions, which appear only when the first one is fixed, by running again with its results cast back.

Once one call has made q float32, a later `q * float32_scale` looks harmless, as float32 x float32. Without these runs
the advice would be incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, List, Optional

import torch

from ... import outcomes
from ..meet.attention import Record
from ..meet.operands import wanted_dtype
from ..record import frames, ops
from ..record.recorder import Heal
from ..run.session import Recording, Session
from . import provenance
from .result import Promotions, suspects, worst

if TYPE_CHECKING:
    from ..answer import Counterfactual

_MAX_RUNS = 8

Again = Callable[[Recording], None]
"""Runs the target once more, under that recording."""


def remedies(records: List[Record]) -> Dict[Heal, torch.dtype]:
    """The calls whose results the next run should cast back, and the dtype."""
    found: Dict[Heal, torch.dtype] = {}
    for record in records:
        if record.verdict == outcomes.CLEAN:
            continue
        for role in suspects(record):
            node = record.operands[role].node
            unit = provenance.promotion_of(node) if node is not None else None
            key = provenance.heal_of(node, unit) if node is not None and unit is not None else None
            if key is not None:
                found[key[0]] = key[1]
    return found


def gets_past(session: Session, first: Recording, again: Optional[Again], record: Record) -> bool:
    """True when the run gets past the call of `record` if its operands have the correct dtypes.

    For an operand that was wide from the beginning, the projection is cast."""
    heals = _trial(record)
    if not heals or again is None:
        return False
    for _ in range(_MAX_RUNS):
        with session.recorded(heals=heals) as recording:
            again(recording)
        if not recording.recorder.healed:
            return False
        failed = [one for one in recording.records if one.error is not None and _alike(one, record)]
        if not failed:
            return recording.error is None or not _same_error(recording.error, record.error)
        new = {k: v for one in failed for k, v in _trial(one).items() if k not in heals}
        if not new:
            return False
        heals.update(new)
    return False


def _trial(record: Record) -> Dict[Heal, torch.dtype]:
    found = remedies([record])
    wanted = wanted_dtype(record.operands, record.autocast)
    if wanted is None:
        wanted = torch.bfloat16 if "bfloat16" in str(record.error).lower() else torch.float16
    for role in ("q", "k", "v"):
        operand = record.operands.get(role)
        if operand is None or operand.node is None or operand.dtype == wanted:
            continue
        if provenance.promotion_of(operand.node) is None:
            path = provenance.path_of(operand.node)
            key = provenance.key_of(path[0]) if path else None
            if key is not None:
                found[key] = wanted
    return found


def _alike(one: Record, record: Record) -> bool:
    return (one.name, one.site) == (record.name, record.site)


def _same_error(one: BaseException, other: Optional[BaseException]) -> bool:
    return type(one) is type(other) and frames.raising_site(one) == frames.raising_site(other)


def explore(session: Session, first: Recording, again: Again, promotions: Promotions) -> Counterfactual:
    """Runs again until clean, each time with all known promotions fixed; latent ones are added to `promotions`."""
    heals = remedies(first.records)
    answer: Counterfactual = {"runs": [], "clean_after": None, "words": "", "remedies": []}
    if not heals and any(record.other_trouble for record in first.records):
        answer["words"] = "what it raised is not for its dtypes: with those mended it raises as well, or none is wrong"
        return answer
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
                node = record.operands[role].node
                unit = provenance.promotion_of(node) if node is not None else None
                if unit is not None:
                    promotions.add(unit, record, role, run)
        # None: the error came from code before a kernel, and no kernel was reached after it either.
        if verdict in (outcomes.CLEAN, None) and error is None:
            answer["clean_after"] = run
            answer["words"] = "clean once {} is cast back".format(
                "this operation" if len(heals) == 1 else "each of these {} operations".format(len(heals))
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
        {"file": k[0], "line": k[1], "function": k[2], "call": provenance.short_name(k[3]), "to": ops.short(v)}
        for k, v in heals.items()
    ]
    return answer
