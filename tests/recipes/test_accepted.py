"""The policy file of `--accept`."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.diagnose.accept import raise_gated
from attn_doctor.errors import BadInput
from attn_doctor.model.findings import Diagnosis, Finding, Gate, Severity
from attn_doctor.recipes.data import accepted

BOTH = """
[[accept]]
id = "gpu-before-ampere"
reason = "serves only"
[[gate]]
id = "kernel-wrong-result"
reason = "we pass float32 masks"
subject = "cell sdpa-*"
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    return file


def test_both_sorts_of_entries(tmp_path: Path) -> None:
    """One file holds what is lived with and what is not."""
    file = written(tmp_path, BOTH)

    assert [one.id for one in accepted.read(file)] == ["gpu-before-ampere"]
    assert accepted.policy(file).gates == (
        Gate(id="kernel-wrong-result", reason="we pass float32 masks", subject="cell sdpa-*"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[gate]\nid = 'x'",
        "[[gate]]\nid = 'x'",
        "[[gate]]\nid = 'x'\nreason = ' '",
        "[[gate]]\nid = 'x'\nreason = 'y'\nexpires = 2027-01-01",
        "[[gate]]\nid = 'x'\nreason = 'y'\nsubject = 3",
        "[[gates]]\nid = 'x'\nreason = 'y'",
        "[[gate]]\nid = 'x'\nfact = 'rdma_rate'\nreason = 'y'",
        "[[gate]]\nfact = 'rdma_rates'\nreason = 'y'",
        "[[gate]]\nfact = []\nreason = 'y'",
        "[[gate]]\nfact = 'rdma_rate'\nreason = 'y'\nsubject = 'gpu 0'",
        "[[gate]]\nfact = 'package.torch'\nreason = 'y'",
        "[[gate]]\nfact = 'env.CUDA_VISIBLE_DEVICES'\nreason = 'y'",
        "[[accept]]\nfact = 'env.*X*'\nreason = 'y'",
        "[[accept]]\nid = 'x'\nreason = 'y'\npartition = 3",
        "[[ignore]]\nid = 'x'\nreason = 'y'",
        "[[ignore]]\nfact = 'gpu'",
        "[[threshold]]\nname = 'slow-kernels'\nvalue = 3",
        "[[threshold]]\nname = 'slow-kernel-percent'\nvalue = '3'",
        "[[threshold]]\nname = 'slow-kernel-percent'\nvalue = -1",
        "[[threshold]]\nname = 'quarantine-percent'\nvalue = 3\npartition = 'a'",
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    """One clear message, never a policy that quietly holds nothing."""
    file = written(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        accepted.policy(file)

    assert caught.value.what
    assert str(file) in caught.value.about
    assert caught.value.hint


def finding(id_: str, *subjects: str, symptoms: tuple[Finding, ...] = ()) -> Finding:
    return Finding(id=id_, severity=Severity.WARNING, title="It is.", subjects=subjects, symptoms=symptoms)


@pytest.mark.parametrize(
    ("gate", "raised"),
    [
        (Gate(id="a", reason="y"), ["a"]),
        (Gate(id="a", reason="y", subject="gpu *"), ["a"]),
        (Gate(id="a", reason="y", subject="cell *"), []),
        (Gate(id="below", reason="y"), ["b"]),
        (Gate(id="other", reason="y"), []),
    ],
)
def test_what_a_gate_raises(gate: Gate, raised: list[str]) -> None:
    """Itself, or the cause that it hangs under; errors come first, and the reason is told."""
    found = raise_gated(
        Diagnosis(findings=(finding("c"), finding("a", "gpu 0"), finding("b", symptoms=(finding("below"),)))), [gate]
    ).findings

    assert [one.id for one in found if one.severity is Severity.ERROR] == raised
    assert [one.id for one in found][: len(raised)] == raised
    assert [one.id for one in found if "policy of this site: y" in one.known_problems] == raised
