"""Workflows as a program calls them: a request in, a result out; nothing is printed, a question goes to the caller."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.workflows.check import CheckRequest, check
from attn_doctor.workflows.compare import CompareRequest, compare
from attn_doctor.workflows.fix.fix import fix
from attn_doctor.workflows.fix.planned import Planned
from attn_doctor.workflows.fix.request import FixEnding, FixRequest, Question
from attn_doctor.workflows.fleet.merge import GoldenRequest, MergeRequest, golden, merge
from attn_doctor.workflows.fleet.request import RunRequest, WhichEngine
from attn_doctor.workflows.fleet.run import first_command, run
from attn_doctor.workflows.recipes import RecipesRequest, examine_recipes
from attn_doctor.workflows.run_command import CommandRequest, run_command
from attn_doctor.workflows.status import StatusRequest, status
from attn_doctor.workflows.undo import UndoRequest, runs, undo
from tests.conftest import Environment
from tests.fleet.reports import found, line, report
from tests.scenarios.test_fix import CONFIG, MENDED, ROTARY, config, patient

__all__ = ["config", "patient"]  # fixtures


@pytest.fixture(autouse=True)
def _silent(capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    """Nothing is printed by any of them."""
    yield
    if "command" not in request.node.name:
        assert capfd.readouterr() == ("", "")


class TestFix:
    """Who is asked, and what comes of it."""

    def test_yes(self, patient: Environment, config: Path) -> None:
        """The plan is shown before it is asked about; cured, and undone by another request."""
        seen: list[Planned] = []
        asked: list[Question] = []
        words: list[str] = []

        def answer(question: Question) -> bool:
            assert seen
            assert config.read_bytes() == CONFIG
            asked.append(question)
            return True

        request = FixRequest(python=str(patient.python), quick=True, configs=(config,))
        result = fix(request, ask=answer, show=seen.append, say=words.append)

        assert (result.ending, result.exit_status, config.read_bytes()) == (FixEnding.CURED, 0, MENDED)
        assert result.cured == ("llamafactory-fa2-without-half",)
        assert [question.assumed for question in asked] == [None]
        assert asked[0].plan == seen[0].plan == result.plan
        assert {"planning", "changing", "examining again"} <= set(words)
        back = UndoRequest(python=str(patient.python), configs=(config,))
        assert [one.state for one in runs(back)] == ["applied"]
        undone = undo(back)
        assert (undone.run, undone.undone.files, config.read_bytes()) == (result.run, 1, CONFIG)
        assert undo(back).run is None

    def test_no(self, patient: Environment, config: Path) -> None:
        """Nothing is changed."""
        request = FixRequest(python=str(patient.python), quick=True, configs=(config,))
        result = fix(request, ask=lambda _: False)

        assert (result.ending, result.exit_status, config.read_bytes()) == (FixEnding.DECLINED, 1, CONFIG)

    def test_nobody_to_ask(self, patient: Environment, config: Path) -> None:
        """Refused before anything is examined, unless the request answers."""
        request = FixRequest(python=str(patient.python), quick=True, configs=(config,))
        with pytest.raises(BadInput, match="nobody can be asked"):
            fix(request)

    def test_shown_alone(self, patient: Environment, config: Path, tmp_path: Path) -> None:
        """A plan that is saved asks nothing, and is carried out by another request."""
        saved = tmp_path / "plan.json"
        where = {"python": str(patient.python), "quick": True, "configs": (config,)}
        result = fix(FixRequest(**where, save_plan=saved))
        assert (result.ending, config.read_bytes()) == (FixEnding.SHOWN, CONFIG)
        assert result.plan is not None

        done = fix(FixRequest(**where, plan_file=saved, yes=True))
        assert (done.ending, config.read_bytes()) == (FixEnding.CURED, MENDED)
        assert fix(FixRequest(**where, yes=True)).ending is FixEnding.NO_STEPS
        assert fix(FixRequest(**where, resume=True)).ending is FixEnding.NO_RUN

    @pytest.mark.parametrize("meant", [True, False])
    def test_what_rests_on_an_assumption(self, environment: object, meant: bool) -> None:
        """It is asked about by itself first; with yes the plan is made and shown again."""
        env: Environment = environment()  # type: ignore[operator]
        env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")
        shown: list[Planned] = []
        asked: list[Question] = []

        def answer(question: Question) -> bool:
            asked.append(question)
            return meant and question.assumed is not None

        request = FixRequest(
            python=str(env.python), quick=True, unsafe=True, gpu="h100", assumptions=("torch.version=2.8.0",)
        )
        result = fix(request, ask=answer, show=shown.append)

        first = [question.assumed.finding for question in asked if question.assumed is not None]
        assert first
        assert first == [one.finding for one in shown[0].plan.left if one.needs_naming]
        assert len(shown) == (2 if meant else 1)
        assert result.ending in (FixEnding.DECLINED, FixEnding.NO_STEPS)


def test_two_reports_and_what_they_say_of_the_node(environment: object, tmp_path: Path) -> None:
    """check, status and compare on what check gave; x-transformers' finding is new in the second."""
    from attn_doctor.formats import report_v1

    env: Environment = environment()  # type: ignore[operator]
    before = check(CheckRequest(python=str(env.python), quick=True))
    env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")
    after = check(CheckRequest(python=str(env.python), quick=True))
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, one in zip(files, (before, after), strict=True):
        file.write_text(json.dumps(report_v1.to_json(one)))

    result = compare(CompareRequest(old=files[0], new=files[1]))
    assert [one.id for one in result.found.new] == [ROTARY]
    (stored,) = status(StatusRequest(place=files[1])).stored
    assert stored.report is not None
    assert [one.id for one in stored.report.diagnosis.findings] == [one.id for one in after.diagnosis.findings]
    assert status(StatusRequest(place=tmp_path / "none")).nothing == f"there is no {tmp_path / 'none'}"


def test_a_fleet(tmp_path: Path) -> None:
    """merge, golden, and merge by what golden made."""
    nodes = [report("n1"), found(report("n2")), report("n3"), report("n5")]
    for one in nodes:
        (tmp_path / f"{one['node']['name']}.9f2c.json").write_bytes(line(one))
    verdict = merge(MergeRequest(sources=(str(tmp_path),), expect="n[1-4]"))
    assert (verdict.exit_status, verdict.missing) == (1, ("n4",))

    made = golden(GoldenRequest(sources=(str(tmp_path),)))
    (tmp_path / "golden").write_text(made.made.text)
    by_file = merge(MergeRequest(sources=(str(tmp_path / "n1.9f2c.json"),), golden=tmp_path / "golden"))
    assert (made.unreadable, by_file.exit_status) == ((), 0)
    with pytest.raises(BadInput, match="waited for"):
        merge(MergeRequest(sources=(str(tmp_path),), wait=1.0))


CLUSH = """#!/bin/sh
for last; do :; done
echo clush: a word of mine >&2
for node in n1 n2; do sh -c "$last" 2>&1 | sed "s/^/$node: /"; done
"""


def test_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for clush: what is started is told before, what the engine says is told as it comes."""
    (tmp_path / "clush").write_text(CLUSH)
    (tmp_path / "clush").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    frames = tmp_path / "said"
    frames.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    frames.chmod(0o755)
    heard: list[str] = []
    request = RunRequest(doctor=(str(frames),), engine=WhichEngine.CLUSH, nodes="n[1-2]", check_args=("--python", "/p"))

    assert first_command(request)[0] == "clush"
    result = run(request, hear=heard.append)

    assert heard[0].startswith("+ clush ")
    assert "clush: a word of mine" in heard
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["check --format chunks --exit-zero --python /p --quick"] * 2
    assert (result.verdict.missing, result.ended_by) == (("n1", "n2"), None)
    with pytest.raises(BadInput, match="needs the names of the nodes"):
        run(RunRequest(engine=WhichEngine.CLUSH))


def test_a_command(capfd: pytest.CaptureFixture[str]) -> None:
    """What it prints goes through; why it failed is in the result."""
    fails = "print('out'); raise RuntimeError('FlashAttention only supports Ampere GPUs or newer.')"
    result = run_command(CommandRequest(command=(sys.executable, "-c", fails), gpu="t4"))

    assert result.status == 1
    assert result.report is not None
    assert "gpu-before-ampere" in [one.id for one in result.report.diagnosis.findings]
    out, err = capfd.readouterr()
    assert out == "out\n"
    assert err.startswith("Traceback")
    assert err.rstrip().endswith("newer.")


def test_recipes() -> None:
    """One by its id, all of its cases."""
    tested = examine_recipes(RecipesRequest(ids=(ROTARY,)))

    assert ([one.id for one in tested.recipes], tested.faults, tested.exit_status) == ([ROTARY], (), 0)
    assert tested.cases > 3
