"""User or library code that refused before any kernel was reached: q, k and v are read out of its frame."""

from __future__ import annotations

import re
from typing import Any

import torch

from .. import frames, operands, ops
from ..operands import Clause, Operand
from .attention import Record
from .roles import roles_of

_ABOUT_DTYPES = re.compile(r"dtype|float16|bfloat16|float32|\bHalf\b|fp16|bf16|fp32|same type", re.IGNORECASE)


def read(recording: Any) -> None:
    """Add a record for the attention call that a raising frame was about to make, if it holds q, k and v."""
    error = recording.error
    if any(record.error is error for record in recording.records) or isinstance(error, SystemExit):
        return
    attention = recording.attention
    traceback = error.__traceback__
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    for entry in reversed(found):
        frame = entry.tb_frame
        if not frames.is_user(frame.f_code.co_filename):
            continue
        names = {name for name, value in frame.f_locals.items() if isinstance(value, torch.Tensor)}
        roles = roles_of(names)
        if roles is None:
            continue
        record = _record(recording, frame, entry.tb_lineno, roles, error)
        if record is not None:
            attention.add(record)
        return


def _record(recording: Any, frame: Any, line: int, roles: Any, error: BaseException) -> Any:
    rec = recording.recorder
    tensors = {role: frame.f_locals[name] for role, name in roles.items()}
    mixed = len({tensors[r].dtype for r in "qkv"}) > 1
    bare = isinstance(error, AssertionError) and not str(error)
    if not (mixed or _ABOUT_DTYPES.search(str(error)) or bare):
        return None
    record = Record(frame.f_code.co_name, str(frame.f_globals.get("__name__", "")).split(".")[0])
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
