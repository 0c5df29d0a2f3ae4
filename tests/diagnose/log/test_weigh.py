"""Matches of one message beside each other."""

from __future__ import annotations

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf


def test_two_that_outrank_each_other_do_not_both_go() -> None:
    """Each of two recipes names the other as the lesser: one of them answers."""
    text = "AttributeError: 'Qwen2_5_VLVisionAttention' object has no attribute 'is_causal'"
    found = explain_text(text, shelf.shelf(), FactSet(())).diagnosis.findings

    assert [one.id for one in found] == ["model-code-of-older-transformers"]


def test_what_a_person_typed_is_no_message_of_what_it_does() -> None:
    """A shell repeats the command at its prompt; pip's own words follow."""
    typed = "Installing an engine for torch fails:\n(venv) one@node:~/w$ pip install vllm\nCollecting vllm"
    told = explain_text(typed, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=True).diagnosis.findings
    assert told == ()


def test_what_a_program_printed_comes_before_what_a_person_tells_of_it() -> None:
    """Memory ran out in another run; this one ended by what the program says."""
    text = (
        "I first trained with DeepSpeed zero2 and got CUDA out of memory. Then I tried zero3:\n"
        "AttributeError: 'DeepSpeedDataLoader' object has no attribute 'sampler'"
    )
    told = explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=True).diagnosis.findings
    assert [one.id for one in told] == ["attribute-behind-a-wrapper"]


def test_a_harmless_notice_does_not_lead_where_a_line_tells_of_a_trouble() -> None:
    """xformers goes on without Triton; bitsandbytes says above it that it has no library for the GPU."""
    text = (
        "Could not find the bitsandbytes CUDA binary at WindowsPath('C:/e/bitsandbytes/libbitsandbytes_cuda129.dll')\n"
        "The installed version of bitsandbytes was compiled without GPU support.\n"
        "A matching Triton is not available, some optimizations will not be enabled\n"
    )
    told = explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=True).diagnosis.findings
    assert [one.id for one in told][:2] == ["native-library-of-bitsandbytes", "triton-missing"]
