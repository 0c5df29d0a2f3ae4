"""recipes/packages.toml: each row can be read, and says where it is from."""

from __future__ import annotations

import sys

import pytest
from packaging.specifiers import SpecifierSet

from attn_doctor.recipes.data import stack_packages, torch_releases, wheels
from attn_doctor.recipes.data.torch_pythons import pythons
from attn_doctor.recipes.kept import bundled_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROWS = tomllib.loads((bundled_folder() / stack_packages.TABLE).read_text())["package"]
BOUND = {"torch-minor", "stable-abi", "abi-free", "python"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_each_row(row: dict[str, object]) -> None:
    """Its words are those that are known, and it has a source."""
    read = stack_packages.stack_package(str(row["name"]))

    assert read is not None
    assert read.bound in BOUND
    assert read.registry in {"wheels", "source", "nothing"}
    assert read.sources
    assert all(one.startswith("https://") for one in read.sources)
    assert read.registry != "source" or read.build
    assert len(read.ranges(SpecifierSet())) == len(read.gpus)


def test_a_release_has_one_range() -> None:
    """xformers lost the code for GPUs before 7.5 with 0.0.31."""
    row = stack_packages.stack_package("xformers")

    assert row is not None
    assert [one.at_least for one in row.ranges(SpecifierSet("==0.0.30"))] == ["6.0"]
    assert [one.at_least for one in row.ranges(SpecifierSet("==0.0.35"))] == ["7.5"]
    assert (row.bound_at("0.0.30"), row.bound_at("0.0.35")) == ("torch-minor", "stable-abi")


def test_tables_agree() -> None:
    """What has published wheels is published as source elsewhere; a range of Pythons is one."""
    for name in wheels.TABLES:
        row = stack_packages.stack_package(name)
        assert row is not None
        assert row.registry == "source"
    told = [pythons(one) for one in torch_releases.releases()]
    assert all(one is None or len(one) == 2 for one in told)


@pytest.mark.parametrize(("torch", "cuda", "is_new"), [("2.5.1", "12.4", False), ("2.6.0", "12.4", False),
                                                       ("2.6.0", "12.6", True), ("2.7.0", "12.6", True)])  # fmt: skip
def test_the_abi_of_builds(torch: str, cuda: str, is_new: bool) -> None:
    """torch 2.6 has both."""
    assert torch_releases.has_new_abi(torch_releases.Build(torch=torch, cuda=cuda)) is is_new
