"""What a log still tells of which somebody pasted a part."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.recipes.shelf import bundled, families

CALLS = (
    "Traceback (most recent call last):\n"
    '  File "E:\\ComfyUI\\execution.py", line 327, in execute\n    output = get(obj)\n'
    '  File "E:\\ComfyUI\\custom_nodes\\ComfyUI_TRELLIS\\node.py", line 62, in load\n    model = pipe\n'
)
MISSING = "!!! Exception during processing !!! No module named 'flash_attn'\n"
TOO_MUCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "


def found(log: str) -> Finding:
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0]


@pytest.mark.parametrize("above", [MISSING + CALLS, "No module named 'flash_attn'" + CALLS.partition(":")[2]])
def test_calls_below_their_message_tell_the_node(above: str) -> None:
    assert "ATTN_BACKEND=xformers" in found(above).remedies[0].title


def test_calls_that_end_in_a_message_are_that_ones() -> None:
    title = found(CALLS + "ValueError: moon\n\ngot prompt\n" + MISSING).remedies[0].title

    assert "ATTN_BACKEND" not in title


def test_a_page_hands_on_the_message_of_a_package() -> None:
    log = (
        'File "D:\\app\\server.py", line 911, in generate\n    raise gr.Error(f"An error: {s}")\n'
        "gradio.exceptions.Error: \"An error, see your terminal. 'Unsupported CUDA architecture: sm75'\"\n"
    )

    assert "SageAttention" in found(log).remedies[0].title


def test_without_a_traceback_a_package_does_not_ask_for_its_own_name() -> None:
    """The engine is the one that the message names; the code that imports from it was cut off."""
    finding = found("ImportError: cannot import name 'SamplingMetadata' from 'vllm.model_executor' (/e/vllm/x.py)\n")

    assert finding.remedies[0].id != "restart-after-the-change"


@pytest.mark.parametrize(
    ("rest", "beyond"),
    [
        ("28.83 GiB. GPU 0 has a total capacity of 11.00 GiB of which 3.83 GiB is free.", True),
        ("28.83 GiB. GPU 0 has a total capacty of 11.00 GiB of which 3.83 GiB is free.", True),
        ("28.83 GiB (GPU 0; 11.00 GiB total capacity; 5.61 GiB already allocated)", True),
        ("2.00 GiB (GPU 0; 11.00 GiB total capacity; 5.61 GiB already allocated)", False),
        ("28.83 MiB. GPU 0 has a total capacity of 11.00 GiB of which 3.83 MiB is free.", False),
    ],
)
def test_what_is_larger_than_the_gpu_is_no_matter_of_the_allocator(rest: str, *, beyond: bool) -> None:
    assert ("more than the whole GPU" in str(found(TOO_MUCH + rest + "\n").remedies[0])) is beyond


def test_a_header_that_the_log_shows_only_as_code() -> None:
    """gcc and nvcc show an include with a mark below it, and end, only where the header is not there."""
    code = '     32 | #include "cutlass/cutlass.h"\n        |          ^~~~~~~~~~~~~~~~~~~\n'
    stop = "  compilation terminated.\n"

    assert found("pip install flash-attn\n" + code + stop).id == "cutlass-submodule-empty"
    told = explain_text("pip install flash-attn\n" + code, (*bundled(), *families()), FactSet()).diagnosis.findings
    assert "cutlass-submodule-empty" not in [one.id for one in told]


COMFYUI = "!!! Exception during processing !!! The moon has 3 craters\n"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (COMFYUI, "Exception: this message is not known here"),
        (f"{COMFYUI}HIP kernel craters might be reported later.\n\n", "Exception: this message is not known here"),
        ("Error occurred when executing KSampler:\n\nThe moon has 3 craters\n\n", "Error occurred when executing KS"),
        (
            "- **Exception Type:** RuntimeError\n- **Exception Message:** The moon has 3 craters\n\n## Stack Trace\n\n",
            "RuntimeError: this message is not known here",
        ),
        ("!!! Exception during processing !!!\n", "The traceback ends before its exception"),
    ],
)
def test_a_message_above_calls_is_what_ended_them(said: str, title: str) -> None:
    assert found(f"torch 2.6\n{said}{CALLS}").title.startswith(title)


@pytest.mark.parametrize("level", ["ERROR:root:", "ERR: "])
def test_a_record_of_a_failure_above_calls_is_theirs(level: str) -> None:
    told = explain_text(f"{level}{TOO_MUCH}2.00 GiB.\n{CALLS}", (*bundled(), *families()), FactSet())

    assert [one.id for one in told.diagnosis.findings] == ["gpu-out-of-memory"]


def test_a_whole_traceback_below_its_message_says_it_once() -> None:
    told = explain_text(f"{COMFYUI}{CALLS}ValueError: The moon has 3 craters\n", (*bundled(), *families()), FactSet())

    assert [one.title.partition(":")[0] for one in told.diagnosis.findings] == ["ValueError"]


def test_what_the_loader_passes_over_never_leads() -> None:
    """The program starts without a file of LD_PRELOAD: what it fails of later is its trouble."""
    notice = (
        "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.\n"
    )
    told = explain_text(f"{notice}{TOO_MUCH}2.00 GiB.\n", (*bundled(), *families()), FactSet()).diagnosis.findings

    assert [one.id for one in told] == ["gpu-out-of-memory", "ld-preload-passed-over"]
