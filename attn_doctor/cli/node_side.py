"""One examination per node: the ranks of a launcher share it, and a failed examination is reported."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.cli import guard, started
from attn_doctor.cli.delivery import Delivery, failed_report
from attn_doctor.errors import AttnDoctorError
from attn_doctor.formats import report_v1
from attn_doctor.machine import once_a_node
from attn_doctor.machine.candidates import candidates
from attn_doctor.model.digests import hex_digest
from attn_doctor.model.exit_status import Status, styled
from attn_doctor.model.fingerprint import Importance, importance
from attn_doctor.model.report import Report
from attn_doctor.probe.host.node import relevant
from attn_doctor.probe.host.node_names import node_name

if TYPE_CHECKING:
    from attn_doctor.cli.gate import Gate  # loads the fleet side, which few checks need

#: Variables that decide which interpreter is examined, and what it loads.
_DECIDE = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
#: Seconds that a rank waits for the one that examines; a full check of a slow node takes minutes.
_LONGEST = 900.0


def examined_once(
    look: Callable[[], Report],
    delivery: Delivery,
    *,
    python: str | None,
    quick: bool,
    timeout: float,
    gate: Gate | None = None,
) -> int:
    """Examines and delivers, or waits for the process that does; returns the exit status. With a `gate`, the gate
    returns it.

    Raises the errors of `look`, after reporting them where reports are collected; with --exit-zero, when the report is
    the verdict, they are only printed.
    """
    raised: list[Exception] = []

    def mine() -> once_a_node.Answer:
        asked = _asked(python)
        # The requested interpreter is known even if it does not answer.
        failure = f"failed-{hex_digest(asked)[:8]}"
        try:
            report = look()
        except Exception as error:
            raised.append(error)
            status = error.exit_status if isinstance(error, AttnDoctorError) else int(Status.OUR_BUG)
            if delivery.tells_failures:
                told = failed_report(error, node_name(os.environ), environment=failure, asked=asked, quick=quick)
                with contextlib.suppress(AttnDoctorError, OSError):  # only the first error is reported
                    delivery.deliver(told)
                    # A site may have srun end the whole step when one task ends with another status (KillOnBadExit).
                    status = 0 if delivery.exit_zero and delivery.told_in_full else status
            return once_a_node.Answer(status=styled(status, delivery.style))
        try:
            delivery.deliver(report, outdates=failure)
        except AttnDoctorError as error:
            raised.append(error)
            return once_a_node.Answer(status=styled(error.exit_status, delivery.style))
        status = delivery.ends_with(report) if gate is None else styled(gate.status(), delivery.style)
        return once_a_node.Answer(status=status, report=None if ranked else report_v1.line(report))

    ranked = once_a_node.rank(os.environ)
    if ranked is None and delivery.folder is None:
        answer = mine()
    else:
        wait = max(_LONGEST, 10 * timeout) + (0.0 if gate is None else gate.wait)
        answer, own = once_a_node.once(_question(alone=ranked is None), mine, rank=ranked, wait=wait)
        if not own and ranked is None:
            if answer.report is None:  # it failed there: here as well, and then in words
                answer = mine()
            else:
                delivery.deliver(report_v1.loads(answer.report, about="another process's report"), mine=False)
    if raised and answer.status == Status.HEALTHY:
        guard.failed(raised[0])
    elif raised:
        raise raised[0]
    return answer.status


def _question(*, alone: bool) -> str:
    """Text of all inputs by which this examination may differ from that of a concurrent process."""
    looked_at = dict.fromkeys(_DECIDE)
    if alone:  # variables set by a wrapper may differ between ranks of one launch; the first rank decides
        looked_at |= dict.fromkeys(
            name for name in relevant(os.environ) if importance(f"env.{name}") is not Importance.IGNORED
        )
    return "\0".join(
        (
            sys.executable,
            *sys.argv[1:],
            str(Path.cwd()),
            node_name(os.environ).name,  # containers of two nodes may share /dev/shm in a test of a cluster
            *(f"{name}={os.environ.get(name, '')}" for name in looked_at),
        )
    )


def _asked(python: str | None) -> str:
    try:
        return str(candidates(python, as_module=started.as_module).first.python)
    except AttnDoctorError:
        return str(python)
