"""Which release of transformers gave a model class its FlashAttention."""

from __future__ import annotations

import pytest

from attn_doctor.recipes.data.flash_since import flash_since


@pytest.mark.parametrize(
    ("model", "installed", "since"),
    [
        ("SiglipVisionModel", None, "4.43"),
        ("SiglipVisionModel", "4.41.2", "4.43"),
        ("SiglipVisionModel", "4.50.0", None),  # a class of the checkpoint's own
        ("Siglip2VisionModel", None, None),
        ("ViTMAEModel", None, "4.50"),
        ("InternLM2ForCausalLM", None, None),
        ("CLIPModel", "main", None),
    ],
)
def test_the_family_tells(model: str, installed: str | None, since: str | None) -> None:
    assert flash_since(model, installed) == since
