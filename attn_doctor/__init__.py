"""attn-doctor: examines the attention stack of a training node.

Public are the command line, `watch`, the report format `attn-doctor/report/v1`, the recipe format and the exit
statuses. The other Python modules are not: they may change in any release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attn_doctor.watching import Watching

__version__ = "0.1.0"


def watch(*, enabled: bool = True, all_ranks: bool = False) -> Watching:
    """`with attn_doctor.watch(): model(x)` prints the dtype path of every broken attention call to stderr.

    Nothing is raised, nothing is redirected. On rank 0 only unless `all_ranks`; `enabled=False` costs nothing. What
    torch.compile would compile runs uncompiled meanwhile. `@attn_doctor.watch()` watches each call of a function.
    """
    from attn_doctor.watching import Watching

    return Watching(enabled=enabled, all_ranks=all_ranks)
