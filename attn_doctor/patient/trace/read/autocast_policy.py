"""The operation on CUDA's autocast lists that makes a call return float32, whatever its operands are.

Autocast casts every operand of a listed operation, so a float32 weight next to a half-precision input does not affect
the result. Only the lists are used here (simulate/autocast/lists.py): they apply on a real GPU as well.
"""

from __future__ import annotations

import functools
from typing import Dict, FrozenSet, List, Optional

import torch

from ...simulate.autocast import lists as autocast_lists
from ..record import ops

_TO_FLOAT32 = frozenset({autocast_lists.FP32, autocast_lists.FP32_SET_DTYPE, autocast_lists.FP32_APPEND_DTYPE})


@functools.lru_cache(maxsize=None)
def _policies() -> Dict[str, FrozenSet[str]]:
    """Name of an operation without its overload -> the policies of its overloads that this torch registers for CUDA."""
    lists, _ = autocast_lists.installed_lists()
    listed = {name: policy for policy, names in lists.items() for name in names}
    listed.update(dict.fromkeys(autocast_lists.APPEND_DTYPE, autocast_lists.FP32_APPEND_DTYPE))
    listed.update(autocast_lists.BESIDE_THE_MACROS)
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    found: Dict[str, FrozenSet[str]] = {}
    for name, policy in listed.items():
        if "aten::" + name in registered:
            base = name.partition(".")[0]
            found[base] = found.get(base, frozenset()) | {policy}
    return found


def rule_of(func: object, inside: List[object]) -> Optional[str]:
    """The listed operation by whose rule a call under autocast gives float32; None when no list is involved.

    `func` is the torch function called, `inside` the operations below autocast that ran in it. A function on a list
    follows its own policy; another one, such as normalize, those of the operations inside it.
    """
    if func is None or isinstance(func, str) or ops.is_cast(func):
        return None
    policies = _policies()
    name = ops.name_of(func).rsplit(".", 1)[-1]
    own = policies.get(name)
    if own is not None:
        # `exp(x, out=y)` and `x.exp_()` are other overloads, which are on no list.
        written = any(ops.kind_of(op).in_place and ops.op_name(op).partition(".")[0] == name for op in inside)
        return name if own & _TO_FLOAT32 and not written else None
    for op in inside:
        base = ops.op_name(op).partition(".")[0]
        # Below autograd softmax is _softmax, and group_norm is native_group_norm.
        for spelled in (base, base.lstrip("_"), base.replace("native_", "")):
            if policies.get(spelled, frozenset()) & _TO_FLOAT32 and not ops.kind_of(op).in_place:
                return spelled
    return None
