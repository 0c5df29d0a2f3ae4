"""What a program says when it takes another way is a notice, whatever kernel it names; advice and failures are none."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.recipes.shelf import bundled, families

NOTICE = "optional-fast-path-missing"


def _first(text: str) -> tuple[str, Severity]:
    found = explain_text(text, [*bundled(), *families()], FactSet()).diagnosis.findings
    return (found[0].id, found[0].severity) if found else ("", Severity.INFO)


@pytest.mark.parametrize(
    "text",
    [
        "FlashAttention is not available on this device. Using scaled_dot_product_attention instead.",
        "decoder: flash_attention_2 requires half precision, will fallback to sdpa in float32",
        "[WARN] FA2 not supported for head_dim=72; using SDPA",
        "Flash Attention not found, defaulting to eager attention",
        "UserWarning: Flash Attention is not supported on your GPU, standard attention is used.",
        "[rank0] flash-attn 2.7.4 detected but compute capability 7.5 < 8.0. Reverting to eager.",
        "FlashAttention is only supported on Ampere or newer; disabling use_flash_attn",
        "use_flash_attention is set to False because flash_attn cannot be imported",
        "Memory efficient attention unavailable on MPS; attention slicing will be used",
        "注意: 未安装 flash-attn，将使用默认注意力",
    ],
)
def test_what_is_taken_instead_makes_a_notice(text: str) -> None:
    """Neither a refusal nor a package that has to be installed leads."""
    assert _first(text) == (NOTICE, Severity.INFO)


def test_a_notice_that_is_known_exactly_leads() -> None:
    """The words of going on are no evidence of which notice it is."""
    text = "UserWarning: Flash Attention is disabled as it requires a GPU with Ampere (8.0) CUDA capability."

    assert _first(text)[0] == "sdpa-without-its-flash-kernel"


def test_what_is_missing_is_no_error_where_the_program_goes_on() -> None:
    """A line of its own, without an exception."""
    text = "nvcc not found. FlashInfer JIT disabled; using FLASH_ATTN backend"

    assert _first(text) == ("nvcc-missing", Severity.INFO)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: FlashAttention is not supported for this shape, use sdpa",
        "ValueError: flash attention cannot be used here. Disabling dropout is required",
        "It falls back to TRITON_ATTN; forcing FLASHINFER fails with sink setting not supported",
        "ImportError: flash_attn is not installed. Switch to sdpa by attn_implementation",
        "| no flash-attn installed (TE falls back to unfused) | 39.2 s/it |",
    ],
)
def test_what_raises_or_advises_is_no_notice(text: str) -> None:
    """The same words in an exception, and in a person's sentence about a failure."""
    assert _first(text)[0] != NOTICE


@pytest.mark.parametrize(
    ("notice", "of"),
    [
        (
            (
                "Error running sage attention: Input tensors must be in dtype of torch.float16 or torch.bfloat16, "
                "using pytorch attention instead."
            ),
            "fp32-model-without-autocast",
        ),
        (
            (
                "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
                "    PyTorch 2.8.0+cu128 with CUDA 1208 (you have 2.9.1+cu130)\n    Python  3.12.3 (you have 3.12.10)"
            ),
            "xformers-torch-mismatch",
        ),
    ],
)
def test_what_ended_it_comes_before_what_was_caught_above(notice: str, of: str) -> None:
    """The notice leads where nothing else is said, and where the exception speaks of its package."""
    assert _first(notice)[0] == of

    end = (
        'Traceback (most recent call last):\n  File "/w/app.py", line 5, in <module>\n    x = torch.cat([x, c])\n'
        "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 2 but got size 1 for tensor "
        "number 1 in the list."
    )
    assert _first(f"{notice}\n{end}") == ("shapes-that-do-not-fit", Severity.INFO)


def test_the_words_of_what_was_caught_are_no_rivals_of_what_ended_it() -> None:
    text = (
        "Using sage attention\nError running sage attention: SM89 kernel is not available. make sure you GPUs with "
        "compute capability 8.9., using pytorch attention instead.\nTraceback (most recent call last):\n"
        "  File \"/c/nodes.py\", line 332, in encode\nAttributeError: 'VAE' object has no attribute 'vae_dtype'"
    )
    assert _first(text)[0] == "packages-of-two-times"


def test_what_follows_from_an_xformers_that_does_not_load_leaves_it_in_front() -> None:
    notice = (
        "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
        "    PyTorch 2.8.0+cu128 with CUDA 1208 (you have 2.9.1+cu130)"
    )
    end = (
        'Traceback (most recent call last):\n  File "/w/app.py", line 5, in <module>\n    pipe(prompt)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    )
    assert _first(f"{notice}\n{end}") == ("xformers-torch-mismatch", Severity.ERROR)


@pytest.mark.parametrize(
    ("failure", "family"),
    [
        ("KeyError: 'text'", "key-that-is-not-there"),
        ("accelerate: error: unrecognized arguments: --moon", "option-unknown-to-the-program"),
        ("'llamafactory-cli' is not recognized as an internal or external command,", "command-is-not-there"),
    ],
)
def test_what_failed_leads_before_a_harmless_notice(failure: str, family: str) -> None:
    """Nor does a wider family lead that knows fewer words of the notice, and a failure need not be an exception."""
    notice = "UserWarning: 1Torch was not compiled with flash attention. (Triggered internally at C:/b/sdp_utils.cpp)"

    assert _first(f"{notice}\n  out = scaled_dot_product_attention(q, k, v)\n{failure}")[0] == family
