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
