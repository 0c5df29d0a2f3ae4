"""`check --lock`: what a lock file or manifest would install, judged before it is deployed."""

from __future__ import annotations

from attn_doctor.cli.delivery import Delivery
from attn_doctor.cli.shared import refuse_beside
from attn_doctor.workflows.check_lock import CheckLockRequest, check_lock

#: Parameters of `check` that have an effect here.
_TAKES = (
    "lock", "gpu", "assumption", "only", "skip", "recipes", "accept_file", "fail_on", "format_", "json_", "output",
    "exit_style", "exit_zero", "verbose", "show_names",
)  # fmt: skip


def run(request: CheckLockRequest, delivery: Delivery) -> int:
    """Judges and delivers; returns the exit status.

    Raises BadInput for a file that cannot be read, and for options that need an environment.
    """
    refuse_beside("--lock", takes=_TAKES, hint="Leave it out: no environment is looked at.")
    delivery.prepare()
    report = check_lock(request)
    delivery.deliver(report)
    return delivery.ends_with(report)
