"""What a site's policy makes of the reports of a fleet: by each node's partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

from attn_doctor.fleet.gather import CohortKey, Record
from attn_doctor.fleet.kernel_outliers import SlowKernel
from attn_doctor.model.fleet import NodeFinding, Outcome
from attn_doctor.model.policy import SLOWER, Policy
from attn_doctor.quick_dataclasses import replace

_UNITS = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}


class SitePolicy:
    """The policy as it holds on one day, partition by partition."""

    def __init__(self, policy: Policy, *, today: date) -> None:
        self._whole = policy.on(today) if policy else policy
        self._by_partition: dict[str | None, Policy] = {}
        self._by_cohort: dict[CohortKey, Policy] = {}
        self._outcomes: dict[tuple[Outcome, int], Outcome] = {}

    def of(self, partition: str | None) -> Policy:
        """For the nodes of this partition."""
        if partition not in self._by_partition:
            self._by_partition[partition] = self._whole.here(partition or None)
        return self._by_partition[partition]

    def _of_record(self, record: Record) -> Policy:
        if not self._whole:
            return self._whole
        found = self._by_cohort.get(record.cohort)  # one object for equal cohorts, of which there are few
        if found is None:
            found = self._by_cohort[record.cohort] = self.of(dict(record.cohort).get("partition"))
        return found

    def span(self, threshold: str, record: Record) -> timedelta:
        """The value of a threshold that is a time."""
        return self._of_record(record).threshold(threshold) * _UNITS[threshold.rpartition("-")[2]]

    def judged(self, record: Record) -> Record:
        """The record with the policy's findings: the node may not have known it.

        An acceptance for one subject is the node's own affair: a fleet does not see subjects.
        """
        policy = self._of_record(record)
        if not (policy.acceptances or policy.gates) or not record.outcome.findings:
            return record
        mark = (record.outcome, id(policy))
        if mark not in self._outcomes:
            self._outcomes[mark] = _judged(record.outcome, policy)
        return replace(record, outcome=self._outcomes[mark])

    def slower(self, slow: Iterable[tuple[SlowKernel, str | None]]) -> dict[NodeFinding, set[str]]:
        """The nodes that fail because their kernels are slower than those of their peers: where a gate says so."""
        found: dict[NodeFinding, set[str]] = {}
        for one, partition in slow:
            if any(gate.id == SLOWER for gate in self.of(partition).gates):
                finding = NodeFinding(id=SLOWER, severity="error", title=f"{one.kernel} is slower than on its peers")
                found.setdefault(finding, set()).add(one.node)
        return found


def _judged(outcome: Outcome, policy: Policy) -> Outcome:
    lived_with = {one.id for one in policy.acceptances if not one.subject}
    errors = {one.id for one in policy.gates if not one.subject}
    kept = tuple(
        replace(one, severity="error") if one.id in errors else one
        for one in outcome.findings
        if one.id not in lived_with
    )
    status = outcome.exit_status
    if status == 1 and not outcome.gating() & set(kept):
        status = 0
    return replace(outcome, findings=kept, exit_status=1 if any(one.id in errors for one in kept) else status)
