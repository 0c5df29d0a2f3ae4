"""Nodes whose kernels are slower than those of their peers: the trials of `--kernels`, voted by cohort. Pure.

A kernel's speed on one node says little: clocks, power caps and builds decide. Held against the median of equal nodes,
with their own scatter as the measure (MAD, the median of the distances from the median), a slow one stands out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass

#: A node stands out when it is farther below the median than so many scatters (3.5 where no policy says otherwise), and
# by at least a share. With the factor 1.4826 this is Iglewicz and Hoaglin's rule for normal scatter
# (https://www.itl.nist.gov/div898/handbook/eda/section3/eda35h.htm).
_NORMAL = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowKernel:
    """One kernel on one node, slower than on its peers."""

    node: str
    kernel: str
    below: float
    """By which part of the median it is below it."""
    peers: int

    def words(self) -> str:
        """`flash-attn 2 bf16 is 31 % below its 63 peers`."""
        return f"{self.kernel} is {self.below:.0%} below its {self.peers:,} peers".replace("%", " %")


def slow_kernels(shares: Mapping[str, Mapping[str, float]], policy: Policy) -> tuple[SlowKernel, ...]:
    """The outliers among the nodes of one cohort; `shares`: node -> kernel -> how fast it was, more is faster;
    `policy`: of the cohort's partition.
    """
    by_kernel: dict[str, dict[str, float]] = defaultdict(dict)
    for node, kernels in shares.items():
        for kernel, share in kernels.items():
            if share > 0:
                by_kernel[kernel][node] = share
    found = (one for kernel, nodes in by_kernel.items() for one in _below(kernel, nodes, policy))
    return tuple(sorted(found, key=lambda one: (-one.below, one.node, one.kernel)))


def _below(kernel: str, nodes: Mapping[str, float], policy: Policy) -> Iterable[SlowKernel]:
    if len(nodes) <= policy.threshold("slow-kernel-peers"):
        return
    least = policy.threshold("slow-kernel-percent") / 100
    far = policy.threshold("slow-kernel-scatters")
    for node, below in below_the_median(nodes, scatters=far, least=least):
        yield SlowKernel(node=node, kernel=kernel, below=below, peers=len(nodes) - 1)


def below_the_median(nodes: Mapping[str, float], *, scatters: float, least: float) -> Iterable[tuple[str, float]]:
    """(node, by which part of the median it is below it) for nodes that stand out."""
    middle = median(nodes.values())
    scatter = _NORMAL * median(abs(share - middle) for share in nodes.values())
    for node, share in nodes.items():
        below = (middle - share) / middle
        if below >= least and middle - share > scatters * scatter:
            yield node, below
