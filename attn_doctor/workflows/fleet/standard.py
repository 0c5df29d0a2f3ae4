"""The standard for the reports of a fleet: the expected nodes, a golden file or the majority, a maximum age."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.fleet import golden as goldens
from attn_doctor.fleet import slurm
from attn_doctor.fleet.cohorts import COHORT_BY
from attn_doctor.fleet.gather import Gathered, moment
from attn_doctor.fleet.nodeset import unfold
from attn_doctor.fleet.reading import Messages, watch
from attn_doctor.fleet.verdict import Question
from attn_doctor.fleet.verdict import verdict as judge
from attn_doctor.machine.files import read_input
from attn_doctor.model.fleet import FleetVerdict, NodeReport, Unreadable
from attn_doctor.model.policy import Policy
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.recipes.data import accepted

#: Largest file of node names, in bytes: enough for a million nodes, the maximum.
_MOST_NAMES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The standard, with its files read."""

    expected: tuple[str, ...] | None = None
    """None: the nodes that report."""
    golden: goldens.Golden | None = None
    """None: compare with the majority."""
    cohort_by: tuple[str, ...] = COHORT_BY
    cohorts_as_given: bool = False
    """The user chose the cohorts."""
    max_age: timedelta | None = None
    age_decides: bool = False
    """Without a maximum age of its own, the policy's counts."""
    policy: Policy = field(default_factory=Policy)

    def judged(
        self,
        gathered: Gathered,
        heard: Messages,
        deep: tuple[str, ...] = (),
        *,
        gpus_asked: bool = False,
        gpus_asked_on: frozenset[str] = frozenset(),
        not_started: tuple[str, ...] = (),
    ) -> FleetVerdict:
        """The verdict on the reports received so far."""
        return judge(
            gathered,
            Question(
                now=datetime.now(timezone.utc),
                expected=self.expected,
                deep_expected=deep,
                gpus_asked=gpus_asked,
                gpus_asked_on=gpus_asked_on,
                not_started=not_started,
                cohort_by=self.cohort_by,
                cohorts_as_given=self.cohorts_as_given,
                golden=None if self.golden is None else self.golden.cohorts,
                max_age=self.max_age,
                age_decides=self.age_decides,
                policy=self.policy,
                engine_said=heard.engine,
                node_said=heard.nodes,
            ),
        )

    def awaited(
        self, folders: Sequence[Path], heard: Messages, wait: float, *, since: datetime | None = None
    ) -> FleetVerdict:
        """The verdict as soon as no expected node is missing, or after `wait` seconds. Reports from before `since` do
        not count."""
        gathered = Gathered()
        damaged: dict[str, Unreadable] = {}
        for arrival in watch(folders, heard, seconds=wait):
            if isinstance(arrival, Unreadable):
                damaged[arrival.source] = arrival  # it may be complete at the next pass
            elif arrival is not None:
                if since is not None and _before(arrival, since):
                    heard.nodes[arrival.node] = f"its report is of {arrival.created}, from before this run"
                    continue
                damaged = {source: one for source, one in damaged.items() if one.node != arrival.node}
                gathered.add(arrival)
            elif not damaged:
                verdict = self.judged(gathered, heard)
                # With a maximum age, an older report does not end the waiting.
                if not verdict.missing and not (verdict.age_decides and verdict.old):
                    return verdict
        gathered.unreadable += damaged.values()
        return self.judged(gathered, heard)


def standard(
    *,
    expect: str | None = None,
    golden: Path | None = None,
    cohort_by: str | None = None,
    max_age: timedelta | None = None,
    age_decides: bool = False,
    accept: Path | None = None,
) -> Standard:
    """Reads the standard. `expect`: a node set, @FILE with one, or slurm; `cohort_by`: names separated by commas;
    `accept`: a site's policy.

    Raises BadInput for input that cannot be read.
    """
    held = goldens.read(golden) if golden is not None else None
    return Standard(
        expected=expected_nodes(expect),
        golden=held,
        cohort_by=cohorts(cohort_by, held),
        cohorts_as_given=cohort_by is not None,
        max_age=max_age,
        age_decides=age_decides,
        policy=accepted.policy(accept) if accept is not None else Policy(),
    )


def cohorts(written: str | None, golden: goldens.Golden | None) -> tuple[str, ...]:
    """The facts that equal nodes share; a golden file has its own list.

    Raises BadInput.
    """
    known = (*COHORT_BY, "gpu_count")
    asked = tuple(name.strip() for name in (written or "").split(",") if name.strip())
    wrong = [name for name in asked if name not in known]
    if wrong:
        raise BadInput(
            "no cohort has that", about=f"--cohort-by {wrong[0]}", hint=f"One or more of {', '.join(known)}."
        )
    if golden is not None and asked and asked != golden.cohort_by:
        raise BadInput(
            "the golden file was made by other cohorts",
            about=f"--cohort-by {written}; the file has {','.join(golden.cohort_by)}",
            hint="Leave --cohort-by out, or make the file again with it.",
        )
    return golden.cohort_by if golden is not None else asked or COHORT_BY


def expected_nodes(written: str | None) -> tuple[str, ...] | None:
    """The nodes of --expect, each once, in the order written.

    Raises BadInput.
    """
    if written is None:
        return None
    if written == "slurm":
        return slurm.expected(os.environ)
    if written.startswith("@") and "/" in written and not Path(written[1:]).exists():
        raise BadInput("there is no such file", about=f"--expect {written[:200]}", hint="Node names, one a line.")
    if not written.startswith("@") or "[" in written or not Path(written[1:]).exists():
        return unfold(written, about=f"--expect {written[:200]}")
    try:
        text = read_input(Path(written[1:]), most=_MOST_NAMES).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(
            f"the file cannot be read: {said}", about=f"--expect {written}", hint="It holds node names, one a line."
        ) from None
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return unfold(",".join(line for line in lines if line), about=f"--expect {written}")


def _before(report: NodeReport, since: datetime) -> bool:
    try:
        return moment(report.created) < since
    except ValueError:
        return False  # an invalid time: the verdict reports it
