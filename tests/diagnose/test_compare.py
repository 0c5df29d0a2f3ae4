"""Two reports held against each other."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given

from attn_doctor.diagnose.fingerprint import Places, fingerprint_from
from attn_doctor.diagnose.report_diff import compare
from attn_doctor.errors import BadInput
from attn_doctor.model import fingerprint
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.fingerprint import Trait
from attn_doctor.model.identity import Cohort, EnvironmentName, Identity, NodeName
from attn_doctor.model.report import Examined, Failure, Report
from attn_doctor.report import comparison
from tests import strategies

TRAITS: dict[str, Trait] = {"packages.torch": "2.13.0", "driver": "580.1", "gpu_count": 8, "kernel": "6.1"}


def _report(
    *, version: str = "0.1.0", quick: bool = False, findings: tuple[Finding, ...] = (), **traits: Trait
) -> Report:
    written = {**TRAITS, **{name.replace("__", "."): trait for name, trait in traits.items()}}
    return Report(
        command="check",
        doctor_version=version,
        created="2026-11-21T00:00:00+00:00",
        examined=Examined(python="/p", version="3.11.7", environment="venv", because=""),
        quick=quick,
        assumed=(),
        diagnosis=Diagnosis(findings=findings),
        exit_status=0,
        facts=FactSet(),
        identity=Identity(
            node=NodeName(name="n1", hostname="n1", named_by="hostname"),
            environment=EnvironmentName(id="e", prefix="/opt/venv"),
            cohort=Cohort(gpu=(), compute_capability=(), gpu_count=8, partition=None, environment="e"),
            fingerprint=fingerprint.fingerprint_of(written),
        ),
    )


def _compare(old: Report, new: Report):  # type: ignore[no-untyped-def]
    return compare(old, new, about=("old.json", "new.json"))


BROKEN = Finding(id="flash-attn-broken", severity=Severity.ERROR, title="It is.")
LATENT = Finding(id="latent", severity=Severity.WARNING, title="It may be.")


def test_the_same() -> None:
    """Equal reports have no differences."""
    found = _compare(_report(findings=(BROKEN,)), _report(findings=(BROKEN,)))

    assert (found.changes, found.new, found.gone, found.drifted, found.open) == ((), (), (), False, False)


def test_benign_is_no_drift() -> None:
    """A patch of the driver and a latent warning are told and do not gate."""
    found = _compare(_report(), _report(driver="580.2", findings=(LATENT,)))

    assert [one.name for one in found.benign] == ["driver"]
    assert [one.id for one in found.new] == ["latent"]
    assert not found.drifted


def test_a_package_that_is_gone_is_critical() -> None:
    """Absent is a value: it differs from every version."""
    found = _compare(_report(packages__triton="3.6.0"), _report())

    assert [(one.name, one.old, one.new) for one in found.critical] == [("packages.triton", "3.6.0", None)]
    assert found.drifted


def test_a_new_error_without_another_fact() -> None:
    """It worked yesterday, nothing that is known has changed, and it does not work: that is no `same`."""
    found = _compare(_report(), _report(findings=(BROKEN,)))

    assert found.changes == ()
    assert found.drifted


def test_a_new_error_that_was_not_looked_for() -> None:
    """Between --quick and a full check a new finding may be as old as the environment."""
    found = _compare(_report(quick=True), _report(findings=(BROKEN,)))

    assert [one.id for one in found.new] == ["flash-attn-broken"]
    assert not found.drifted
    assert "files only" in found.notes[0]


def test_what_could_not_be_looked_at_is_open() -> None:
    """Whether a fact differs that one side could not look at is not known: neither drift nor the same."""
    found = _compare(_report(), _report(gpu_count=Unknown("NVML hung")))

    assert (found.drifted, found.open) == (False, True)
    assert [one.name for one in found.unlooked] == ["gpu_count"]
    assert not _compare(_report(), _report(driver=Unknown("NVML hung"))).open  # benign


def test_a_doctor_that_looks_at_more() -> None:
    """What the older attn-doctor did not look at was not absent then."""
    found = _compare(_report(version="0.1.0"), _report(version="0.2.0", packages__newthing="1.0", libraries__x="b"))

    assert [one.name for one in found.unlooked] == ["packages.newthing"]
    assert [one.name for one in found.critical] == ["libraries.x"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"identity": None}, "no fingerprint"),
        ({"failure": Failure(what="the interpreter hangs")}, "why nothing could be examined"),
    ],
)
def test_reports_that_cannot_be_compared(changes: dict[str, object], says: str) -> None:
    """The file is named, and why."""
    with pytest.raises(BadInput, match=says) as caught:
        _compare(_report(), dataclasses.replace(_report(), **changes))  # type: ignore[arg-type]

    assert "new.json" in caught.value.about


@given(old=strategies.reports, new=strategies.reports)
def test_any_two_reports(old: Report, new: Report) -> None:
    """What one report has more is what the other has less; both forms can be written."""
    if old.identity is None or new.identity is None or old.failure or new.failure:
        return
    there, back = _compare(old, new), _compare(new, old)

    assert {one.name for one in there.changes} == {one.name for one in back.changes}
    assert there.open == back.open
    assert {one.id for one in there.gone if not one.accepted} == {one.id for one in back.new}
    json.dumps(comparison.to_json(comparison.Compared(there, old, new)))
    assert all(line.isprintable() for line in comparison.lines(comparison.Compared(there, old, new)))


def test_a_kind_that_could_not_be_listed_is_not_absent() -> None:
    """A failed probe lists no packages: they are unknown, not absent."""
    lost = _report(**{"packages.torch": Unknown("a probe failed"), "packages.*": Unknown("attn-doctor's own probe")})
    found = _compare(_report(**{"packages.flash-attn": "2.8.3", "packages.six": "1.0"}), lost)

    assert not found.drifted
    assert found.open
    assert {one.name for one in found.unlooked} == {"packages.torch", "packages.flash-attn", "packages.six"}
    assert (found.critical, found.benign) == ((), ())


def test_a_failed_probe_marks_the_kinds_that_it_lists() -> None:
    """Of what it would have listed nothing is known; of the other kinds what is missing is absent as before."""
    reason = 'attn-doctor\'s own probe "packages" failed'
    facts = FactSet(
        [
            Fact(name=FactName.parse("listed.package"), state=Unknown(reason), how="a test"),
            Fact(name=FactName.parse("listed.library"), state=Known(0), how="a test"),
        ]
    )
    made = fingerprint_from(facts, packages=("torch",), places=Places()).facts

    assert made["packages.*"] == Unknown(reason)
    assert made["packages.torch"] == Unknown(reason)
    assert not {"libraries.*", "env.*"} & made.keys()
