"""Reports for CI: GitHub's annotations, SARIF, JUnit, and markdown that an issue takes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml
from hypothesis import given

from attn_doctor.model.findings import Acceptance, Diagnosis, Finding, Location, Severity
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report import picker
from attn_doctor.report.renderer import CHECK, TRACE, Manner
from attn_doctor.report.words import places
from tests import strategies
from tests.conftest import CHECKOUT, Doctor, Environment, clean_environment, command
from tests.report.traced import REPORT, finding


def written(report: Report, form: str, **manner: Any) -> str:
    stream = io.StringIO()
    kind = TRACE if report.command == "trace" else CHECK
    picker.pick(kind, form).write(report, stream, Manner(**manner))
    return stream.getvalue()


def check_report(*findings: Finding) -> Report:
    return replace(REPORT, command="check", trace=None, diagnosis=Diagnosis(findings=findings, cleared=("b", "c")))


class TestGithub:
    """What the runner makes of the log."""

    @pytest.fixture(autouse=True)
    def _workspace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_WORKSPACE", "/code/project")

    def annotations(self, report: Report) -> list[tuple[str, dict[str, str], str]]:
        """Level, properties and message of each command that is not stopped, read as the runner reads them."""
        found, stopped = [], ""
        for line in written(report, "github").splitlines():
            match = re.match(r"::([\w-]+) ?([^:]*)::(.*)", line)
            name, properties, message = match.groups() if match else ("", "", "")
            if stopped:
                stopped = "" if line == f"::{stopped}::" else stopped
            elif name == "stop-commands":
                stopped = message
            elif name:
                pairs = dict(one.split("=", 1) for one in properties.split(",") if one)
                unescaped = {key: self.unescaped(value) for key, value in pairs.items()}
                found.append((name, unescaped, self.unescaped(message)))
        assert stopped == ""
        return found

    @staticmethod
    def unescaped(text: str) -> str:
        for sign, code in (("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C"), ("%", "%25")):
            text = text.replace(code, sign)
        return text

    def test_lines(self) -> None:
        """Each finding stands at its line of the checkout, with its fix."""
        found = self.annotations(REPORT)

        assert [(level, one["file"], one["line"]) for level, one, _ in found] == [
            ("error", "model.py", "16"), ("error", "model.py", "17"), ("error", "model.py", "16"),
        ]  # fmt: skip
        assert found[0][1]["title"] == "fp32-promoted-before-kernel"
        assert "F.normalize turned q from float16" in found[0][2]
        assert "Write q, k = q.to(v.dtype)" in found[0][2]

    def test_levels(self) -> None:
        """As severities are; what is accepted only notifies."""
        base = finding(0, 16, "t")
        every = [replace(base, severity=severity) for severity in Severity]
        accepted = replace(base, accepted=Acceptance(id=base.id, reason="known", expires=""))

        levels = [level for level, _, _ in self.annotations(check_report(*every, accepted))]

        assert levels == ["error", "warning", "notice", "notice"]

    def test_elsewhere(self) -> None:
        """A file that GitHub does not have is named in the text."""
        away = replace(
            finding(0, 16, "t"), locations=(Location(file="/env/lib/python3.11/site-packages/fla/x.py", line=3),)
        )
        ((_, properties, message),) = self.annotations(check_report(away))

        assert "file" not in properties
        assert "fla/x.py:3" in message

    @given(one=strategies.reports)
    def test_text_of_others_is_no_command(self, one: Report) -> None:
        """Whatever a title, a version or a log holds: there are as many annotations as findings."""
        evil = "x\n::error file=a,line=1::hijacked\n%0A::set-output name=a::b, c:d"
        bad = Finding(
            id="a,b:c",
            severity=Severity.ERROR,
            title=evil,
            why=evil,
            locations=(Location(file=f"/code/project/{evil}"),),
        )
        report = replace(one, diagnosis=replace(one.diagnosis, findings=(*one.diagnosis.findings, bad)))

        assert len(self.annotations(report)) == len(report.diagnosis.findings)

    def test_by_itself_in_a_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the log of a step is standard output, and nothing else was asked for."""
        assert picker.pick(CHECK).renderer.name == "text"
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setattr("sys.stdout", io.StringIO())

        assert picker.pick(CHECK).renderer.name == "github"
        assert picker.pick(CHECK, "text").renderer.name == "text"
        assert picker.pick(CHECK, as_json=True).renderer.name == "json"
        assert picker.pick(CHECK, output="a.sarif").renderer.name == "sarif"
        assert picker.pick(CHECK, output="report").renderer.name == "text"


#: What SARIF 2.1.0 requires of the objects that are written here (sections 3.13 to 3.59). The whole schema of the
#: standard was held against real reports by hand: docs/testing.md.
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": r"^[^\s\\<>\"{}|^`]+$"}},
                },
                "region": {"type": "object", "properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        }
    },
}
_RESULT = {
    "type": "object",
    "required": ["ruleId", "message"],
    "properties": {
        "level": {"enum": ["none", "note", "warning", "error"]},
        "message": _TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "locations": {"type": "array", "items": _LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "suppressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": ["inSource", "external"]}},
            },
        },
    },
}
_SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {"required": ["id", "help"], "properties": {"help": _TEXT}},
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {"items": {"required": ["executionSuccessful"]}},
                    "results": {"type": "array", "items": _RESULT},
                },
            },
        },
    },
}


class TestSarif:
    """A log for code scanning."""

    def test_place_and_source(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Relative to the folder it was made in, with the line itself; one rule for three results."""
        monkeypatch.setattr(places, "below", lambda file, folder=None: file.removeprefix("/code/project/"))
        (run,) = json.loads(written(REPORT, "sarif"))["runs"]
        first = run["results"][0]["locations"][0]["physicalLocation"]

        assert [one["id"] for one in run["tool"]["driver"]["rules"]] == ["fp32-promoted-before-kernel"]
        assert first["artifactLocation"] == {"uri": "model.py", "uriBaseId": "SRCROOT"}
        assert first["region"] == {
            "startLine": 16, "snippet": {"text": "q = F.normalize(q, dim=-1) * self.scale_mul"},
        }  # fmt: skip
        prints = [next(iter(one["partialFingerprints"].values())) for one in run["results"]]
        assert len(set(prints)) == 3

    @given(one=strategies.reports)
    def test_any_report_is_valid(self, one: Report) -> None:
        """By the requirements of the standard."""
        log = json.loads(written(one, "sarif"))

        jsonschema.validate(log, _SARIF)
        rules = [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]]
        assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in log["runs"][0]["results"])
        assert len(log["runs"][0]["results"]) == len(one.diagnosis.findings)


class TestJunit:
    """Test cases."""

    def cases(self, report: Report, **manner: Any) -> dict[str, str]:
        root = ElementTree.fromstring(written(report, "junit", **manner))
        suite = root[0]
        outcomes = [next((one.tag for one in case if one.tag != "system-out"), "passed") for case in suite]
        for name, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[attribute]) == outcomes.count(name) == int(root.attrib[attribute])
        assert int(suite.attrib["tests"]) == len(suite)
        return {case.attrib["name"]: outcome for case, outcome in zip(suite, outcomes, strict=True)}

    def test_fail_on(self) -> None:
        """What the exit status counts fails; the rest passes."""
        one = replace(finding(0, 16, "t"), id="a", severity=Severity.WARNING, locations=(), subjects=())

        assert self.cases(check_report(one)) == {"a": "passed", "b": "passed", "c": "passed"}
        assert self.cases(check_report(one), fail_on=Severity.WARNING)["a"] == "failure"
        accepted = replace(one, severity=Severity.ERROR, accepted=Acceptance(id="a", reason="r", expires=""))
        assert self.cases(check_report(accepted))["a"] == "passed"

    def test_trace(self) -> None:
        """Each promotion by its line, and the call that they reach."""
        found = self.cases(REPORT)

        assert sum(outcome == "failure" for outcome in found.values()) == 2  # two findings are of one line
        assert found["flash_attn_func at /code/project/model.py:18"] == "passed"
        assert self.cases(replace(REPORT, diagnosis=Diagnosis())) == {
            "flash_attn_func at /code/project/model.py:18": "failure"
        }

    @given(one=strategies.reports)
    def test_any_report_is_xml(self, one: Report) -> None:
        """Whatever characters it holds."""
        self.cases(one)
        self.cases(
            replace(one, diagnosis=Diagnosis(findings=(replace(finding(0, 1, "\x00\ud800]]>&<\x1b"), id='"<'),)))
        )


class TestMarkdown:
    """For an issue."""

    def test_dtype_path_and_how_to(self) -> None:
        """The lines with dtypes after them, and what to do by hand."""
        said = written(REPORT, "markdown")

        assert "16 |  q = F.normalize(q, dim=-1) * self.scale_mul" in said
        assert "^^^^^^^^^^^^^^^^^^^^^^ fp16 → fp32: autocast's own rule for linalg_vector_norm" in said
        assert "q FP32  k FP32  v fp16  ✗" in said
        assert "Write q, k = q.to(v.dtype), k.to(v.dtype)" in said
        assert said.count("torch promotes.") == 1
        assert "### [error] fp32-promoted-before-kernel `/code/project/model.py:16`" in said

    def test_it_fits_into_an_issue(self) -> None:
        """At most 65,000 characters, whole lines, each block closed; the first findings stay."""
        many = tuple(replace(finding(0, 16, f"title {n}"), id=f"f{n}", why="word " * 200) for n in range(200))
        said = written(check_report(*many), "markdown", verbose=True)

        assert 40_000 < len(said) <= 65_000
        assert sum(line.lstrip().startswith("```") for line in said.splitlines()) % 2 == 0
        assert "title 0" in said
        assert "cut here" in said


@pytest.mark.parametrize(
    ("source", "call", "marked"),
    [
        ("q = F.normalize(q, dim=-1) * s", "F.normalize", ["F.normalize(q, dim=-1)"]),
        ("q = F.normalize(q, dim=-1) * s", "Tensor.mul", ["F.normalize(q, dim=-1) * s"]),
        ("return attend(self.q_norm(q).float(), k)", "Tensor.float", ["self.q_norm(q).float()"]),
        ("x *= self.gain", "Tensor.mul_", ["x *= self.gain"]),
        ("q, k = (q * cos) + (rot(q) * sin), k * cos", "Tensor.mul", ["q * cos", "rot(q) * sin", "k * cos"]),
        ("größe = ünd.exp(x)", "Tensor.exp", ["ünd.exp(x)"]),
        ("q = s * q", "Tensor.__rmul__", ["s * q"]),
        ("for h in torch.softmax(x, -1):", "torch.softmax", ["torch.softmax(x, -1)"]),
        ("x = torch.mul(q, s)", "torch.mul", ["torch.mul(q, s)"]),
        ("* self.scale)", "Tensor.mul", []),
        ("q = q + k", "Tensor.mul", []),
    ],
)  # fmt: skip
def test_the_expression_is_found(source: str, call: str, marked: list[str]) -> None:
    """By its name or its operator; every one that it can be, and none in the part of a statement."""
    assert [source[start:end] for start, end in places.expressions(source, call)] == marked


class TestDocs:
    """docs/ci.md and the files that it is about."""

    @pytest.mark.process
    def test_the_action(self, environment: Any, tmp_path: Path) -> None:
        """Its step annotates, fails as the check does, and leaves a SARIF log; installing is pip's part."""
        env: Environment = environment()
        torch = env.package("torch", "2.13.0+cpu", "")
        (torch.parent / "version.py").write_text("__version__ = '2.13.0+cpu'\ncuda = None\nhip = None\n")
        action = yaml.safe_load((CHECKOUT / "action.yml").read_text())
        step = action["runs"]["steps"][-1]
        given = {name: one["default"] for name, one in action["inputs"].items()}
        doctor = tmp_path / "doctor"
        doctor.write_text(f'#!/bin/sh\nexec {command()[0]} -m attn_doctor "$@"\n')
        doctor.chmod(0o755)
        given |= {"command": str(doctor), "python": str(env.folder), "gpu": "h100", "sarif": "attn.sarif"}
        variables = {name: given[re.findall(r"inputs\.([\w-]+)", value)[0]] for name, value in step["env"].items()}
        ended = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=tmp_path, capture_output=True, text=True,
            env=clean_environment(**variables, PYTHONPATH=str(CHECKOUT), GITHUB_ACTIONS="true"),
        )  # fmt: skip

        assert ended.returncode == 1, ended.stderr
        assert "::error title=torch-cpu-build::" in ended.stdout
        (run,) = json.loads((tmp_path / "attn.sarif").read_text())["runs"]
        assert "torch-cpu-build" in [one["ruleId"] for one in run["results"]]
        assert set(given) == set(re.findall(r"inputs\.([\w-]+)", (CHECKOUT / "action.yml").read_text()))

    def test_commands(self, doctor: Doctor, environment: Any, tmp_path: Path) -> None:
        """Every command of the page, and the entries of both hooks, on an environment that lacks nothing."""
        env: Environment = environment()
        page = (CHECKOUT / "docs" / "ci.md").read_text()
        hooks = yaml.safe_load((CHECKOUT / ".pre-commit-hooks.yaml").read_text())
        local = [
            one
            for text in re.findall(r"```yaml\n(repos:.*?)```", page, re.DOTALL)
            for one in yaml.safe_load(text)["repos"]
        ]
        assert hooks[0]["id"] == local[0]["hooks"][0]["id"]
        lines = re.findall(r"^\$ attn-doctor (check .*)$", page, re.MULTILINE)
        lines += [" ".join([hooks[0]["entry"], *local[0]["hooks"][0]["args"]]).removeprefix("attn-doctor ")]
        lines += [local[1]["hooks"][0]["entry"].removeprefix("attn-doctor ")]
        assert len(lines) == 5
        for line in lines:
            run = doctor(*line.split(), cwd=tmp_path, env={"VIRTUAL_ENV": str(env.folder)})
            assert run.status in (0, 1), run.stderr
        assert sorted(file.name for file in tmp_path.iterdir() if file.suffix) == ["attn.sarif", "attn.xml"]
        assert os.path.getsize(tmp_path / "attn.xml") > 100
