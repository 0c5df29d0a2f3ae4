"""A program of which the log says that a repository brings its own copy is not updated away from it."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf

CALL = """
  File "{folder}/LLaMA-Factory/src/llamafactory/model/patcher.py", line 89, in forward
    attn = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
RuntimeError: The expanded size of the tensor (4096) must match the existing size (2048) at non-singleton dimension 3.
"""
KEPT = {
    "a sentence": ("/home/u", "I installed it as this repo recommended."),
    "a fork": ("/home/u", "It is the authors' work with their own fork of LLaMA-Factory."),
    "a folder": ("/home/u/grounder/third_party", "Training stops:"),
}


def _first_fixes(text: str) -> list[str]:
    found = explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=False).diagnosis.findings
    return [one.title for one in found[0].remedies]


@pytest.mark.parametrize(("folder", "said"), KEPT.values(), ids=KEPT)
def test_the_repositorys_copy_stays(folder: str, said: str) -> None:
    assert not any(
        title.startswith("Update LLaMA-Factory") for title in _first_fixes(said + CALL.format(folder=folder))
    )


def test_without_such_words_the_program_is_updated() -> None:
    assert any(title.startswith("Update LLaMA-Factory") for title in _first_fixes(CALL.format(folder="/home/u")))
