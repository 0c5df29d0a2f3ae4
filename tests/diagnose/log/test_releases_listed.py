"""Where the release that pip was asked for stands beside those that it lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log.releases_listed import beside_those_listed

SAID = "Could not find a version that satisfies the requirement {asked} (from versions: {listed})"


@pytest.mark.parametrize(
    ("asked", "listed", "place", "near"),
    [
        ("onnxruntime==1.16.3", "1.17.0, 1.17.1, 1.18.0", "older", "1.17.0"),
        ('onnxruntime==1.16.3; extra == "gpu" (from moon[gpu])', "1.17.0, 1.18.0", "older", "1.17.0"),
        ("xformers[all]<=0.0.20", "0.0.28.post2, 0.0.29", "older", "0.0.28.post2"),
        ("transformers==4.50.0", "4.0.0, 4.9.1, 4.46.3", "newer", "4.46.3"),  # compared as releases, not as text
        ("transformers>=4.50", "4.0.0, 4.46.3", "newer", "4.46.3"),
        ("moon>=2.0", "1.20.0, 2.0.0rc1", "newer", "1.20.0"),  # pip takes no pre-release unasked
    ],
)
def test_a_release_that_is_not_listed(asked: str, listed: str, place: str, near: str) -> None:
    told = dict(beside_those_listed(SAID.format(asked=asked, listed=listed)))

    assert (told["release_place"], told["release_near"]) == (place, near)


@pytest.mark.parametrize(
    "message",
    [
        SAID.format(asked="torch", listed="1.0, 2.0"),  # no release was asked for
        SAID.format(asked="torch==1.5", listed="1.0, 2.0"),  # between: never published
        SAID.format(asked="torch==1.5", listed="none"),
        SAID.format(asked="torch>=0.5", listed="1.0"),
        "Could not find a version that satisfies the requirement torch==3.0 (from versions: 1.0, 2.0",  # cut
        SAID.format(asked="torchvision==0.15.2", listed="0.22.0+cu128, 0.23.0+cu128"),  # an index of one CUDA's builds
        SAID.format(asked="moon==2.0", listed="1.0, 2.0rc1, 2.0"),
    ],
)
def test_nothing_is_told_of_others(message: str) -> None:
    assert dict(beside_those_listed(message)) == {}


@pytest.mark.parametrize(
    ("asked", "listed", "instead"),
    [
        ("moon-conv==1.2.0", "1.1.1, 1.2.0.post1, 1.2.0.post2, 1.2.1", "1.2.0.post2"),  # published anew
        ("moon==1.2.0", "1.2.0.post1, 1.3.0", "1.2.0.post1"),  # no older Python is asked for
        ("moon==1.2.3", "1.2.1, 1.2.5, 1.3.0", "1.2.5"),
        ("moon==1.2.9", "1.2.1, 1.2.5, 1.3.0", "1.2.5"),
        ("moon==1.4.0", "1.2.1, 1.5.0", None),  # of another minor release none is near
        ("moon>=1.2.0", "1.1.0, 1.2.0.post1", None),
        ("moon==1.2.3+torch250cu124", "1.2.1, 1.2.3, 1.3.0", None),
    ],
)
def test_a_release_that_goes_in_its_place(asked: str, listed: str, instead: str | None) -> None:
    told = dict(beside_those_listed(SAID.format(asked=asked, listed=listed)))

    assert told.get("release_instead") == instead


@given(st.lists(st.integers(1, 99), min_size=1, max_size=8), st.integers(1, 99))
def test_what_is_told_is_outside_of_the_list(minors: list[int], asked: int) -> None:
    listed = ", ".join(f"1.{one}" for one in minors)
    told = dict(beside_those_listed(SAID.format(asked=f"moon==1.{asked}", listed=listed)))

    expected = "older" if asked < min(minors) else "newer" if asked > max(minors) else None
    assert told.get("release_place") == expected
