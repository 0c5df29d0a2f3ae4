"""What a person reads."""

from __future__ import annotations

import io

import pytest
from hypothesis import given

from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Location, OpenQuestion, Severity
from attn_doctor.model.report import Examined, Report
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.report.renderer import Manner
from attn_doctor.report.renderers import markdown
from attn_doctor.report.terminal import report as text
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words.steps import next_steps
from tests import strategies
from tests.diagnose.test_derived import facts


def report(seen: FactSet, diagnosis: Diagnosis | None = None, *, quick: bool = False) -> Report:
    return Report(
        command="check",
        doctor_version="0.1.0",
        created="2026-11-21T00:00:00+00:00",
        examined=Examined(python="/env/bin/python", version="3.11.7", environment="venv", because="--python"),
        quick=quick,
        assumed=(),
        diagnosis=diagnosis if diagnosis is not None else judge(derive(seen), shelf.bundled()),
        exit_status=0,
        facts=derive(seen),
    )


def read(one: Report, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    text.write(one, stream, verbose=verbose)
    return stream.getvalue()


WHOLE = facts(
    listed__gpu=0, listed__package=1, listed__import=1, listed__extension=0, listed__sample=0, listed__config=0,
    listed__env=0, driver__version=Unknown("x"), torch__version="2.13.0+cpu",
    **{"package__x-transformers__version": "1.30.1", "python__executable": "/env/bin/python"},
)  # fmt: skip


def test_the_first_line_names_what_was_examined() -> None:
    """Which Python, and why that one."""
    assert read(report(WHOLE)).startswith(
        "attn-doctor 0.1.0 examined /env/bin/python (Python 3.11.7, venv; --python)\n"
    )


def test_a_finding_on_one_screen() -> None:
    """Trouble, evidence, reason and cure with the command to type; plain text off a terminal."""
    said = read(report(WHOLE))

    assert "[warning] x-transformers-rotary-fp32" in said
    assert "package.x-transformers.version is 1.30.1" in said
    assert "/env/bin/python -m pip install --no-deps x-transformers==1.30.2" in said
    assert "\x1b" not in said


def test_commands_are_not_torn() -> None:
    """A command longer than the line stays one line, to be copied."""
    long = WHOLE.with_facts(facts(python__executable="/" + "very-long/" * 30 + "python").values())

    assert "python -m pip install --no-deps x-transformers==1.30.2\n" in read(report(long))


def test_a_node_without_gpu_is_not_called_healthy() -> None:
    """It says that it was not examined for a GPU."""
    healthy = WHOLE.without("package").with_facts(facts(torch__cuda="13.0", torch__version="2.13.0").values())
    said = read(report(healthy, Diagnosis()))

    assert "nothing wrong found" in said
    assert "not examined for one" in said
    assert "healthy" not in said.replace("not as healthy", "")


def test_a_gpu_that_was_assumed_is_called_so() -> None:
    """Nobody takes an assumed GPU for a real one."""
    assert "assumed, not there" in read(report(assume_gpu(WHOLE, named_gpu("h200"))))


def test_the_commands_to_type_next_keep_what_was_assumed() -> None:
    """A plan made without the assumption would be another one."""
    seen = assume(WHOLE, ["driver.version=450.1"])
    one = replace(report(seen), assumed=("driver.version",))

    commands = [command for _, command, _ in next_steps(one)]

    assert any(one.endswith("fix --python /env --assume driver.version=450.1") for one in commands)


def test_open_questions_are_grouped_by_what_stands_in_the_way() -> None:
    """One hanging driver that leaves many recipes open is said once."""
    hung = facts(listed__gpu=Unknown("nvidia-smi did not answer within 30 s")).fact("listed.gpu")
    diagnosis = Diagnosis(
        open_questions=tuple(OpenQuestion(recipe=f"recipe-{i}", title="t", undecided=(hung,)) for i in range(3))
    )
    said = read(report(WHOLE, diagnosis))

    assert said.count("nvidia-smi did not answer") == 1
    assert "recipe-0, recipe-1, recipe-2" in said


@given(one=strategies.reports)
def test_every_report_can_be_written(one: Report) -> None:
    """Whatever text facts and findings hold, writing it does not fail."""
    read(one)
    read(one, verbose=True)
    markdown.write(one, io.StringIO(), Manner(verbose=True, masked=True))


def test_markdown_masks_names(monkeypatch) -> None:
    """Home, user and host names do not get into an issue unless asked."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setattr("getpass.getuser", lambda: "somebody")
    masked = markdown.mask(
        "/home/somebody/env on node17.cluster, /home/other/x, somebody's, node17, xnode17",
        hosts=("node17.cluster", "node17"),
    )

    assert masked == "~/env on <host>, /home/<user>/x, <user>'s, <host>, xnode17"


def test_markdown_leaves_names_when_asked() -> None:
    """--show-names."""
    stream = io.StringIO()
    named = WHOLE.with_facts(facts(node__hostname="node17").values())
    markdown.write(report(named), stream, Manner(verbose=False, masked=False))

    assert "node17" in stream.getvalue()


def test_what_samples_met_alike_is_one_line() -> None:
    """Two findings of the same words and place, explained by one cause, are told once."""
    place = (Location(file="/env/rotary.py", line=480),)
    twice = tuple(Finding(id="s", severity=Severity.ERROR, title="q turned", locations=place) for _ in range(2))
    other = Finding(id="s", severity=Severity.ERROR, title="q turned", locations=())
    cause = Finding(id="c", severity=Severity.ERROR, title="t", symptoms=(*twice, other))
    said = read(report(WHOLE, Diagnosis(findings=(cause,))))

    assert said.count("  causes ") == 2
    assert said.count("/env/rotary.py:480") == 1


@pytest.mark.parametrize(("subject", "shown"), [("promotion 3", False), ("attention 0", False), ("gpu 3", True)])
def test_numbers_of_our_own_lists_are_not_shown(subject: str, shown: bool) -> None:
    """A GPU's number tells a person something, the place of a call in a list of ours does not."""
    found = Finding(id="f", severity=Severity.ERROR, title="t", subjects=(subject,))

    assert (f"  on         {subject}" in read(report(WHOLE, Diagnosis(findings=(found,))))) is shown


def test_markdown_holds_words_and_no_markup_of_others() -> None:
    """A version, a message or a mask never becomes a tag, a comment, a link or bold; code stays as it was."""
    evil = "1.0<script>x</script><!-- <img src=x> [a](http://b) **b** __init__.py `<user>` x_y < 3"
    text = markdown.escaped(f"**1 error**\n- {evil}\n```\n{evil}\n```\n<details><summary>Facts</summary>")

    assert text.split("\n") == [
        "**1 error**",
        r"- 1.0\<script>x\</script>\<!-- \<img src=x> [a]\(http://b) \*\*b\*\* \_\_init\_\_.py `<user>` x_y < 3",
        "```",
        evil,
        "```",
        "<details><summary>Facts</summary>",
    ]


def test_lines_are_broken_between_words() -> None:
    """None is wider than the page, but for a word that is: a path stays whole."""
    out = io.StringIO()
    console = ReportConsole(out)
    console.width = 40
    path = "/srv/environments/of/everybody/train/lib/python3.12/site-packages"
    console.print("Quietly promoted to float32 by one scale parameter that " + path + " holds, and then cast back.")

    lines = out.getvalue().splitlines()
    assert path in lines
    assert all(len(line) <= 40 and line == line.rstrip() for line in lines if line != path)
    assert len(lines) > 3
