"""What the doctor knows, for programs."""

from __future__ import annotations

import json

import pytest

from attn_doctor.recipes import shelf
from tests.conftest import Doctor


def test_all_of_them(doctor: Doctor) -> None:
    """Each bundled recipe once, by id, with what a page about it would need."""
    run = doctor("recipes", "list", "--json")
    told = json.loads(run.stdout)

    assert (run.status, told["schema"]) == (0, "attn-doctor/recipes/v1")
    assert [one["id"] for one in told["recipes"]] == [recipe.id for recipe in shelf.shelf()]
    exact = [one for one in told["recipes"] if one["family"] is None]
    assert {one["id"] for one in exact} == {recipe.id for recipe in shelf.bundled()}
    assert all(one["references"] for one in exact)
    assert all(one["why"] and len(one["sha256"]) == 64 for one in told["recipes"])


@pytest.mark.parametrize("name", ["x-transformers-rotary-fp32", "torch-cpu-build"])
def test_one_of_them(doctor: Doctor, name: str) -> None:
    """The same as in the list."""
    (one,) = json.loads(doctor("recipes", "show", name, "--json").stdout)["recipes"]

    assert one in json.loads(doctor("recipes", "list", "--json").stdout)["recipes"]
    assert one["id"] == name
    assert all(remedy["safety"] in ("safe", "unsafe", "display-only") for remedy in one["remedies"])
