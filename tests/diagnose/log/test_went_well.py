"""A log whose program did its work tells notices, and lists of changes and tests that are to fail tell nothing."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.recipes.shelf import bundled, families

MISSING = "ModuleNotFoundError: No module named 'flash_attn'"
CAUGHT = f"""Traceback (most recent call last):
  File "/srv/embed/backends.py", line 41, in probe
    importlib.import_module("flash_attn")
{MISSING}
INFO  flash_attn not usable, next candidate
"""
NODE = "Could not load sageattention: No module named 'sageattention'\n"


def found(log: str) -> list[tuple[str, Severity]]:
    shelf = (*bundled(), *families())
    explained = explain_text(log, shelf, FactSet())
    return [(one.id, one.severity) for one in explained.diagnosis.findings]


@pytest.mark.parametrize(
    "done",
    [
        'INFO:     10.3.0.7:41020 - "POST /embed HTTP/1.1" 200 OK',
        "{'loss': 1.2331, 'grad_norm': 0.41, 'learning_rate': 2e-05, 'epoch': 0.1}",
        " iteration  100/20000 | consumed samples: 25600 | lm loss: 6.913022E+00 | number of nan iterations:   0 |",
        "==== 399 passed, 4 xfailed in 184.22s ====",
    ],
)
def test_what_was_caught_is_a_notice(done: str) -> None:
    assert found(CAUGHT)[0] == ("flash-attn-not-installed", Severity.ERROR)
    assert found(CAUGHT + done) == [("flash-attn-not-installed", Severity.INFO)]


@pytest.mark.parametrize(
    "end",
    [
        "{'loss': nan, 'grad_norm': nan}",
        "{'loss': 1.2}\nRuntimeError: CUDA error: an illegal memory access was encountered",
        'INFO:  10.3.0.7:41020 - "POST /embed HTTP/1.1" 500 Internal Server Error',
        "{'loss': 1.2}\nbut I want flash attention, and it is not used. How can I install it?",
        "==== 1 failed, 399 passed in 184.22s ====",
        "Prompt executed in 0.02 seconds",  # ComfyUI says so of a prompt that raised
    ],
)
def test_what_fails_behind_it_and_a_complaint_are_none(end: str) -> None:
    assert ("flash-attn-not-installed", Severity.ERROR) in found(CAUGHT + end)


@pytest.mark.parametrize("said", ["RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "Killed"])
def test_a_step_that_ends_in_an_error_is_no_work_done(said: str) -> None:
    """A loss stands before it on the same line."""
    assert found(f"{CAUGHT}step 3 loss=2.1 {said}")[0][1] is Severity.ERROR


def test_a_node_without_its_package() -> None:
    """A prompt that was executed shows that what was only printed was none of its troubles."""
    assert found(NODE)[0] == ("sageattention-not-installed", Severity.ERROR)
    assert found(NODE + "Prompt executed in 7.41 seconds") == [("sageattention-not-installed", Severity.INFO)]


CHANGES = """## Release notes of the image
* Fix `RuntimeError: CUDA error: an illegal memory access was encountered` for large vocabularies
* Wheels with both ABIs; this resolves the `undefined symbol: _ZN3c105ErrorC2` reports
* "FlashAttention only supports Ampere GPUs or newer." now prints the detected capability
* Improved message when `No operator found for memory_efficient_attention_forward`
"""


def test_a_list_of_changes_tells_nothing() -> None:
    assert found(CHANGES) == []
    assert found(CHANGES.replace("## Release notes of the image\n", ""))


@pytest.mark.parametrize("word", ["XFAIL", "SKIPPED", "XPASS"])
def test_a_test_that_is_to_fail(word: str) -> None:
    said = "FlashAttention forward only supports head dimension at most 256"
    assert found(f"{word} tests/test_attention.py::test_head_dim[320] - {said}") == []
    assert found(f"FAILED tests/test_attention.py::test_head_dim[320] - {said}")


@pytest.mark.parametrize("step", ["loss=2.1", "step 10: loss=2.1"])
def test_a_message_in_the_line_of_a_step_is_not_of_before_it(step: str) -> None:
    found = explain_text(f"{step} No available kernel. Aborting execution.", [*bundled()], FactSet()).diagnosis.findings
    assert (found[0].id, found[0].severity) == ("sdpa-no-backend", Severity.ERROR)


CONFLICT = """torchaudio 2.2.0+cu118 requires torch==2.2.0, but you have torch 2.5.1 which is incompatible.
Successfully installed moonlib-1.0 tokenizers-0.20.3
"""


def test_what_pip_installed_says_nothing_of_the_conflicts_that_it_names() -> None:
    """It writes both in one go; a program that ran behind it does."""
    assert found(CONFLICT)[0] == ("torch-pinned-by-package", Severity.WARNING)
    assert found(CONFLICT + "{'loss': 1.2331, 'epoch': 0.1}")[0] == ("torch-pinned-by-package", Severity.INFO)
