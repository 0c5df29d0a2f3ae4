"""What every form of a report says of the kernels that were tried, on a real H200's answer."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.diagnose.report_diff import compare
from attn_doctor.formats import chunks, kernels_v1, report_v1
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.report import Report
from attn_doctor.report import comparison
from attn_doctor.report import standing as status
from attn_doctor.report.renderer import Manner
from attn_doctor.report.renderers import markdown, prometheus, summary
from attn_doctor.report.words import kernels as kernels_table
from tests.diagnose.test_compare import _report as plain_report
from tests.diagnose.test_derived import facts

PROBE = Path(__file__).parent.parent / "probe"
RECORDED: dict[str, Any] = json.loads((PROBE / "h200-kernels.json").read_text())
ILLEGAL: dict[str, Any] = json.loads((PROBE / "h200-illegal-access.json").read_text())
NOW = datetime(2026, 11, 21, 1, 0, tzinfo=timezone.utc)


@pytest.fixture
def answer() -> dict[str, Any]:
    return copy.deepcopy(RECORDED)


def report(answer: dict[str, Any] | None, *findings: Finding) -> Report:
    return dataclasses.replace(
        plain_report(findings=findings), kernels=None if answer is None else kernels_v1.from_json(answer)
    )


def pasted(answer: dict[str, Any], *, verbose: bool = False, masked: bool = True) -> str:
    stream = io.StringIO()
    markdown.write(report(answer), stream, Manner(verbose=verbose, masked=masked))
    return stream.getvalue()


def planned() -> dict[str, Any]:
    return {
        **RECORDED, "ran": False, "cells": [], "gpus": [], "why_not": "torch sees no GPU",
        "gpu_planned_for": {"name": "H100", "compute_capability": "9.0"},
        "would_run": [cell for cell in RECORDED["cells"] if cell["backend"] == "sdpa-flash"],
    }  # fmt: skip


def table_of(text: str) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[square.strip() for square in row] for row in rows]


class TestMarkdown:
    """For pasting into an issue."""

    def test_wrong_first_then_the_table_then_what_was_not_run(self, answer: dict[str, Any]) -> None:
        """In this order, whatever the length."""
        text = pasted(answer)
        places = [text.index(words) for words in ("### Kernels: ", "**! SDPA", "| GPU 0 | dense |", "not installed: ")]

        assert places == sorted(places)

    def test_the_table_says_what_the_terminal_says(self, answer: dict[str, Any]) -> None:
        """A head, a line of dashes, and each square as it is on a terminal."""
        head, dashes, *rows = table_of(pasted(answer))
        squares = {
            name: [square.words for square in row]
            for name, row in kernels_table.rows(kernels_v1.from_json(answer), "0")
        }

        assert head == ["GPU 0", *kernels_table.HEADS.values()]
        assert set(dashes) == {"---"}
        assert {row[0]: row[1:] for row in rows} == squares
        assert squares["SDPA cuDNN bf16"][6] == "!"

    def test_several_gpus(self, answer: dict[str, Any]) -> None:
        """Alike they share a table; one that differs has one of its own."""
        gpu, cell = answer["gpus"][0], answer["cells"][0]
        answer["gpus"] = [{**gpu, "index": str(number)} for number in range(3)]
        answer["cells"] = [{**cell, "gpu": "0"}, {**cell, "gpu": "1"}, {**cell, "gpu": "2", "outcome": "hung"}]
        heads = [row[0] for row in table_of(pasted(answer)) if row[1] == "dense"]

        assert heads == ["GPU 0, 1", "GPU 2"]

    def test_without_a_gpu_the_plan(self) -> None:
        """Nothing ran, what would run there, what is refused, and no mark of a kernel that is right."""
        text = pasted(planned())

        assert "No kernel was run: torch sees no GPU." in text
        assert "On H100 (compute capability 9.0), predicted and not run:" in text
        assert "  - SDPA flash: would run" in text
        assert "    - – " in text
        assert "✓" not in text

    def test_why_a_backend_would_run_nothing(self) -> None:
        """One that `quick` leaves out is not said to be refused; a reason that is left is one reason."""
        plan = planned()
        plan["backends"] = [{"name": "flex", "title": "FlexAttention", "version": None, "state": "runs"}]
        plan["not_offered"] = [{**plan["not_offered"][0], "backend": "flex"}] * 5
        plan["left_out"] = {"flex": 250}

        assert "FlexAttention: would run nothing in \\`full\\`: it is compiled when it is called" in pasted(plan)
        assert "and 1 more reason (" in pasted(plan)
        plan["left_out"] = {"flex": 0}
        assert "FlexAttention: would run nothing\n" in pasted(plan)

    def test_a_gpu_that_was_given_by_its_capability(self) -> None:
        """It has no other name, and none is made of it."""
        plan = {**planned(), "gpu_planned_for": {"name": "9.0", "compute_capability": "9.0"}}

        assert "On compute capability 9.0, predicted and not run:" in pasted(plan)

    def test_it_is_masked_as_the_rest_is(self, answer: dict[str, Any]) -> None:
        """A kernel's last words may name a person's files: home and host go, also where nobody else names them."""
        home, host = str(Path("~").expanduser()), "n1"
        answer["cells"][0].update(outcome="crashed", reason=f"ImportError: {home}/own_kernels.py on {host}")
        masked, open_ = pasted(answer), pasted(answer, masked=False)

        assert f"{home}/own_kernels.py" in open_
        assert home == "/" or home not in masked
        assert "/own_kernels.py" in masked

    def test_words_of_others_do_not_become_markdown(self, answer: dict[str, Any]) -> None:
        """A message cannot end the line, open a table, a tag or a link."""
        answer["cells"][0].update(outcome="crashed", reason="a | b\n| <img src=x> [x](y) *c*\x1b[31m")
        line = next(line for line in pasted(answer).splitlines() if "img src" in line)

        assert r"a \| b \| \<img src=x\> \[x\](y) \*c\*" in line
        assert "\x1b" not in line

    def test_verbose(self, answer: dict[str, Any]) -> None:
        """-v: each refusal in the kernel's words, and how the GPU was."""
        assert "Flash Attention does not support non-null attn_mask." not in pasted(answer)
        assert "Flash Attention does not support non-null attn_mask." in pasted(answer, verbose=True)
        assert "clock " in pasted(answer, verbose=True)

    def test_without_kernels_nothing_of_them(self) -> None:
        """Nobody asked: no section."""
        stream = io.StringIO()
        markdown.write(report(None), stream, Manner(verbose=False, masked=True))

        assert "Kernels" not in stream.getvalue()


def test_an_xid_stands_with_its_gpu() -> None:
    """What the GPU told is in its line, and beside the trial."""
    text = pasted({**copy.deepcopy(ILLEGAL), "xid_meanings": {"31": {"meaning": "GPU memory page fault"}}})

    assert "reported Xid 31 (GPU memory page fault)" in next(
        line for line in text.splitlines() if "GPU 0 NVIDIA" in line
    )
    assert "meanwhile the GPU reported Xid 31" in next(line for line in text.splitlines() if "**✗" in line)


# --------------------------------------------------------------------------------------------------------------
# In a few words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "kernels (full): "),
        ({"not_reached": 7}, "; 7 not run"),
        ({"ran": False, "cells": [], "why_not": "torch sees no GPU."}, "kernels: none was run: torch sees no GPU"),
    ],
)
def test_in_a_line(answer: dict[str, Any], change: dict[str, Any], words: str) -> None:
    """The summary and `status` say what came of them, and that none ran."""
    answer.update(change)
    standing = status.weigh(report(answer), file="r.json", now=NOW, max_age=timedelta(days=1), boot_id=None)

    assert words in summary.text(report(answer))
    assert words in "\n".join(status.NodeStanding("n1", (standing,)).lines())
    assert words in json.dumps(status.NodeStanding("n1", (standing,)).to_json())


def test_a_line_counts_each_outcome(answer: dict[str, Any]) -> None:
    """Right ones and wrong ones are told apart, and what found no memory is not run."""
    answer["cells"] = [{**answer["cells"][0], "outcome": one} for one in ("right", "right", "wrong", "no memory")]

    assert kernels_table.brief(kernels_v1.from_json(answer)) == "kernels (full): 2 right, 1 wrong; 1 not run"


def test_metrics(answer: dict[str, Any]) -> None:
    """Trials by outcome, zeros too, and what each GPU reached; nothing where nobody asked."""
    answer["gpus"][0]["xids"] = {"why_not": None, "seen": [{"number": 31, "at": 1.0}] * 2}
    text = prometheus.text(report(answer))
    wrong = sum(cell["outcome"] == "wrong" for cell in answer["cells"])

    assert f'attn_doctor_kernel_trials{{outcome="wrong"}} {wrong}\n' in text
    assert 'attn_doctor_kernel_trials{outcome="hung"} 0\n' in text
    assert 'attn_doctor_gpu_matmul_tflops{gpu="0"} ' in text
    assert 'attn_doctor_gpu_xids{gpu="0",xid="31"} 2\n' in text
    assert "attn_doctor_kernels_ran 1\n" in text
    assert "attn_doctor_kernels_ran 0\n" in prometheus.text(report(planned()))
    assert "kernel" not in prometheus.text(report(None))


def test_streams_carry_all_of_it(answer: dict[str, Any]) -> None:
    """A line of NDJSON and the chunks hold every trial."""
    line = report_v1.line(report(answer))
    (joined,) = chunks.join(chunks.frames("n1", line))

    assert json.loads(joined.text or "")["kernels"] == answer
    assert report_v1.loads(line, about="r").kernels == kernels_v1.from_json(answer)


@pytest.mark.parametrize("key", ["ran", "mode", "cells", "gpus", "not_reached"])
def test_a_damaged_section_is_told(answer: dict[str, Any], key: str) -> None:
    """A report whose trials lack what every reader needs is damaged, not a crash later on."""
    from attn_doctor.errors import BadInput

    written = report_v1.to_json(report(answer))
    del written["kernels"][key]
    with pytest.raises(BadInput, match="damaged"):
        report_v1.loads(json.dumps(written), about="r")


class TestCompare:
    """What was never run was not found to be wrong."""

    WRONG = Finding(
        id="kernel-wrong-result",
        severity=Severity.ERROR,
        title="It is.",
        evidence=(facts(cell__x__outcome="wrong").fact("cell.x.outcome"),),
    )
    OTHER = Finding(id="flash-attn-broken", severity=Severity.ERROR, title="It is.")

    def test_one_of_them_ran_none(self, answer: dict[str, Any]) -> None:
        """A wrong kernel is no drift from a report that tried none, and that is said; another new error is."""
        old, new = report(None), report(answer, self.WRONG)
        found = compare(old, new, about=("old", "new"))
        told = comparison.lines(comparison.Compared(found, old, new))

        assert not found.drifted
        assert told[-1] == "The same, as far as both looked."
        assert "not asked for (--kernels), and --kernels full" in "\n".join(told)
        assert compare(old, report(answer, self.WRONG, self.OTHER), about=("old", "new")).drifted

    def test_both_ran_the_same(self, answer: dict[str, Any]) -> None:
        """Then a kernel that became wrong is drift."""
        found = compare(report(answer), report(copy.deepcopy(answer), self.WRONG), about=("old", "new"))

        assert found.drifted
        assert found.notes == ()
