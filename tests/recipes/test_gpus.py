"""GPUs by name: as people write them, and what is said of a name that is none."""

from __future__ import annotations

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.recipes.data.gpu_table import named_gpu


@pytest.mark.parametrize("name", ["sm_90", "sm90", "SM_90a", "compute_90", "9.0", "h100", "NVIDIA H100 80GB HBM3"])
def test_one_compute_capability_by_many_names(name: str) -> None:
    """All of them are a GPU of 9.0."""
    assert named_gpu(name).compute_capability == "9.0"


@pytest.mark.parametrize(
    ("name", "says", "not_said"),
    [
        ("gfx803", "no other maker's", "Did you mean"),
        ("arc a770", "no other maker's", "Did you mean"),
        ("gtx980", "such as h100", "rtx5080"),
        ("90", "sm_90", "5090"),
        ("h10", "Did you mean h100", "other maker"),
        ("rtx490", "Did you mean", "other maker"),
    ],
)
def test_a_name_that_is_none(name: str, says: str, not_said: str) -> None:
    """Near names are proposed, another maker's or another decade's are not."""
    with pytest.raises(BadInput) as refused:
        named_gpu(name)

    assert says in refused.value.hint
    assert not_said not in refused.value.hint


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("p100", "6.0"),
        ("P40", "6.1"),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
        ("gtx1070", "6.1"),
        ("6.1", "6.1"),
        ("Quadro RTX 6000", "7.5"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("RTX PRO 6000", "12.0"),
    ],
)
def test_older_and_similar_names(name: str, capability: str) -> None:
    """Pascal can be named, and three generations of one number are told apart."""
    assert named_gpu(name).compute_capability == capability


@pytest.mark.parametrize("name", ["rtx6000", "RTX 6000", "nvidia rtx-6000"])
def test_a_name_of_several_generations_is_asked_about(name: str) -> None:
    """Turing, Ada or Blackwell: nobody guesses."""
    with pytest.raises(BadInput) as refused:
        named_gpu(name)

    assert "several generations" in refused.value.what
    for each in ("quadrortx6000 (7.5)", "rtx6000ada (8.9)", "rtxpro6000 (12.0)"):
        assert each in refused.value.hint


@pytest.mark.parametrize("name", ["mi300x", "AMD Instinct MI300X", "MI250X", "gfx942", "Radeon RX 7900 XTX"])
def test_an_amd_gpu_is_known_and_told_what_is_judged(name: str) -> None:
    """It has no compute capability, and no near name of NVIDIA's is proposed."""
    with pytest.raises(BadInput) as refused:
        named_gpu(name)

    assert "AMD's (gfx" in refused.value.what
    assert "packages" in refused.value.hint
    assert "Did you mean" not in refused.value.hint


def test_every_name_of_several_is_a_product() -> None:
    """Those that are proposed can be named."""
    import tomllib

    from attn_doctor.recipes.kept import bundled_folder

    table = tomllib.loads((bundled_folder() / "gpus.toml").read_text())
    for item in table["several"]:
        assert [named_gpu(name).name for name in item["names"]] == item["names"]
