"""The shelf of silent errors: which there are, how they are known, and how the form of a call reaches them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import FactSet
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.logs import Held
from attn_doctor.probe.packages import ptxas
from attn_doctor.probe.trace import call_facts
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.workflows.explain import as_if_partly, explained
from attn_doctor.workflows.subject import NOBODY

SILENT = [one for one in shelf.shelf(()) if one.silent]


def test_how_many() -> None:
    """Thirty at least; of some a run of ours was the witness."""
    assert len(SILENT) >= 30
    assert sum(one.silent == "seen" for one in SILENT) >= 15


@pytest.mark.parametrize("recipe", [one for one in SILENT if one.for_each == "call"], ids=lambda one: one.id)
def test_each_says_how_it_is_known(recipe: Recipe) -> None:
    """Seen: on what and with which versions. Reported: that nobody here saw it, and a thread that tells it."""
    assert recipe.known_problems.startswith("Seen " if recipe.silent == "seen" else "Reported")
    assert any("/issues/" in url or "/pull/" in url for _, url in recipe.references)
    if recipe.silent == "seen":
        assert re.search(r"torch 2\.\d+", recipe.known_problems)


def found(form: dict[str, Any], capability: str | None = "9.0", **versions: str) -> set[str]:
    notes = FactNotes()
    for name, version in versions.items():
        notes.known(name.replace("_", "."), version, "here")
    facts = FactSet([*notes.facts(), *call_facts.facts([form], how="here", capability=capability)])
    calls = [one for one in SILENT if one.for_each == "call"]
    return {one.id for one in judge(derive(facts), calls).findings}


def form(shape: list[int], keys: list[int] | None = None, **more: Any) -> dict[str, Any]:
    mask = more.pop("mask", None)
    shapes = {"q": shape, "k": keys or shape, "v": keys or shape} | ({"mask": mask} if mask else {})
    return {
        "name": "scaled_dot_product_attention",
        "library": "torch",
        "by_heads": True,
        "shapes": shapes,
        "dtypes": {role: "bool" if role == "mask" else "bfloat16" for role in shapes},
        "strides": {},
        "flags": {"causal": False, "documents": None},
        "autocast": None,
        "trains": False,
        "backend": None,
        "place": "model.py:3",
        **more,
    }


def test_causal_with_fewer_queries() -> None:
    """A step of decoding with is_causal sees the first key alone; a square call and an aligned mask are sound."""
    causal = {"causal": True, "documents": None}

    assert found(form([1, 4, 1, 64], [1, 4, 77, 64], flags=causal)) == {"sdpa-causal-aligned-to-the-start"}
    assert found(form([1, 4, 77, 64], flags=causal)) == set()
    assert found(form([1, 4, 1, 64], [1, 4, 77, 64])) == set()


def test_expanded_keys_of_one_release() -> None:
    """stride 0, 65 keys, a mask, memory-efficient, torch 2.12: each of them is needed."""
    strides = {"q": None, "k": [4160, 0, 64, 1], "v": [4160, 0, 64, 1]}
    call = form([1, 4, 65, 64], mask=[1, 1, 65, 65], strides=strides, backend="efficient")

    assert found(call, torch_version="2.12.1") == {"sdpa-efficient-expanded-keys"}
    assert found({**call, "strides": {}}, torch_version="2.12.1") == set()
    assert found({**call, "backend": "cudnn"}, torch_version="2.12.1") == {"sdpa-cudnn-rows-without-key"}


@pytest.mark.parametrize(
    ("length", "mask", "strides", "cost"),
    [
        (16384, [1, 1, 16384, 16384], None, "256 MiB of mask, beside 32.0 MiB of q, k, v and output"),
        (16384, [1, 1, 1, 16384], None, None),
        (16384, [4, 4, 16384, 16384], [0, 0, 0, 1], None),  # repeated in place: a row of keys
        (2048, [1, 1, 2048, 2048], None, None),
        (16384, None, None, None),
    ],
)
def test_what_a_mask_costs(length: int, mask: list[int] | None, strides: list[int] | None, cost: str | None) -> None:
    """Its own bytes, where they are many and more than those of all else."""
    call = form([1, 4, length, 64], mask=mask, strides={"mask": strides} if strides else {})

    assert FactSet(call_facts.facts([call], how="here", capability="9.0")).value("call.0.mask_cost") == cost


@pytest.mark.parametrize(
    ("strides", "words"),
    [
        (None, "contiguous"),
        ([512, 128, 16, 1], "contiguous"),
        ([1536, 16, 192, 1], "permuted"),
        ([512, 0, 16, 1], "expanded"),
        ([512, 128, 1, 8], "columns"),
        ([7, 128, 16, 1], "contiguous"),  # the batch has one row: its stride means nothing
    ],
)
def test_layouts(strides: list[int] | None, words: str) -> None:
    """What the strides of (1, 4, 8, 16) say."""
    assert call_facts._layout([1, 4, 8, 16], strides) == words


def test_packed_lengths() -> None:
    """Operands of a packed call are (tokens, heads, head_dim)."""
    packed = form([300, 4, 64], by_heads=False, flags={"causal": True, "documents": 3}, name="flash_attn_varlen_func")
    facts = FactSet(call_facts.facts([packed], how="here", capability=None))

    assert [facts.value(f"call.0.{name}") for name in ("q_length", "kv_length", "packed", "head_dim")] == [
        300, 300, True, 64,
    ]  # fmt: skip
    assert facts.value("call.0.batch") is None


def test_ptxas_is_read_and_not_run(tmp_path: Path) -> None:
    """The version stands in the file; TRITON_PTXAS_PATH wins; what cannot be read is unknown, not absent."""
    own = tmp_path / "triton" / "backends" / "nvidia" / "bin" / "ptxas"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"\0" * 5000 + b"Cuda compilation tools, release 12.8, V12.8.93\nBuild" + b"\0" * 50)
    other = tmp_path / "ptxas"
    other.write_bytes(b"Cuda compilation tools, release 13.1, V13.1.80\n")
    modules = {"triton": tmp_path / "triton"}

    def version(environment: dict[str, str], *, quick: bool = False) -> object:
        return FactSet(ptxas.probe(modules, environment, quick=quick)).value("triton.ptxas")

    assert version({}) == "12.8.93"
    assert version({"TRITON_PTXAS_PATH": str(other)}) == "13.1.80"
    assert version({"TRITON_PTXAS_PATH": str(tmp_path / "none")}) is None
    assert version({}, quick=True) is None
    own.write_bytes(b"no version")
    assert version({}) is None


def test_explain_asks_the_calls_that_are_assumed() -> None:
    """A log never tells a silent error: the form of the call does, with the versions that the log names."""
    log = Held("train.log", b"torch version: 2.12.1+cu130\nstep 100 loss nan\n")
    words = "backend=efficient dtype=bfloat16 mask_dtype=bool kv_over_tile=1 k_layout=expanded"
    called = as_if_partly(FactSet(), None, tuple(f"call.{word}" for word in words.split()))

    def found(base: FactSet) -> set[str]:
        return {one.id for one in explained((log,), tuple(SILENT), base, NOBODY).diagnosis.findings}

    assert found(as_if_partly(called, None, ("torch.version=2.12.1",))) == {"sdpa-efficient-expanded-keys"}
    assert found(as_if_partly(called, None, ("torch.version=2.13.0",))) == set()
    assert found(FactSet()) == set()


def test_every_form_of_a_call_names_its_trial() -> None:
    """`check --kernels` finds a wrong trial; the silent error of that form stands above it."""
    calls = [one for one in SILENT if one.for_each == "call"]
    lacking = {one.id for one in calls if not any("{call.trial}" in entry for entry in one.explains)}

    # No trial makes such a call: what they ask for (a sliced block mask, SageAttention) is none of `--kernels`.
    assert lacking == {"flex-sliced-block-mask", "sage-hopper-artifacts", "sage-under-cuda-graph"}
