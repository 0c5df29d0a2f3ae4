"""Compares an older report with a newer one: facts by importance, findings gone and new. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attn_doctor.errors import BadInput
from attn_doctor.model.facts import Unknown
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.fingerprint import Change, Importance, Trait, differences
from attn_doctor.model.kinds import kind_of
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import dataclass

#: Families that list only what exists: a missing name means absent, in reports of every release.
_OPEN_FAMILIES = ("env.", "libraries.", "library_path.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between two reports of one node and environment, or of two nodes that should be equal."""

    changes: tuple[Change, ...]
    """Critical changes first."""
    gone: tuple[Finding, ...]
    new: tuple[Finding, ...]
    notes: tuple[str, ...]
    """Why the reports are less comparable than they seem."""
    looked_alike: bool
    """Both examinations had the same depth; otherwise a new finding may be an old one that was not looked for."""

    tried_alike: bool = True
    """The same attention kernels were run (--kernels); otherwise new findings about them prove nothing."""

    @property
    def critical(self) -> tuple[Change, ...]:
        """Known differences that are critical."""
        return tuple(one for one in self.changes if one.importance is Importance.CRITICAL and not one.unlooked)

    @property
    def benign(self) -> tuple[Change, ...]:
        """Known differences; equal jobs run on both nodes."""
        return tuple(one for one in self.changes if one.importance is Importance.BENIGN and not one.unlooked)

    @property
    def unlooked(self) -> tuple[Change, ...]:
        """Facts that are unknown on one side."""
        return tuple(one for one in self.changes if one.unlooked)

    @property
    def drifted(self) -> bool:
        """True when a critical fact differs, or the same examination now finds an error."""
        return bool(self.critical) or (
            self.looked_alike
            and any(one.severity is Severity.ERROR and (self.tried_alike or not _of_kernels(one)) for one in self.new)
        )

    @property
    def open(self) -> bool:
        """True when it is unknown whether a critical fact differs."""
        return any(one.importance is Importance.CRITICAL for one in self.unlooked)


def compare(old: Report, new: Report, *, about: tuple[str, str]) -> Comparison:
    """Compares two reports. `about` names the two files.

    Raises BadInput for a report without a fingerprint.
    """
    for report, file in ((old, about[0]), (new, about[1])):
        if report.failure is not None:
            raise BadInput(
                "the report tells only why nothing could be examined",
                about=f"{file}\n{report.failure.what}",
                hint="Examine again there, and compare that report.",
            )
        if report.identity is None:
            raise BadInput(
                "the report has no fingerprint",
                about=f"{file}: written by `{report.command}` of attn-doctor {report.doctor_version}",
                hint="Compare reports of `attn-doctor check --json`.",
            )
    assert old.identity is not None
    assert new.identity is not None
    before, after = _equally_asked(old, new)
    alike = old.quick == new.quick and old.doctor_version == new.doctor_version and old.assumed == new.assumed
    notes = []
    if old.identity.node.name != new.identity.node.name:
        notes.append(f"two nodes: {old.identity.node.name} and {new.identity.node.name}")
    if old.identity.environment.id != new.identity.environment.id:
        notes.append(f"two environments: {old.identity.environment.prefix} and {new.identity.environment.prefix}")
    if old.quick != new.quick:
        notes.append("one of them looked at files only (--quick): findings cannot be held against each other")
    if old.doctor_version != new.doctor_version:
        notes.append(f"by attn-doctor {old.doctor_version} and {new.doctor_version}, which may know other troubles")
    if old.assumed != new.assumed:
        notes.append("judged as if (--gpu, --assume) differently: findings cannot be held against each other")
    tried_alike = _tried(old) == _tried(new)
    if not tried_alike:
        notes.append(f"attention kernels: {_tried(old)}, and {_tried(new)}: findings about them cannot be compared")
    known_before = {(one.id, one.subjects) for one in old.diagnosis.findings}
    known_after = {(one.id, one.subjects) for one in new.diagnosis.findings}
    return Comparison(
        changes=tuple(differences(before, after)),
        gone=tuple(one for one in old.diagnosis.findings if (one.id, one.subjects) not in known_after),
        new=tuple(
            one for one in new.diagnosis.findings if (one.id, one.subjects) not in known_before and not one.accepted
        ),
        notes=tuple(notes),
        looked_alike=alike,
        tried_alike=tried_alike,
    )


def _of_kernels(finding: Finding) -> bool:
    """True when it or one of its symptoms was found by running kernels."""
    tried = any(kind_of(fact.name.kind).on_request == "--kernels" for fact in finding.evidence)
    return tried or any(map(_of_kernels, finding.symptoms))


def _tried(report: Report) -> str:
    """The kernels that were tried, in words: a kernel that did not run was not found correct."""
    kernels = report.kernels
    if kernels is None:
        return "not asked for (--kernels)"
    if not kernels.ran:
        return "none was run"
    named = [*kernels.backends_asked, *kernels.dtypes_asked]
    whole = "" if not kernels.not_reached else ", in part"
    return f"--kernels {kernels.mode}" + (f" of {', '.join(named)}" if named else "") + whole


def _equally_asked(old: Report, new: Report) -> tuple[Mapping[str, Trait], Mapping[str, Trait]]:
    """The facts of both; a fact that only one release of attn-doctor examines is unknown in the other."""
    assert old.identity is not None
    assert new.identity is not None
    before, after = dict(old.identity.fingerprint.facts), dict(new.identity.fingerprint.facts)
    if old.doctor_version != new.doctor_version:
        for one, other, report in ((before, after, old), (after, before, new)):
            for name in other.keys() - one.keys():
                if not name.startswith(_OPEN_FAMILIES):
                    one[name] = Unknown(f"attn-doctor {report.doctor_version} does not look at it")
    return before, after
