"""attn-doctor: examines the attention stack of a training node.

Public are the command line, what `__all__` names, the report format `attn-doctor/report/v1`, the recipe format and the
exit statuses. The other Python modules are not: they may change in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.api import AnyPath, Examination, Planned, check, explain, plan, trace
    from attn_doctor.errors import AttentionTrouble, AttnDoctorError, BadInput, TargetUnusable
    from attn_doctor.guarding import Guarding, Policy
    from attn_doctor.watching import Watching

__all__ = [
    "AttentionTrouble",
    "AttnDoctorError",
    "BadInput",
    "Examination",
    "Planned",
    "TargetUnusable",
    "__version__",
    "check",
    "explain",
    "plan",
    "trace",
    "watch",
]

_API = frozenset({"Examination", "Planned", "check", "explain", "plan", "trace"})


@overload
def watch(*, enabled: bool = ..., all_ranks: bool = ..., every: None = ...) -> Watching: ...


@overload
def watch(
    *,
    every: int,
    rows: int = ...,
    policy: Policy = ...,
    report: AnyPath | None = ...,
    enabled: bool = ...,
    all_ranks: bool = ...,
) -> Guarding: ...


def watch(
    *,
    enabled: bool = True,
    all_ranks: bool = False,
    every: int | None = None,
    rows: int = 4,
    policy: Policy = "log",
    report: AnyPath | None = None,
) -> Watching | Guarding:
    """`with attn_doctor.watch(): model(x)` prints the dtype path of every broken attention call to stderr.

    Nothing is raised, nothing is redirected. On rank 0 only unless `all_ranks`; `enabled=False` costs nothing. What
    torch.compile would compile runs uncompiled meanwhile. `@attn_doctor.watch()` watches each call of a function.

    With `every` it is a guard for a training run: one of so many steps is examined, the others run untouched. Call
    `.step()` at the end of each step, or hand `.for_transformers()` or `.for_lightning()` to a trainer. It says which
    backend each call took, where rows or gradients are not finite, and holds `rows` sampled rows of a call against
    float64. `policy`: "log", or "stop", which raises AttentionTrouble from `.step()`. `report`: a file for report/v1.
    """
    if every is not None:
        from attn_doctor.guarding import Guarding

        return Guarding(every=every, rows=rows, policy=policy, report=report, enabled=enabled, all_ranks=all_ranks)
    from attn_doctor.watching import Watching

    return Watching(enabled=enabled, all_ranks=all_ranks)


def __getattr__(name: str) -> object:
    # Loaded when it is used: a training program that imports this package pays for nothing else.
    if name in _API:
        from attn_doctor import api

        return getattr(api, name)
    if name in __all__:
        from attn_doctor import errors

        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
