"""Turns the records of a run into the JSON that the doctor reads (schema in ../__init__)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from ... import outcomes
from ...dtypes import HALVES
from ..meet.attention import Record
from ..meet.operands import wanted_dtype
from ..record import frames, ops
from . import provenance

if TYPE_CHECKING:
    from ..answer import Call, CastBack, FailedOperand, Failure, Operand, Promotion, Raised
    from ..record.graph import Node
    from ..record.recorder import Failed


def worst(records: List[Record]) -> Optional[str]:
    """The worst verdict; None when there was no attention call, which does not mean clean."""
    return max((r.verdict for r in records), key=outcomes.VERDICTS.index, default=None)


def suspects(record: Record) -> List[str]:
    """The roles whose dtype needs an explanation: those blamed by a contract, else those that differ from the
    others.
    """
    if record.verdict == outcomes.CLEAN or record.other_trouble:
        return []
    roles: List[str] = []
    for clause in record.clauses:
        if not clause.kept:
            roles.extend(r for r in clause.blamed if r not in roles)
    wanted = wanted_dtype(record.operands, record.autocast)
    if wanted is not None:
        for role in ("q", "k", "v", "new_k", "new_v"):
            operand = record.operands.get(role)
            if operand is not None and operand.dtype != wanted and role not in roles:
                roles.append(role)
    elif roles and set(roles) & {"q", "k", "v"}:
        roles.extend(r for r in ("q", "k", "v") if r in record.operands and r not in roles)
    wrong = [r for r in roles if r in record.operands and record.operands[r].node is not None]
    return [r for r in wrong if wanted is None or r == "mask" or record.operands[r].dtype != wanted]


def widened(record: Record) -> List[str]:
    """q, k and v if all of them were in half precision and reach torch's SDPA in float32, which it accepts silently.

    Not if each was widened by an explicit cast in the program: such attention is float32 on purpose. Not under
    autocast, which casts back; and not if none was in half precision.
    """
    own = [record.operands[role] for role in ("q", "k", "v") if role in record.operands]
    if record.verdict != outcomes.CLEAN or record.name != _SDPA or record.backward or record.autocast is not None:
        return []
    nodes = [one.node for one in own if one.node is not None and ops.short(one.dtype) == "float32"]
    if len(nodes) < 3:
        return []
    units = [provenance.promotion_of(node) for node in nodes]
    found = [provenance.describe_promotion(unit) for unit in units if unit is not None]
    if len(found) < 3 or any(one["dtype_in"] not in HALVES for one in found):
        return []
    return ["q", "k", "v"] if any(one["kind"] not in _WRITTEN for one in found) else []


_SDPA = "scaled_dot_product_attention"
_WRITTEN = ("explicit cast", "dtype argument")
"""Kinds of promotions that a program asks for in so many words."""


class Promotions:
    """The promoting calls of a result, each once, for any number of operands and layers."""

    def __init__(self) -> None:
        self.found: List[Promotion] = []
        self._index: Dict[Tuple[object, ...], int] = {}

    def add(self, unit: provenance.Unit, record: Record, role: str, found_in_run: int) -> int:
        key = (unit.call.site, unit.name, unit.node.dtype)
        if key not in self._index:
            described = provenance.describe_promotion(unit)
            node = record.operands[role].node
            assert node is not None  # the unit stands on its way
            heal = provenance.heal_of(node, unit)
            promotion: Promotion = {
                **described,
                "cast_back": _cast_back(node, unit),
                "id": len(self.found),
                "roles": [],
                "modules": [],
                "calls": 0,
                "latent": found_in_run > 0,
                "found_in_run": found_in_run,
                "can_be_tried": heal is not None,
            }
            self._index[key] = len(self.found)
            self.found.append(promotion)
        number = self._index[key]
        entry = self.found[number]
        if role not in entry["roles"]:
            entry["roles"].append(role)
        entry["modules"].extend(m for m in record.modules if m not in entry["modules"])
        entry["calls"] = max(entry["calls"], record.count)
        return number


def describe(record: Record, promotions: Promotions, found_in_run: int = 0, with_paths: bool = True) -> Call:
    """One folded attention call as JSON; its promoting calls are added to `promotions`."""
    operands: Dict[str, Operand] = {}
    blamed = suspects(record) or widened(record)
    for role, operand in record.operands.items():
        entry: Operand = {
            "dtype": ops.short(operand.dtype),
            "shape": list(operand.shape),
            "stride": list(operand.stride) if operand.stride is not None else None,
            "head_dim": operand.head_dim,
            "last_dim_contiguous": operand.stride[-1] == 1 if operand.stride else None,
            "blamed": role in blamed,
            "all_along": False,
            "promotion": None,
            "born": [],
            "path": [],
        }
        if operand.node is not None:
            if with_paths:
                entry["path"] = [provenance.step(u) for u in provenance.path_of(operand.node)]
            if role in blamed:
                unit = provenance.promotion_of(operand.node)
                if unit is not None:
                    number = entry["promotion"] = promotions.add(unit, record, role, found_in_run)
                    entry["born"] = promotions.found[number]["born"]
                else:
                    entry["all_along"] = True
                    entry["born"] = provenance.born(operand.node)
        operands[role] = entry
    error = record.error
    raised: Optional[Raised] = None
    if error is not None:
        raised = {
            "type": type(error).__name__,
            "message": str(error).strip(),
            "predicted": record.predicted,
            "at": frames.described(frames.raising_site(error)),
        }
    return {
        "name": record.name,
        "library": record.library,
        "stand_in": record.stand_in,
        "needs_gpu": record.needs_gpu,
        "verdict": record.verdict,
        "error": raised,
        "contract": [clause.as_json() for clause in record.clauses],
        "autocast": ops.short(record.autocast) if record.autocast is not None else None,
        "operands": operands,
        "head_dim": record.operands["q"].head_dim if "q" in record.operands else None,
        "at": frames.described(record.site),
        "stack": [frames.described(site) for site in record.stack[1:]],
        "modules": list(record.modules),
        "calls": record.count,
        "first_call": record.number,
        "backward": record.backward,
        "inside": list(record.inside),
        "backend": record.backend,
        "written_out": record.written_out,
    }


def _cast_back(node: Node, unit: provenance.Unit) -> Optional[CastBack]:
    """Where the promoting code should have cast back, if that is not the promoting call itself."""
    back = provenance.way_back_of(node, unit)
    source = provenance.narrow_source(unit)
    place = frames.described(back.call.site) if back is not None else None
    if back is None or source is None or place is None:
        return None
    return {**place, "call": provenance.short_name(back.name), "to": ops.short(source.real)}


def failure(failed: Optional[Failed]) -> Optional[Failure]:
    """The torch function that raised, with the dtypes of its operands and their origins."""
    if failed is None:
        return None
    operands: List[FailedOperand] = []
    for node, shape in failed.operands:
        unit = provenance.promotion_of(node)
        operands.append(
            {
                **provenance.label(node),
                "shape": [int(n) if isinstance(n, int) else str(n) for n in shape],
                "promotion": provenance.describe_promotion(unit) if unit is not None else None,
                "born": provenance.born(node),
            }
        )
    dtypes = {entry["dtype"] for entry in operands}
    return {
        "call": provenance.short_name(failed.func),
        "at": frames.described(failed.site),
        "module": failed.module,
        "operands": operands,
        "mixed": len(dtypes) > 1,
    }
