"""Which releases a log's writer put in before it failed, and that no first remedy asks for them once more."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.tried import Tried, tried_in
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.recipes import shelf

EVERY = (*shelf.bundled(), *shelf.families())
CACHE = "AttributeError: 'DynamicCache' object has no attribute 'get_usable_length'"


def first(text: str) -> Finding:
    """The finding that leads."""
    return explain_text(text, EVERY, FactSet()).diagnosis.findings[0]


@pytest.mark.parametrize(
    ("line", "tried"),
    [
        ("I tried reinstalling flash-attn and also upgrading it to the latest version", ["flash-attn latest"]),
        ("I already upgraded transformers to the latest version, same", ["transformers latest"]),
        ("I tried `pip install --upgrade transformers` and it did not help.", ["transformers latest"]),
        ("I have tried downgrading transformers to 4.52.4, no luck", ["transformers 4.52.4"]),
        ("Upgraded transformers to 4.51.3 and still get it", ["transformers 4.51.3"]),
        ("tried flash-attn 2.5.8, and 2.6.3", ["flash-attn 2.5.8", "flash-attn 2.6.3"]),
        ("Same error with transformers 4.50.0 and 4.51.3", ["transformers 4.50.0", "transformers 4.51.3"]),
        ("I downgraded numpy to 1.26.4 but it is the same", ["numpy 1.26.4"]),
        ("I installed triton-windows==3.2.0.post10 but", ["triton-windows 3.2.0.post10"]),
        ("I am using the latest version of transformers and peft", ["transformers latest", "peft latest"]),
        ("transformers is already up to date", ["transformers latest"]),
        ("已经升级transformers到4.51.3还是报错", ["transformers 4.51.3"]),
        ("transformers已经升级到最新版本，还是一样", ["transformers latest"]),
        ("I tried pip install -U bitsandbytes accelerate", ["bitsandbytes latest", "accelerate latest"]),
    ],
)  # fmt: skip
def test_what_was_put_in(line: str, tried: list[str]) -> None:
    seen = Tried()
    seen.see(line, 7)

    assert [*seen.told()[0]] == tried
    assert seen.told()[1] == 7


@pytest.mark.parametrize(
    "line",
    [
        "Please upgrade transformers to 4.51",
        "You should update to the latest version of transformers",
        "Should I update transformers?",
        "I can't upgrade transformers to 4.51 because vllm pins it",
        "Downgrading flash-attn to 2.5.8 fixed it",
        "After upgrading transformers to 4.51 everything works",
        "ImportError: I tried transformers 4.51.0, Warning: upgrade transformers to 4.51",
        "Step 100: updated parameters, tried 3 times",
        "I tried pip install git+https://github.com/huggingface/transformers",
        "I tried pip install -U torch --index-url https://download.pytorch.org/whl/cu128",
        "Still the same after updating.",
    ],
)
def test_what_was_not(line: str) -> None:
    """An advice, a question, a refusal, what helped, a message, another index."""
    assert [*tried_in(line)] == []


def test_of_several_releases_none_is_there() -> None:
    symbol = "ImportError: flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2Ev"
    assert first(f"{symbol}\nI tried flash-attn 2.5.8").title == "flash-attn 2.5.8 was compiled for another torch"
    assert first(f"{symbol}\nI tried flash-attn 2.5.8 and 2.6.3").title == "flash-attn was compiled for another torch"


def test_what_was_tried_is_not_the_first_fix_again() -> None:
    """The release that a remedy asks for was put in, so another Python runs; one that is no answer changes nothing."""
    wanted = first(CACHE).remedies[0].title
    assert wanted.startswith("Install transformers before 4.54")
    assert first(f"{CACHE}\nI upgraded transformers to 4.57.1 and it is the same").remedies[0].title == wanted

    look = first(f"{CACHE}\nI downgraded transformers to 4.40 and it is the same").remedies[0]

    assert look.title.startswith("The log says that transformers 4.40 was put in: the Python that runs it is another")
    assert [one.commands for one in look.actions] == [
        ('python -c "import sys; print(sys.executable); import transformers"',)
    ]


@pytest.mark.parametrize(
    ("said", "claimed"),
    [("I am on the latest transformers", "latest"), ("tried transformers 4.52.4", "4.52.4")],
)
def test_a_release_that_has_the_name_is_another_pythons(said: str, claimed: str) -> None:
    text = f"ValueError: It has model type `qwen3` but Transformers does not recognize it.\n{said}"

    assert first(text).remedies[0].title.startswith(f"Ask the Python that runs: transformers {claimed}, which")


def test_the_newest_does_not_have_what_was_dropped() -> None:
    text = "ImportError: cannot import name 'HybridCache' from 'transformers'\nI am on the latest transformers"

    assert first(text).remedies[0].title.startswith("Install transformers <5.0")


def test_a_build_of_torch_that_is_said_to_be_there() -> None:
    """Every torch for CUDA 12.8 has code for this GPU, so something else lacks it; and where torch itself says that it
    has none, the build went into another Python.
    """
    bare = "RuntimeError: CUDA error: no kernel image is available for execution on the device\nGPU: RTX 5090"
    shown = (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90."
    )
    said = "I already installed the cu128 nightly of torch, still the same"

    assert first(bare).id == first(f"{bare}\nYou could install the cu128 build of torch").id == "torch-lacks-gpu-arch"
    assert first(f"{bare}\n{said}").id == "extension-lacks-gpu-arch"
    assert first(f"{shown}\n{said}").remedies[0].id == "with-the-programs-own-python"
    assert first(shown).remedies[0].id != "with-the-programs-own-python"
