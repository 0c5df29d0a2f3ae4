"""Which op of CUDA's autocast lists makes a call answer in float32, whatever its operands are.

Of a listed op autocast casts every operand, so a float32 weight beside a half input has no say in what comes out.
Only the lists are read here (simulate/autocast/lists.py): they hold on a real GPU as well.
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
    """Name of an op without its overload -> the policies of its overloads that this torch registers for CUDA."""
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
    """The listed op by whose rule a call under autocast gives float32; None where no list has a hand in it.

    `func` is the torch function that was called, `inside` the ops below autocast that ran in it. A function on a
    list goes by its own policy; one that is on none, such as normalize, by those of the ops it is made of.
    """
    if func is None or isinstance(func, str) or ops.is_cast(func):
        return None
    policies = _policies()
    name = ops.name_of(func).rsplit(".", 1)[-1]
    own = policies.get(name)
    if own is not None:
        # `exp(x, out=y)` and `x.exp_()` are other overloads, which stand on no list.
        written = any(ops.kind_of(op).in_place and ops.op_name(op).partition(".")[0] == name for op in inside)
        return name if own & _TO_FLOAT32 and not written else None
    for op in inside:
        base = ops.op_name(op).partition(".")[0]
        # Below autograd softmax is _softmax, and group_norm is native_group_norm.
        for spelled in (base, base.lstrip("_"), base.replace("native_", "")):
            if policies.get(spelled, frozenset()) & _TO_FLOAT32 and not ops.kind_of(op).in_place:
                return spelled
    return None
