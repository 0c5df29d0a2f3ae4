"""What a message itself tells its reader to do is found, and stands first where nothing else is known of it."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.advice import advice_in
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("ValueError: Please launch it with `torchrun`, e.g. MOON_FORCE=1.", "with `torchrun`, e.g. MOON_FORCE=1"),
        ("ValueError: it is full. Please increase `max_moon_size` in the config.", "`max_moon_size` in the config"),
        ("ValueError: it is slow. Reduce --batch-size or the moon.", "Reduce --batch-size or the moon"),
        ("ValueError: it is off. Enable it with `moon.on()`.", "Enable it with `moon.on()`"),
        ("RuntimeError: to see more, set MOON_DEBUG=1", None),
        ("RuntimeError: strides not set. Enable cuMOON error logging by setting CUMOON_LOGERR_DBG=1.", None),
        ("RuntimeError: no plan. Set MOON_LOG_LEVEL=3.", None),
        ("ValueError: the rates increase with `lr`", None),
        ("ValueError: MoonForCausalLM has no vLLM implementation. Try setting VLLM_USE_V1=0.", None),
    ],
)
def test_a_setting_that_the_message_asks_for(message: str, advice: str | None) -> None:
    found = advice_in(message)

    assert (found or "").endswith(advice) if advice else found is None


def test_it_stands_first_where_the_message_is_known_by_its_grammar_alone() -> None:
    log = "import torch\nValueError: The moon is too large. Please increase `max_moon_size` in the config."
    first = explain_text(log, shelf.families(), FactSet()).diagnosis.findings[0]

    assert first.id == "package-refuses-a-value"
    assert "Please increase `max_moon_size` in the config" in first.remedies[0].title


def test_a_message_that_says_for_whom_leaves_the_other_way_open() -> None:
    log = "from torch import nn\nAssertionError: we only provide fp16 moons, set fp16=True if you want to use moons"
    first = explain_text(log, shelf.families(), FactSet()).diagnosis.findings[0]

    assert "set fp16=True if you want to use moons; who does not want that part" in first.remedies[0].title


def test_it_is_a_step_and_no_look() -> None:
    log = "import torch\nValueError: The moon is too large. Please increase `max_moon_size` in the config."
    first = explain_text(log, shelf.families(), FactSet()).diagnosis.findings[0]

    assert not first.is_a_look(first.remedies[0])


def test_what_a_family_says_itself_is_not_said_twice() -> None:
    log = (
        "NotImplementedError: The operator 'aten::moon' is not currently implemented for the MPS device. As a "
        "temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU."
    )
    first = explain_text(log, shelf.families(), FactSet()).diagnosis.findings[0]

    assert first.remedies[0].title.startswith("Set PYTORCH_ENABLE_MPS_FALLBACK=1 before")


def test_what_code_sets_behind_an_import_comes_too_late() -> None:
    """The message's own advice, for the shell."""
    message = (
        "ValueError: Please use Flashinfer backend for models with logits_soft_cap. Otherwise, it might be wrong. "
    )
    message += "Set Flashinfer backend by export VLLM_ATTENTION_BACKEND=FLASHINFER."
    late = "from vllm import LLM\nos.environ['VLLM_ATTENTION_BACKEND'] = 'FLASHINFER'\n"

    def title(text: str) -> str:
        every = (*shelf.bundled(), *shelf.families())
        return explain_text(text, every, FactSet()).diagnosis.findings[0].remedies[0].title

    assert title(message).startswith("The message itself says what to try: ")
    assert title(late + message).startswith("Set it in the shell, before Python starts, ")
    assert title(late.replace("FLASHINFER", "FLASH") + message).startswith("The message itself")  # another value
    assert title("# " + late.splitlines()[1] + "\n" + message).startswith("The message itself")
