"""Facts of trials on GPUs, from a run on an H200 (torch 2.11.0+cu130, fla 0.4.2, Triton 3.6.0; 2026-11-21)."""

from __future__ import annotations

import copy
import io
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.formats import kernels_v1, report_v1
from attn_doctor.machine.process import Completed
from attn_doctor.machine.target import examine_target
from attn_doctor.model import kernel_words
from attn_doctor.model.facts import FactSet, Unknown
from attn_doctor.model.findings import Severity
from attn_doctor.model.gpu_state import PlannedGpu
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.model.vocabulary import term_of, value_fault
from attn_doctor.probe.kernels import kernel_facts
from attn_doctor.probe.kernels import trials as kernels
from attn_doctor.probe.kernels.known_kernels import Mode
from attn_doctor.recipes import shelf
from attn_doctor.report.terminal import kernels as kernels_text
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words import kernels as kernels_table
from attn_doctor.workflows import kernels as kernel_trials
from tests.nodes.test_nodes import recorded

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("h200-kernels.json").read_text())


@pytest.fixture
def answer() -> dict[str, Any]:
    return copy.deepcopy(RECORDED)


def trials(answer: dict[str, Any] | KernelTrials) -> KernelTrials:
    return answer if isinstance(answer, KernelTrials) else kernels_v1.from_json(answer)


def read(answer: dict[str, Any] | KernelTrials, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    kernels_text.write(trials(answer), ReportConsole(stream), verbose=verbose)
    return stream.getvalue()


def of(answer: dict[str, Any] | KernelTrials) -> FactSet:
    return FactSet(kernel_facts.facts(trials(answer)))


def found(seen: FactSet) -> dict[str, Severity]:
    recipes = [one for one in shelf.bundled() if one.library == "kernels"]
    return {one.id: one.severity for one in judge(seen, recipes).findings}


def cell(**more: Any) -> dict[str, Any]:
    return {
        "gpu": "0",
        "backend": "sdpa-default",
        "dtype": "bfloat16",
        "head_dim": 128,
        "form": "dense",
        "direction": "train",
        "variant": "",
        "outcome": "right",
        "troubles": [],
        "errors": {},
        **more,
    }


def broken(outcome: str, **more: Any) -> dict[str, Any]:
    return cell(outcome=outcome, reason="RuntimeError: no", **more)


def test_every_fact_is_in_the_vocabulary(answer: dict[str, Any]) -> None:
    """Names and values are as the vocabulary says."""
    for fact in of(answer).values():
        term = term_of(fact.name)
        assert term is not None, fact.name
        if hasattr(fact.state, "value"):
            assert value_fault(term.kind, fact.state.value) is None, fact


def test_the_schema_knows_it(answer: dict[str, Any]) -> None:
    """The published schema describes the trials."""
    schema = json.loads(report_v1.json_schema())["properties"]["kernels"]
    jsonschema.validate(answer, schema)

    del answer["cells"][0]["outcome"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, schema)


def test_the_float32_mask_on_an_h200(answer: dict[str, Any]) -> None:
    """cuDNN's float32 mask is wrong, with its error, by itself and as torch picks; everything else is right."""
    groups = trials(answer).troubles

    assert {(group[0].backend, group[0].form) for group in groups} == {
        ("sdpa-cudnn", "fp32-mask"),
        ("sdpa-default", "fp32-mask"),
    }
    assert all("off by 1" in kernel_words.worst(group) for group in groups)
    assert {c["outcome"] for c in answer["cells"] if c["form"] != "fp32-mask"} == {"right"}


def test_a_stock_node_stays_fit(answer: dict[str, Any]) -> None:
    """What training may never meet is a warning and no error: a stock H200 exits with 0."""
    assert found(of(answer)) == {"kernel-wrong-result": Severity.WARNING}


def test_one_cause(answer: dict[str, Any]) -> None:
    """With torch's version known, the wrong cells hang under the recipe that knows the cause, and that was seen."""
    node = derive(recorded("h200-torch2.11.json"))
    diagnosis = judge(FactSet([*node.values(), *of(answer).values()]), shelf.bundled())
    mine = [one for one in diagnosis.findings if one.id in ("sdpa-cudnn-float-mask", "kernel-wrong-result")]

    assert [(one.id, one.certainty, one.severity) for one in mine] == [
        ("sdpa-cudnn-float-mask", "seen", Severity.WARNING)
    ]
    assert {symptom.id for symptom in mine[0].symptoms} == {"kernel-wrong-result"}


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ({}, Severity.ERROR),
        ({"form": "causal", "dtype": "float16"}, Severity.ERROR),
        ({"backend": "flash-attn-2"}, Severity.ERROR),
        ({"dtype": "float32"}, Severity.WARNING),
        ({"form": "fp32-mask"}, Severity.WARNING),
        ({"form": "window"}, Severity.WARNING),
        ({"backend": "sdpa-efficient"}, Severity.WARNING),
        ({"backend": "fla-gla", "form": "causal"}, Severity.WARNING),
    ],
)
def test_what_any_training_meets_is_an_error(answer: dict[str, Any], more: dict[str, Any], severity: Severity) -> None:
    """Wrong in ordinary half precision, by what torch picks or a whole library: an error. Elsewhere a warning."""
    answer["cells"] = [cell(outcome="wrong", troubles=["error"], **more)]

    assert found(of(answer)) == {"kernel-wrong-result": severity}


@pytest.mark.parametrize(
    ("outcome", "recipe"), [("crashed", "kernel-crashes"), ("hung", "kernel-crashes"), ("refused", "kernel-refused")]
)
def test_how_it_ended(answer: dict[str, Any], outcome: str, recipe: str) -> None:
    """Each way to fail is a finding of its own."""
    answer["cells"] = [cell(), broken(outcome)]

    assert recipe in found(of(answer))


def test_nan_is_a_finding_of_its_own(answer: dict[str, Any]) -> None:
    """NaN is not merely wrong."""
    answer["cells"] = [cell(outcome="wrong", troubles=["NaN", "error"])]

    assert set(found(of(answer))) == {"kernel-not-finite"}


@pytest.mark.parametrize(
    "change",
    [
        {"not_reached": 3},
        {"cells": [cell(), broken("not run")]},
        {"cells": [cell(), broken("no memory")]},
        {"ran": False, "cells": [], "why_not": "there is no GPU"},
    ],
)
def test_what_was_not_run_is_not_healthy(answer: dict[str, Any], change: dict[str, Any]) -> None:
    """Trials that were not reached leave the question open, and are said."""
    answer.update(change)
    seen = of(answer)

    assert isinstance(seen.fact("listed.cell").state, Unknown)
    assert any(one.recipe == "kernel-wrong-result" for one in judge(seen, shelf.bundled()).open_questions)
    assert "not r" in read(answer) or "No kernel was run" in read(answer)


def test_nobody_asked() -> None:
    """Without --kernels no question stays open for it."""
    diagnosis = judge(FactSet(), [one for one in shelf.bundled() if one.library == "kernels"])

    assert diagnosis.open_questions == ()
    assert "kernel-wrong-result" in diagnosis.not_asked


# --------------------------------------------------------------------------------------------------------------
# Several GPUs


def several(answer: dict[str, Any], *shares: float, busy: int | None = None) -> dict[str, Any]:
    first = answer["gpus"][0]
    answer["gpus"] = []
    for index, share in enumerate(shares):
        gpu = copy.deepcopy(first)
        gpu["index"] = str(index)
        gpu["ceilings"] = {n: v * (1 if n == "copy" else share) for n, v in gpu["ceilings"].items()}
        if index == busy:
            gpu["before"]["utilization"] = 97
        answer["gpus"].append(gpu)
    return answer


def test_a_gpu_slower_than_its_siblings(answer: dict[str, Any]) -> None:
    """The slow one is named, with how slow and what NVML says of it."""
    seen = of(several(answer, 1.0, 0.98, 0.58, 1.0))
    findings = [one for one in judge(seen, shelf.bundled()).findings if one.id == "gpu-slower-than-siblings"]

    assert [one.title for one in findings] == ["GPU 2 reaches 58 % of GPU 0 (matrix product)"]
    assert "1980 of 1980 MHz" in findings[0].what
    assert findings[0].certainty == "seen"


@pytest.mark.parametrize("busy", [None, 1])
def test_no_false_alarm_about_speed(answer: dict[str, Any], busy: int | None) -> None:
    """A few per cent are nothing, one GPU has no sibling, and a busy one proves nothing."""
    shares = (1.0, 0.5) if busy else (1.0, 0.93)

    assert "gpu-slower-than-siblings" not in found(of(several(answer, *shares, busy=busy)))
    assert "gpu-slower-than-siblings" not in found(of(several(copy.deepcopy(RECORDED), 1.0)))


def test_whether_it_was_busy_could_not_be_asked(answer: dict[str, Any]) -> None:
    """Without NVML a slow GPU may have been a busy one: an open question, no finding."""
    several(answer, 1.0, 0.5)["gpus"][1]["before"] = None
    diagnosis = judge(of(answer), shelf.bundled())

    assert "gpu-slower-than-siblings" not in {one.id for one in diagnosis.findings}
    assert "gpu-slower-than-siblings" in {one.recipe for one in diagnosis.open_questions}


def test_two_kinds_of_gpu_are_not_siblings(answer: dict[str, Any]) -> None:
    """An older GPU beside a newer one is not slow."""
    several(answer, 1.0, 0.3)["gpus"][1]["name"] = "another"

    assert "gpu-slower-than-siblings" not in found(of(answer))


def test_a_gpu_that_differs_has_a_table_of_its_own(answer: dict[str, Any]) -> None:
    """GPUs that came to the same share a table; one with a wrong kernel stands apart, and is named."""
    several(answer, 1.0, 1.0, 1.0)
    answer["cells"] = [cell(gpu="0"), cell(gpu="1"), cell(gpu="2", outcome="wrong", troubles=["error"])]
    text = read(answer)

    assert "GPU 0, 1 " in text
    assert "GPU 2: SDPA, as torch picks wrong" in text


# --------------------------------------------------------------------------------------------------------------
# The table


def test_wrong_comes_first(answer: dict[str, Any]) -> None:
    """What is wrong stands above the table, and wrong above refused."""
    answer["cells"].insert(0, broken("refused", form="window"))
    lines = read(answer).splitlines()
    first = next(i for i, line in enumerate(lines) if "! SDPA" in line)
    refused = next(i for i, line in enumerate(lines) if "refused:" in line)
    table = next(i for i, line in enumerate(lines) if "dense" in line and "causal" in line and "varlen" in line)

    assert first < refused < table


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([("no memory", "train"), ("not run", "forward")], "No trial came to a right result."),
        ([("right", "forward"), ("no memory", "train")], "Every kernel that was run was right."),
        ([("right", "forward"), ("right", "train")], "Every kernel that was run was right, forward and backward."),
    ],
)
def test_nothing_is_called_right_that_did_not_run(
    answer: dict[str, Any], outcomes: list[tuple[str, str]], told: str
) -> None:
    """Trials that found no memory are no proof, and forward passes alone are none of backward ones."""
    answer["cells"] = [cell(outcome=outcome, direction=direction) for outcome, direction in outcomes]

    assert told in " ".join(read(answer).split())


def test_what_differs_in_the_form_alone_is_told_once(answer: dict[str, Any]) -> None:
    """One line for the forms that a kernel refuses with the same words, and another where the condition is another."""
    refused = [
        cell(backend="sdpa-flash", outcome="refused", reason="RuntimeError: 64 and 128 alone", **more)
        for more in ({"form": "dense"}, {"form": "causal"}, {"form": "varlen", "direction": "forward"})
    ]
    answer["cells"] = refused
    lines = [one.words for one in kernels_table.troubles(trials(answer))]

    assert lines == [
        "bf16 q, k and v, without a mask or causal, head dim 128, in training: RuntimeError: 64 and 128 alone",
        "bf16 q, k and v, packed sequences, head dim 128, without gradients: RuntimeError: 64 and 128 alone",
    ]


def test_marks(answer: dict[str, Any]) -> None:
    """One square is as bad as the worst of its trials."""
    answer["cells"] = [cell(), cell(form="causal"), broken("refused", form="causal", head_dim=64)]
    row = next(line for line in read(answer).splitlines() if "as torch picks bf16" in line)

    assert row.split()[5:7] == ["✓", "✗"]


def test_verbose_tells_each_refusal_in_its_words(answer: dict[str, Any]) -> None:
    """-v lists what is not offered, and why, in the kernel's own words."""
    told = " ".join(read(answer, verbose=True).split())  # however wide the terminal of the tests is
    assert "Flash Attention does not support non-null attn_mask." in told
    assert "Flash Attention does not support" not in read(answer)


# --------------------------------------------------------------------------------------------------------------
# Runs, on CPU tensors


@pytest.mark.process
@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("nosuch:kernel", "nosuch:kernel: no module nosuch was found"),
        ("flash-attn-4", "FlashAttention-4: not installed"),
    ],
)
def test_nothing_of_what_was_asked_for_is_here(tmp_path: Path, backend: str, words: str) -> None:
    """A kernel that is not installed is told as that; nothing is claimed to have run."""
    pytest.importorskip("torch")
    target = examine_target(None, as_module=True, folder=tmp_path, timeout=60.0)
    asked = kernels.TrialRequest(mode="quick", seed=1, backends=(backend,))
    answer = kernels.run(target, asked, timeout=60.0, folder=tmp_path, environment=dict(os.environ), devices=("cpu",))

    assert answer.ran is False
    assert words in str(answer.why_not)
    assert words in " ".join(read(answer).split())
    assert isinstance(of(answer).fact("listed.cell").state, Unknown)


@pytest.mark.parametrize("named", [None, PlannedGpu(name="h100", compute_capability="9.0")])
def test_trials_that_end_before_there_is_a_plan(tmp_path: Path, named: PlannedGpu | None) -> None:
    """How they ended and their last words are told; who named a GPU is not asked to name one."""
    ended = Completed(
        arguments=(),
        status=1,
        signal=None,
        timed_out=False,
        seconds=1.0,
        stdout="",
        stderr="Traceback:\nKeyError: 'x'\n",
    )
    answer = kernels.collate(tmp_path, kernels.TrialRequest(mode="quick", seed=1, gpu=named), ended, {})
    shown = read(answer)

    assert "ended with status 1 before it was known what would run (KeyError: 'x')" in " ".join(shown.split())
    assert ("Name a GPU" in shown) is (named is None)
    assert "predicted" not in shown


def test_sizes_are_written_as_people_read_them(answer: dict[str, Any]) -> None:
    """An error of two hundred times an output's size has no power of ten."""
    errors = {"dq": {"relative": 213.4, "limit": 0.028, "max": 1053.2}}
    answer["cells"][0].update(outcome="wrong", troubles=["error"], errors=errors)

    assert "dq is off by 213 times its size, where 0.028 is allowed; largest difference 1053" in " ".join(
        read(answer).split()
    )


@pytest.mark.process
@pytest.mark.parametrize("asked", ["mine:attend", "mine.py:attend"])
def test_an_own_function_is_found_in_the_current_folder(tmp_path: Path, monkeypatch, asked: str) -> None:
    """By its module's name and by its file; what lies beside it hides no installed package."""
    pytest.importorskip("torch")
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    own.mkdir()
    scratch.mkdir()
    (own / "mine.py").write_text("from torch.nn.functional import scaled_dot_product_attention as attend")
    (own / "numpy.py").write_text("raise SystemExit('hidden')")
    monkeypatch.chdir(own)
    target = examine_target(None, as_module=True, folder=scratch, timeout=60.0)
    wanted = kernel_trials.asked(Mode.QUICK, (asked,), ("fp32",), 5.0, 1, quick=False)
    assert wanted is not None
    answer = kernels.run(target, wanted, timeout=60.0, folder=scratch, environment=dict(os.environ), devices=("cpu",))

    assert answer.ran is True, answer.why_not
    assert {trial.outcome for trial in answer.cells} <= {"right", "not run"}


@pytest.mark.parametrize(
    "asked", ["mine:", ":attend", "no-module:f", "missing.py:attend", "~nobody-here/a.py:f", "a:b:c"]
)
def test_what_names_no_function_is_wrong_usage(tmp_path: Path, monkeypatch, asked: str) -> None:
    """Before anything is started."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadInput):
        kernel_trials.asked(Mode.QUICK, (asked,), (), None, None, quick=False)
