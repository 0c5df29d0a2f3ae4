"""`check --expect`: after this node's report is written, waits for the reports of the other nodes and compares them.

To be run before a job's first collective. Reports are exchanged in a folder: a rank that hangs in a collective would
lose every report.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from attn_doctor.cli.delivery import Delivery
from attn_doctor.cli.fleet_answer import Answer
from attn_doctor.errors import BadInput
from attn_doctor.fleet.reading import Messages
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.workflows.fleet.standard import Standard, standard


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The requirements on the other nodes."""

    folder: Path
    standard: Standard
    wait: float
    """Seconds."""
    since: datetime
    answer: Answer

    def status(self) -> int:
        """Waits, prints the verdict on all nodes, and gives its exit status."""
        return self.answer.write(self.standard.awaited([self.folder], Messages(), self.wait, since=self.since))


def gate(expect: str, wait: float, delivery: Delivery, *, accept: Path | None = None) -> Gate:
    """The gate for these options, starting now. `accept`: a site's policy.

    Raises BadInput.
    """
    folder = delivery.folder
    if folder is None:
        raise BadInput(
            "nodes leave their reports for each other in a folder",
            about=f"--expect {expect[:200]}",
            hint="Name one that all of them see: --output /shared/reports/",
        )
    if delivery.form is not None or delivery.exit_zero:
        raise BadInput(
            "with --expect the answer, and the exit status, is that of all nodes",
            about="--exit-zero" if delivery.exit_zero else f"--format {delivery.form}",
            hint="Leave that option out; the report of this node is in the folder.",
        )
    held = standard(expect=expect, accept=accept)
    answer = Answer(form=None, json=False, output=None, write_lists=None)
    # Other nodes start at most `wait` seconds before or after this one: an older report belongs to another run.
    since = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(seconds=wait)

    return Gate(folder=folder, standard=held, wait=wait, since=since, answer=answer)
