"""The short report: what, where, fix; the next step last; within its lines and its columns."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given

from attn_doctor.model.findings import Acceptance, Diagnosis, Finding, Location, OpenQuestion, Remedy, Safety, Severity
from attn_doctor.model.remedies import InstallPackages, ProposedAction
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report import picker
from attn_doctor.report.renderer import CHECK, TRACE, Manner
from tests import strategies
from tests.diagnose.test_derived import facts
from tests.report.traced import FILE, REPORT, finding

COLUMNS = [60, 80, 100, 200]
_LONG = "/srv/a-long-path/" * 6


def said(report: Report, form: str = "text", *, verbose: bool = False) -> str:
    stream = io.StringIO()
    picker.pick(TRACE if report.trace else CHECK, form).write(report, stream, Manner(verbose=verbose))
    return stream.getvalue()


@pytest.fixture(params=COLUMNS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


@pytest.fixture(autouse=True)
def _started_from_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["attn-doctor"])


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def _installs(command: str) -> tuple[Remedy, ...]:
    action = ProposedAction(action=InstallPackages(requirements=("x",)), commands=(command,))
    return (Remedy(id="r", title="Install it", safety=Safety.UNSAFE, actions=(action,)),)


TORCH = Finding(
    id="torch-cpu-build", severity=Severity.ERROR, title="torch 2.13.0+cpu is a build for CPUs only", why="No GPU.",
    remedies=_installs(f"{_LONG}python -m pip install --force-reinstall torch==2.13.0 --index-url https://x.org"),
    locations=(Location(file="/env/lib/python3.11/site-packages/torch"),),
)  # fmt: skip
FOUR = (
    TORCH,
    replace(
        finding(0, 16, "x-transformers 1.30.1 turns q and k into fp32 in its rotary embedding"), id="rotary-fp32",
        remedies=_installs("python -m pip install --no-deps x-transformers==1.30.2"),
    ),
    replace(finding(1, 17, "flash-linear-attention 0.2.1 turns RWKV-7's key into fp32"), severity=Severity.WARNING),
    Finding(id="triton-missing", severity=Severity.ERROR, title=f"fla cannot be imported from {_LONG}: no triton"),
)  # fmt: skip
CHECKED = replace(REPORT, command="check", trace=None, diagnosis=Diagnosis(findings=FOUR, cleared=("a", "b")))


def test_four_findings_on_a_screen(eighty: None) -> None:
    """At most 30 lines at 80 columns; of each what, where and fix; the next step is the end."""
    lines = said(CHECKED).splitlines()

    assert len(lines) <= 30
    text = "\n".join(lines)
    for one in FOUR:
        assert f" {one.id}" in text
    assert "--> /code/project/model.py:16" in text
    assert "16 |  q = F.normalize(q, dim=-1) * self.scale_mul" in text
    assert "       |      ^^^^^^^^^^^^^^^^^^^^^^" in lines
    assert "       |    fp16 → fp32: autocast's own rule for linalg_vector_norm" in lines
    assert "$ python -m pip install --no-deps x-transformers==1.30.2" in text
    assert "3 errors, 1 warning · 2 checks clean" in lines
    assert [line.split()[0] for line in lines[-3:]] == ["fix", "why", "share"]
    assert lines[0].startswith("attn-doctor 0.1.0 · /env (Python 3.11.7; --python) · ")


def test_a_traced_call_on_a_screen(eighty: None) -> None:
    """At most 25 lines: the call, its lines with dtypes, each promotion under its expression, how to mend it."""
    lines = said(replace(REPORT, rerun=("--trace", "model.py:build", "--autocast", "fp16"))).splitlines()
    text = "\n".join(lines)

    assert len(lines) <= 25
    assert "error[fp32-promoted-before-kernel]: flash_attn_func gets q fp32, k fp32, v fp16" in lines
    assert "  --> /code/project/model.py:18   (3 calls, all alike; flash_attn 2.8.3 stand-in)" in lines
    at = lines.index(next(line for line in lines if line.startswith("16 |")))
    assert lines[at].endswith("q FP32")
    start = lines[at].index("F.normalize(q, dim=-1)")
    assert lines[at + 1].index("^") == start
    assert lines[at + 1].count("^") == len("F.normalize(q, dim=-1)")
    assert "once that is cast back, fp16 → fp32 again: parameter blocks.0.scale_mul (fp32)" in " ".join(
        text.replace("|", "").split()
    )
    assert "the same" in text
    assert text.count("q FP32  k FP32  v fp16  ✗") == 1
    assert "note clean once each of these 3 operations is cast back" in text
    assert lines[-3].split()[:2] == ["fix", "attn-doctor"]
    assert lines[-2].strip() == "shows a plan, asks, can be undone"
    assert "fix --trace model.py:build --autocast fp16" in lines[-3]


@pytest.mark.parametrize("report", [CHECKED, REPORT], ids=["check", "trace"])
@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_is_broken(report: Report, verbose: bool, width: int) -> None:
    """A line is longer than the terminal only for a path, a command or an address, which is whole."""
    text = said(report, verbose=verbose)

    for line in text.splitlines():
        if not verbose and len(line) > width:
            assert re.search(r"[\w.-]{0,40}[/:$].*[/.:=]", line), line
    for whole in (_LONG + "python -m pip install --force-reinstall torch==2.13.0", f"{FILE}:16"):
        assert report is REPORT or whole in text
    words = {word for line in text.splitlines() for word in line.split()}
    assert report is REPORT or f"{_LONG}:" in words


def test_no_colour_and_no_escape(eighty: None) -> None:
    """Off a terminal nothing but text."""
    assert "\x1b" not in said(CHECKED) + said(REPORT)


def test_open_questions_are_unknown(eighty: None) -> None:
    """Said as such, and never as clean; the reasons that stand in the way."""
    undecided = (next(iter(REPORT.facts.values())),)
    questions = tuple(OpenQuestion(recipe=f"r{n}", title="t", undecided=undecided) for n in range(5))
    text = said(replace(CHECKED, diagnosis=Diagnosis(open_questions=questions)))

    assert "? 5 checks could not be decided: treat as unknown" in text
    assert "r0, r1, r2 and 2 more" in text


def test_accepted_and_repeated(eighty: None) -> None:
    """What is lived with takes a line, and the same fix is told once."""
    accepted = replace(TORCH, accepted=Acceptance(id=TORCH.id, reason="a CPU node", expires="2027-01-01"))
    again = finding(0, 16, "one"), finding(1, 17, "two")
    text = said(replace(CHECKED, diagnosis=Diagnosis(findings=(accepted, *again))))

    assert "✓ torch-cpu-build" in text
    assert "accepted until 2027-01-01: a CPU node" in text
    assert text.count("Cast q and k back") == 1
    assert "fix  as above" in text


@pytest.mark.parametrize("report", [CHECKED, REPORT], ids=["check", "trace"])
def test_plain_has_no_signs(report: Report) -> None:
    """For a reader who hears it: no column, underline, arrow of ours or box; the same findings, places and fixes."""
    text = said(report, "plain")

    assert not re.search(r"\^\^|-->|✗|·|\|  |  +\S", text)
    for one in report.diagnosis.findings:
        assert f": {one.id}." in text
    assert "Where: /code/project/model.py, line 16." in text
    assert "Source: q = F.normalize(q, dim=-1) * self.scale_mul" in text


@given(one=strategies.reports)
def test_every_report_can_be_written(one: Report) -> None:
    """Whatever text facts and findings hold."""
    said(one)
    said(one, "plain")


def test_evidence_that_names_a_promotion_is_quoted(eighty: None) -> None:
    """A library's finding without the promotion under it still shows the line that its evidence names."""
    evidence = facts(**{"package__x-transformers__promotes": f"apply_rotary_pos_emb ({FILE}:17)"})
    one = replace(TORCH, id="rotary", evidence=tuple(evidence.values()))
    text = said(replace(CHECKED, diagnosis=Diagnosis(findings=(one,))))

    assert f"--> {FILE}:17" in text
    assert "17 |  k = F.normalize(k, dim=-1)" in text
    assert "F.normalize" not in said(replace(CHECKED, diagnosis=Diagnosis(findings=(TORCH,))))
