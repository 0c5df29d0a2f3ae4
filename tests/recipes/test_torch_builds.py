"""Which CUDA builds a release of torch has, and what is near one that it never had."""

from attn_doctor.recipes.data.torch_builds import builds_of, is_made, nearest_with
from attn_doctor.recipes.data.torch_releases import builds, releases


def test_a_release_has_what_its_index_has() -> None:
    assert builds_of("2.6.0") == ("cu118", "cu124", "cu126")
    assert builds_of("1.9.1") == ("cu102", "cu111")
    assert builds_of("9.9.9") == ()
    for release in releases():
        assert {one.name for one in builds(release)} <= set(builds_of(release))


def test_what_the_table_does_not_say_is_not_denied() -> None:
    assert is_made("2.1.0", "cu126") is False
    assert is_made("2.1.0", "cu121") is True
    assert is_made("2.9.0", "cu118") is False  # an older CUDA never came back
    assert is_made("2.12.0", "cu132") is None  # its authors may call it experimental
    assert is_made("9.9.9", "cu118") is None
    assert is_made("2.1.0", "cpu") is None


def test_the_nearest_release_with_a_build_is_before_it_if_any_is() -> None:
    assert nearest_with("2.9.0", "cu118") == "2.7.1"
    assert nearest_with("2.1.0", "cu126") == "2.6.0"
    assert nearest_with("2.1.0", "cu999") is None
