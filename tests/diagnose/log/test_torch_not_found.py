"""What an installer that does not find a torch says: a build that never was, or a Python that has no wheel of it."""

from attn_doctor.diagnose.log.torch_not_found import torch_not_found

_NO = "ERROR: Could not find a version that satisfies the requirement "


def test_a_build_that_never_was_is_no_matter_of_the_python() -> None:
    told = dict(torch_not_found(f"{_NO}torch==2.9.0+cu118 (from versions: 2.6.0+cu118, 2.7.1+cu118)"))
    assert told == {
        "builds_of_torch": "cu126, cu128, cu130",
        "build_to_take": "cu128",
        "build_for_older_gpus": "cu126",
        "torch_not_made": "2.9.0",
        "build_not_made": "cu118",
        "torch_with_build": "2.7.1",
    }


def test_an_index_of_one_build_tells_which_was_asked() -> None:
    told = dict(torch_not_found(f"{_NO}torch==2.1.0 (from versions: 2.6.0+cu126, 2.7.0+cu126)"))
    assert (told["build_not_made"], told["build_to_take"]) == ("cu126", "cu121")
    assert not dict(torch_not_found(f"{_NO}torch==2.1.0 (from versions: 2.6.0+cu126, 2.7.0+cpu)"))


def test_a_build_that_is_made_is_looked_for_in_the_python() -> None:
    told = dict(torch_not_found(f"{_NO}torch==2.1.0+cu121 (from versions: 2.2.0+cu121, 2.3.0+cu121)"))
    assert told == {"torch_asked": "2.1.0", "pythons_of_torch": "3.8 to 3.11"}
    assert not dict(torch_not_found(f"{_NO}torch==9.9.9 (from versions: 2.2.0)"))
