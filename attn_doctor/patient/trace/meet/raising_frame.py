"""User or library code that raised before any kernel was reached: q, k and v are read from its frame.

Only an error about dtypes counts as a failed attention call, and only if a run with the promoting calls cast back gets
past it (counterfactual.gets_past). Any other error in a function that has q, k and v is the program's own.
"""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Dict, List, Optional

import torch

from ..read import provenance
from ..record import frames, ops
from . import operands
from .attention import ABOUT_DTYPES, Record
from .operands import Clause, Operand
from .roles import roles_of

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from ..record.graph import Node
    from ..run.session import Recording


def read(recording: Recording) -> None:
    """Adds a record for the attention call that a raising frame was about to make, if it has q, k and v."""
    error = recording.error
    if error is None or any(record.error is error for record in recording.records) or isinstance(error, SystemExit):
        return
    failed = recording.recorder.failed
    if failed is not None and failed.error is error:
        return  # a torch function called by the program: reported as that call, with the origin of its operands' dtypes
    attention = recording.attention
    traceback = error.__traceback__
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    user = [entry for entry in found if frames.is_user(entry.tb_frame.f_code.co_filename)]
    if not user or not _over_dtypes(error, user[-1]):
        return
    for entry in reversed(user):
        frame = entry.tb_frame
        names = {name for name, value in frame.f_locals.items() if isinstance(value, torch.Tensor)}
        roles = roles_of(names)
        if roles is None:
            continue
        record = _record(recording, frame, entry.tb_lineno, roles, error)
        if record is not None:
            attention.add(record)
        return


def _over_dtypes(error: BaseException, entry: TracebackType) -> bool:
    """True when its message is about dtypes, or when it is an assertion without message whose line tests a dtype."""
    if str(error):
        return bool(ABOUT_DTYPES.search(str(error)))
    code = entry.tb_frame.f_code
    line = linecache.getline(code.co_filename, entry.tb_lineno)
    return isinstance(error, AssertionError) and bool(_ASKS_FOR_A_DTYPE.search(line))


_ASKS_FOR_A_DTYPE = re.compile(ABOUT_DTYPES.pattern + r"|is_floating_point|element_size|itemsize", re.IGNORECASE)


def _attended(recording: Recording, nodes: List[Node]) -> bool:
    """True when an attention call has used these operands already: the error then came after it."""
    for record in recording.records:
        if record.error is not None:
            continue
        on_the_way = set()
        for operand in record.operands.values():
            if operand.node is not None:
                on_the_way.add(id(operand.node))
                on_the_way.update(id(unit.node) for unit in provenance.path_of(operand.node))
        if all(id(node) in on_the_way for node in nodes):
            return True
    return False


def _record(
    recording: Recording, frame: FrameType, line: int, roles: Dict[str, str], error: BaseException
) -> Optional[Record]:
    rec = recording.recorder
    tensors = {role: frame.f_locals[name] for role, name in roles.items()}
    if any(tensors[role].dtype not in ops.FLOATS for role in "qkv"):
        return None
    if _attended(recording, [rec.node(tensors[role]) for role in "qkv"]):
        return None
    mixed = len({tensors[r].dtype for r in "qkv"}) > 1
    record = Record(frame.f_code.co_name, str(frame.f_globals.get("__name__", "")).split(".")[0])
    record.claimed = True
    for role, tensor in tensors.items():
        if tensor.dtype in ops.FLOATS or role == "mask":
            node = rec.node(tensor) if tensor.dtype in ops.FLOATS else None
            record.operands[role] = Operand(role, tensor, node)
    site = (frame.f_code.co_filename, line, frame.f_code.co_name)
    record.site = site
    record.stack = [site, *frames.stack_of(frame.f_back)]
    record.error = error
    record.clauses = [operands.equal_dtypes(record.operands, operands.RAISES, str(error))]
    if not mixed:
        record.clauses.append(
            Clause(
                "what the code itself demands before its kernel", False, operands.RAISES, str(error), ("q", "k", "v")
            )
        )
    recording.attention.total += 1
    record.number = recording.attention.total
    if rec.last is not None and rec.last.module:
        record.modules.append(rec.last.module)
    return record
