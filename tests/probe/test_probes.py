"""A probe that fails costs its own facts and no more."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.formats import report_v1
from attn_doctor.machine import faults
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.report import Examined, OwnFault, Report
from attn_doctor.model.vocabulary import TERMS
from attn_doctor.probe import examine as examining
from attn_doctor.probe import not_examined, probes
from attn_doctor.probe.examine import ExaminationRequest, examine
from attn_doctor.probe.host import node
from attn_doctor.probe.probes import Probe
from attn_doctor.recipes import shelf
from attn_doctor.report.renderer import Manner
from attn_doctor.report.renderers import markdown, prometheus, summary
from attn_doctor.report.terminal import report as text

pytestmark = pytest.mark.process

PROBES = (
    "configurations", "node", "interpreter", "packages", "patches", "torch's files", "ptxas",
    "binaries", "gpus", "host", "nvcc",
)  # fmt: skip
#: What a process that imports torch finds; the second reads what the first's samples loaded.
LIVE = ("imports", "loaded libraries")


def planted(*_arguments: object, **_options: object) -> tuple[Fact, ...]:
    """Fails as a bug does."""
    raise ZeroDivisionError("planted")


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of planted faults go to the test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The Python that runs the tests."""
    return examine_target(sys.executable, as_module=False, folder=tmp_path_factory.mktemp("asked"), timeout=60.0)


@pytest.fixture(scope="module")
def told(target: Target, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Fact, ...]]:
    """What each probe finds where none fails."""
    found: dict[str, tuple[Fact, ...]] = {}

    def note(probe: Probe) -> tuple[Fact, ...]:
        found[probe.name] = probes.run(probe)
        return found[probe.name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examining, "run", note)
        examine(target, ExaminationRequest(), folder=tmp_path_factory.mktemp("whole"))
    return found


def test_the_list_is_whole(told: dict[str, tuple[Fact, ...]]) -> None:
    """Every probe of a full examination is broken below."""
    assert sorted(told) == sorted((*PROBES, *LIVE))


@pytest.mark.parametrize("broken", [*PROBES, *LIVE])
def test_its_facts_are_unknown_and_the_others_stand(
    target: Target,
    told: dict[str, tuple[Fact, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    """One probe after the other raises: a report each time, its own facts unknown, all others as ever."""
    real: Callable[[Probe], tuple[Fact, ...]] = probes.run

    def run(probe: Probe) -> tuple[Fact, ...]:
        return real(Probe(probe.name, planted, probe.files, probe.more) if probe.name == broken else probe)

    monkeypatch.setattr(examining, "run", run)
    with faults.collected() as own:
        asked = ExaminationRequest(quick=broken not in LIVE, samples=broken == "loaded libraries")
        facts = derive(examine(target, asked, folder=tmp_path))
        diagnosis = judge(facts, shelf.bundled())

    assert [one.part for one in own] == [f'probe "{broken}"']
    others = {fact.name for name, found in told.items() if name not in (broken, *LIVE) for fact in found}
    known_elsewhere = {fact.name for name, found in told.items() if name != broken for fact in found}
    for fact in told[broken]:
        if fact.name not in known_elsewhere and fact.name.kind not in not_examined.CALLS:
            state = facts.fact(fact.name).state
            assert isinstance(state, Unknown), fact.name
            assert own[0].log in state.reason, fact.name
            assert state.asked, fact.name
    assert {name for name in others if name not in facts} == set()
    for written in (report_v1.dumps, summary.text, prometheus.text, _text, _markdown):
        assert written(_report(facts, diagnosis, own))


def _report(facts: FactSet, diagnosis: Diagnosis, own: list[OwnFault]) -> Report:
    return Report(
        command="check",
        doctor_version="0",
        created="2026-11-22T00:00:00+00:00",
        examined=Examined(python="/python", version="3.11", environment="venv", because="a test"),
        quick=True,
        assumed=(),
        diagnosis=diagnosis,
        exit_status=0,
        facts=facts,
        own_faults=tuple(own),
    )


def _text(report: Report) -> str:
    stream = io.StringIO()
    text.write(report, stream, verbose=True)
    return stream.getvalue()


def _markdown(report: Report) -> str:
    stream = io.StringIO()
    markdown.write(report, stream, Manner(verbose=True, masked=True))
    return stream.getvalue()


def test_every_fact_has_a_probe_that_answers_for_it() -> None:
    """A file that the vocabulary names as a probe is there."""
    homes = {term.probe for term in TERMS}

    assert [home for home in sorted(homes) if not (Path(examining.__file__).parent.parent / home).is_file()] == []


@pytest.mark.parametrize("what", ["inventory", "driver", "compiler", "interpreter's own child"])
def test_what_cannot_even_be_begun(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """What several probes rest on fails: each of them is told as not looked at, and one log is written."""
    place = {
        "inventory": "attn_doctor.probe.packages.packages.take_inventory",
        "driver": "attn_doctor.probe.examine.GpuQuery",
        "compiler": "attn_doctor.probe.host.nvcc.start",
        "interpreter's own child": "attn_doctor.probe.live.imports_and_torch.Examination",
    }[what]
    name = {
        "inventory": "torch.version",
        "driver": "listed.gpu",
        "compiler": "cuda.nvcc",
        "interpreter's own child": "listed.import",
    }[what]
    monkeypatch.setattr(place, planted)

    with faults.collected() as own:
        facts = examine(target, ExaminationRequest(quick="child" not in what), folder=tmp_path)

    assert len(own) == 1
    assert isinstance(facts.fact(name).state, Unknown)
    assert facts.fact("node.kernel").state != facts.fact(name).state


def test_one_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that cannot be judged is an open question; the others are judged."""
    from attn_doctor.diagnose import judge as judging

    recipes = tuple(recipe for recipe in shelf.bundled() if recipe.when)
    facts = derive(FactSet([Fact(name=FactName.parse("listed.gpu"), state=Known(0), how="a test")]))
    whole = judge(facts, recipes)
    real = judging._judge
    bad = next(recipe for recipe in recipes if recipe.id in whole.cleared)
    monkeypatch.setattr(judging, "_judge", lambda one, facts: planted() if one is bad else real(one, facts))

    with faults.collected() as own:
        diagnosis: Diagnosis = judge(facts, recipes)

    assert [one.part for one in own] == [f'judging of recipe "{bad.id}"']
    assert [one.recipe for one in diagnosis.open_questions if one not in whole.open_questions] == [bad.id]
    assert set(whole.cleared) - set(diagnosis.cleared) == {bad.id}
    assert diagnosis.findings == whole.findings


def test_one_derived_fact() -> None:
    """A driver's version that is no text costs what is computed of the driver."""
    facts = FactSet(
        [
            Fact(name=FactName.parse("gpu.0.compute_capability"), state=Known("nonsense"), how="a test"),
            Fact(name=FactName.parse("gpu.1.compute_capability"), state=Known("9.0"), how="a test"),
        ]
    )

    with faults.collected() as own:
        derived = derive(facts)

    assert own
    assert isinstance(derived.fact("gpu.0.bf16_native").state, Unknown)
    assert derived.value("gpu.1.bf16_native") is True


def test_one_section_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding that cannot be written is a line; what comes before and after it stands."""
    findings = tuple(Finding(id=f"trouble-{n}", severity=Severity.ERROR, title=f"title {n}") for n in range(3))
    real = text.Writer.finding
    monkeypatch.setattr(
        text.Writer, "finding", lambda self, one: planted() if one.id == "trouble-1" else real(self, one)
    )

    with faults.collected() as own:
        written = _text(_report(FactSet(), Diagnosis(findings=findings), []))

    assert [one.part for one in own] == ['section "finding trouble-1" of the report']
    assert "title 0" in written
    assert "title 2" in written
    assert own[0].log in "".join(written.split())
    assert "3 errors." in written


def test_a_release_file_in_another_encoding(tmp_path: Path) -> None:
    """Distributions write what they like into /etc/os-release: a latin-1 byte is a character that is not known."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_bytes(b'ID=cafe\nPRETTY_NAME="Caf\xe9 Linux 1"\n')
    (tmp_path / "opt/rocm/.info").mkdir(parents=True)
    (tmp_path / "opt/rocm/.info/version").write_bytes(b"6.2.0-\xe9\n")

    facts = FactSet(node.probe({}, root=tmp_path))

    assert facts.value("node.os") == "Caf\ufffd Linux 1"
    assert facts.value("rocm.version") == "6.2.0"
