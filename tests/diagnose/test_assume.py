"""Judging as if."""

from __future__ import annotations

from datetime import date

import pytest

from attn_doctor.diagnose.accept import accept, without_effect
from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.errors import BadInput
from attn_doctor.model import exit_status
from attn_doctor.model.facts import Absent, FactSet, Known, Origin
from attn_doctor.model.findings import Acceptance, Diagnosis, Finding, Severity
from attn_doctor.recipes.data.gpu_table import named_gpu
from tests.diagnose.test_derived import facts


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("gpu.compute_capability=7.5", "gpu.0.compute_capability", "7.5"),
        ("gpu.compute_capability=sm_120", "gpu.0.compute_capability", "12.0"),
        ("driver.version = 525.60", "driver.version", "525.60"),
        ("package.triton.version=3.6.0", "package.triton.version", "3.6.0"),
        ("torch.cxx11_abi=yes", "torch.cxx11_abi", True),
        ("torch.arch_list=sm_80,sm_90", "torch.arch_list", ("sm_80", "sm_90")),
        ("node.cpus=4", "node.cpus", 4),
        ("env.LD_LIBRARY_PATH=/a=b", "env.LD_LIBRARY_PATH", "/a=b"),
    ],
)
def test_assume(text: str, name: str, value: object) -> None:
    """Each kind of fact is read as what it is, and marked as assumed."""
    fact = assume(FactSet(), [text]).fact(name)

    assert fact.state == Known(value)  # type: ignore[arg-type]
    assert fact.origin is Origin.ASSUMED


def test_assume_absent() -> None:
    """An empty value is absence."""
    assert isinstance(assume(FactSet(), ["torch.cuda="]).fact("torch.cuda").state, Absent)


def test_assume_speaks_of_every_gpu() -> None:
    """A name without a subject replaces the fact of each GPU there is."""
    box = facts(listed__gpu=2, gpu__0__compute_capability="9.0", gpu__1__compute_capability="8.0")
    seen = assume(box, ["gpu.compute_capability=7.5"])

    assert [seen.value(f"gpu.{i}.compute_capability") for i in (0, 1)] == ["7.5", "7.5"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "=", "gpu.compute_capability", "gpu.compute_capabilty=7.5", "gpu.compute_capability=new",
     "node.cpus=many",
     "torch.cxx11_abi=maybe", ".=1", "a.=1", ".a=1", "gpu..name=1"],
)  # fmt: skip
def test_what_is_no_assumption(text: str) -> None:
    """A name that is no fact and a value that is none of its kind are refused."""
    with pytest.raises(BadInput):
        assume(FactSet(), [text])


@pytest.mark.parametrize(
    ("name", "capability"),
    [("h200", "9.0"), ("H100", "9.0"), ("NVIDIA A100", "8.0"), ("rtx4090", "8.9"), ("GeForce RTX 5090", "12.0"),
     ("t4", "7.5"), ("Tesla V100", "7.0"), ("b200", "10.0"),
     ("l40s", "8.9"), ("sm_90", "9.0"), ("sm_120", "12.0"), ("8.6", "8.6")],
)  # fmt: skip
def test_named_gpus(name: str, capability: str) -> None:
    """GPUs by name however it is spelled, and by capability."""
    gpu = named_gpu(name)

    assert gpu.compute_capability == capability
    assert gpu.shared_memory_bytes


@pytest.mark.parametrize("name", ["", "h1000", "sm_", "sm_13", "99.0", "radeon"])
def test_unknown_gpus(name: str) -> None:
    """An unknown name is refused."""
    with pytest.raises(BadInput):
        named_gpu(name)


def test_an_assumed_gpu_stands_alone() -> None:
    """--gpu replaces the GPUs of the node, it does not join them."""
    box = facts(listed__gpu=2, gpu__0__compute_capability="7.5", gpu__1__compute_capability="7.5", gpu__1__mig="on")
    seen = assume_gpu(box, named_gpu("h200"))

    assert seen.subjects("gpu") == ("0",)
    assert seen.value("gpu.0.compute_capability") == "9.0"
    assert seen.value("listed.gpu") == 1


TODAY = date(2026, 11, 21)


@pytest.mark.parametrize(
    ("acceptance", "accepted"),
    [
        ({"id": "a"}, True),
        ({"id": "old-name"}, True),
        ({"id": "b"}, False),
        ({"id": "a", "expires": "2026-11-21"}, True),
        ({"id": "a", "expires": "2026-11-20"}, False),
        ({"id": "a", "subject": "gpu 0"}, True),
        ({"id": "a", "subject": "gpu 1"}, False),
    ],
)
def test_accepted_findings_are_shown_and_do_not_gate(acceptance: dict[str, str], accepted: bool) -> None:
    """By id or alias, until the day it expires, on the subject it names."""
    finding = Finding(id="a", severity=Severity.ERROR, title="t", aliases=("old-name",), subjects=("gpu 0",))
    known = Acceptance(**{"reason": "r", "expires": "", "subject": "", **acceptance})
    diagnosis = accept(Diagnosis(findings=(finding,)), [known], today=TODAY)

    assert (diagnosis.findings[0].accepted == known) is accepted
    status = exit_status.status_of(diagnosis, fail_on=Severity.ERROR, strict=False)
    assert status == (exit_status.Status.HEALTHY if accepted else exit_status.Status.FOUND)


def test_an_acceptance_without_effect_says_why() -> None:
    """Expired, of another subject, or of no recipe; one that covers its finding, or meets none, is no trouble."""
    finding = Finding(id="a", severity=Severity.ERROR, title="t", aliases=("old-name",), subjects=("gpu 0",))
    today = date(2026, 1, 2)

    def said(id_: str, *, expires: str = "", subject: str = "") -> str:
        one = Acceptance(id=id_, reason="r", expires=expires, subject=subject)
        diagnosis = accept(Diagnosis(findings=(finding,)), [one], today=today)
        return "; ".join(without_effect(diagnosis, [one], today=today, known=frozenset(("a", "old-name", "b"))))

    assert (said("a"), said("old-name", expires="2026-01-02"), said("b", expires="2020-01-01")) == ("", "", "")
    assert "until 2026-01-01" in said("old-name", expires="2026-01-01")
    assert "'gpu 1' alone; found: 'gpu 0'" in said("a", subject="gpu 1")
    assert "'aa'" in said("aa")
