"""Whatever the names, versions, values and messages hold: nothing but a renderer's own signs reaches a terminal."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import ColorSystem
from rich.text import Text

from attn_doctor.formats import report_v1
from attn_doctor.machine.printable import harmless, json_text, one_line
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Location, OpenQuestion, Remedy, Safety, Severity
from attn_doctor.model.remedies import Advise, ProposedAction
from attn_doctor.model.report import Examined, LogRead, OwnFault, Report
from attn_doctor.report.renderer import Manner
from attn_doctor.report.renderers import markdown, prometheus, summary
from attn_doctor.report.terminal import explain as explain_text
from attn_doctor.report.terminal import report as text
from attn_doctor.report.terminal.console import ReportConsole
from tests.conftest import Doctor, Environment

#: All that a terminal, a browser or an editor acts on and that nobody sees.
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
EVIL = "2.1\x1b[31m\x1b]0;title\x07\r\x9b2J\u202eabc\u2066 \x00\x7f\x1b[8m hidden"
words = st.text(st.one_of(st.characters(max_codepoint=0x2070, exclude_categories=("Cs",)), st.sampled_from(EVIL)))


def report(said: str) -> Report:
    """A report in which everything that is not ours says this."""
    fact = Fact(name=FactName("package", "torch", "version"), state=Known(said), how=said)
    names = ("torch.version", "node.hostname", "node.os", "gpu.0.name", "gpu.0.compute_capability", "env.CC")
    facts = [Fact(name=FactName.parse(name), state=Known(said), how=said) for name in names]
    unknown = Fact(name=FactName.parse("driver.version"), state=Unknown(said), how=said)
    finding = Finding(
        id="a-trouble",
        severity=Severity.ERROR,
        title=said,
        why=said,
        what=said,
        subjects=(said, "other"),
        locations=(Location(file=said, line=1, note=said), Location(file=said)),
        evidence=(fact, unknown),
        known_problems=said,
        references=(said,),
        remedies=(
            Remedy(
                id="one",
                title=said,
                safety=Safety.UNSAFE,
                why_this_safety=said,
                actions=(ProposedAction(action=Advise(text=said), commands=(said,)),),
            ),
        ),
    )
    return Report(
        command="check",
        doctor_version="0",
        created="2026-11-22T00:00:00+00:00",
        examined=Examined(python=said, version=said, environment="venv", because=said, others=(said,)),
        quick=True,
        assumed=(),
        diagnosis=Diagnosis(
            findings=(replace(finding, symptoms=(finding,)),),
            open_questions=(OpenQuestion(recipe="other", title=said, undecided=(unknown,), subject=said),),
        ),
        exit_status=1,
        facts=FactSet([fact, unknown, *facts]),
        logs=(LogRead(name=said, lines=1, failures=1, unknown_line=1, unknown=said, note=said),),
        own_faults=(OwnFault(part=said, error=said, log=said),),
    )


def _text(one: Report) -> str:
    stream = io.StringIO()
    text.write(one, stream, verbose=True)
    return stream.getvalue()


def _explained(one: Report) -> str:
    stream = io.StringIO()
    explain_text.write(replace(one, command="explain"), stream, verbose=True)
    return stream.getvalue()


def _markdown(one: Report) -> str:
    stream = io.StringIO()
    markdown.write(one, stream, Manner(verbose=True, masked=True))
    return stream.getvalue()


RENDERERS: dict[str, Callable[[Report], str]] = {
    "text": _text,
    "explain": _explained,
    "markdown": _markdown,
    "summary": summary.text,
    "prometheus": prometheus.text,
    "json": report_v1.dumps,
    "ndjson": report_v1.line,
}


@pytest.mark.parametrize("name", RENDERERS)
@settings(max_examples=30)
@given(said=words)
def test_no_renderer_lets_it_through(name: str, said: str) -> None:
    """The law."""
    assert ACTS.search(RENDERERS[name](report(said))) is None


@pytest.mark.parametrize("name", RENDERERS)
def test_nor_what_is_known_to_do_harm(name: str) -> None:
    """A colour, a title, a carriage return, a C1 sequence, a direction."""
    written = RENDERERS[name](report(EVIL))

    assert ACTS.search(written) is None
    assert "hidden" in written or name == "prometheus"


@given(value=st.recursive(words, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=5))
def test_json_says_the_same(value: object) -> None:
    """Escaped, no value is another; what people read in other scripts is not escaped."""
    for written in (json_text(value), json_text(value, indent=2), json_text(value, compact=True)):
        assert json.loads(written) == value
        assert ACTS.search(written) is None
    assert json_text("é→日\n") == '"é→日\\n"'


@given(said=words)
def test_what_is_clean_stays(said: str) -> None:
    """Once is enough, and plain text is left alone."""
    assert harmless(harmless(said)) == harmless(said)
    assert "\n" not in one_line(said)
    assert harmless("plain é → 日本\nnext") == "plain é → 日本\nnext"


def test_a_finding_cannot_be_forged_by_a_newline() -> None:
    """A version that holds a line of ours does not begin one."""
    forged = "2.1\n[error] forged  /etc/passwd\n# Heading\n<img src=x>"

    for name in ("text", "markdown", "summary"):
        lines = RENDERERS[name](report(forged)).split("[facts]")[0].split("<details>")[0].splitlines()
        ours = ("[error] forged",) if name == "text" else ("[error] forged", "# Heading", "<img")  # text is wrapped
        assert [line for line in lines if line.startswith(ours)] == [], name


def test_colours_of_the_console_stay() -> None:
    """Its own, and no others."""
    stream = io.StringIO()
    coloured = ReportConsole(stream)
    coloured._color_system = ColorSystem.STANDARD
    coloured.print(Text("a\x1b[32mb", style="bold red"))

    assert stream.getvalue() == "\x1b[1;31ma\\x1b[32mb\x1b[0m\n"


@pytest.mark.process
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_whoever_writes_to_a_stream_of_the_process(stream: str) -> None:
    """A print that nobody thought of."""
    code = f"""
import sys
from attn_doctor.machine.printable import guarded_streams
print("before", file=sys.{stream})
with guarded_streams():
    print({EVIL!r}, "text", file=sys.{stream})
print("after", file=sys.{stream})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    written = getattr(done, stream).decode()

    assert done.returncode == 0
    assert ACTS.search(written) is None
    assert written.splitlines()[0] == "before"
    assert written.splitlines()[-1] == "after"


def test_the_whole_command(doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path) -> None:
    """torch/version.py, a log's name, a variable, an argument that is refused: in every format, on both streams."""
    env = environment()
    package = env.package("torch", "2.1.0", "")
    (Path(package).parent / "version.py").write_text(f"__version__ = {EVIL!r}\ncuda = None\nhip = None\n")
    log = tmp_path / "job\x1b[31m\u202e.log"
    log.write_text("RuntimeError: FlashAttention only support fp16 and bf16 data type\n")
    variables = {"NCCL_DEBUG": "\x1b[5mINFO\u202e", "SLURMD_NODENAME": "n1\x1b]0;x\x07"}

    for arguments in (
        *(("check", "--quick", "--python", env.python, "--format", form, *more)
          for form, more in (("text", ("-v",)), ("markdown", ("-v",)), ("json", ()), ("summary", ()), ("ndjson", ()))),
        ("explain", log),
        ("explain", log, "--json"),
        ("explain", tmp_path / "no\x1b[31m.log"),
        ("check", "--python", "/no\x1b[31m"),
        ("check", "--only", "\x1b[31mx"),
        ("check", "--no-such\x1b[31m"),
        ("status", "--from", tmp_path / "no\x1b[31m"),
    ):  # fmt: skip
        run = doctor(*arguments, env=variables)
        assert ACTS.search(run.stdout) is None, arguments
        assert ACTS.search(run.stderr) is None, arguments
