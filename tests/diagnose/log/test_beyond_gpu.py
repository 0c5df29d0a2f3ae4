"""Tells what a message asks for at once where it is more than the whole GPU, or than any."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("1024.50 GiB.", True),
        ("320.00 GiB", True),
        ("90.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 3.00 GiB is free.", True),
        ("90.00 GiB.", False),
        ("20.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 3.00 GiB is free.", False),
        ("512.00 MiB.", False),
    ],
)
def test_more_than_a_gpu_has(asked: str, told: bool) -> None:
    log = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}"
    explained = explain_text(log, (*bundled(), *families()), FactSet())

    first = explained.diagnosis.findings[0].remedies[0].title

    assert first.startswith(f"{asked.split(' GiB')[0]} GiB at once is more than the whole GPU") is told
