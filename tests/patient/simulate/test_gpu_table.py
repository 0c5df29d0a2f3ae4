"""recipes/gpus.toml, its look-up, and the value that patient/ makes of it."""

import sys

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.patient.simulate.cuda import simulated_gpu
from attn_doctor.recipes.data.gpu_table import named_gpu, plain_name
from attn_doctor.recipes.kept import bundled_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = tomllib.loads((bundled_folder() / "gpus.toml").read_text())


@pytest.mark.parametrize(
    ("name", "capability", "shared"),
    [
        ("h100", "9.0", 232448),
        ("H200", "9.0", 232448),
        ("NVIDIA H100 80GB HBM3", "9.0", 232448),
        ("h20", "9.0", 232448),
        ("h800", "9.0", 232448),
        ("gh200", "9.0", 232448),
        ("a100", "8.0", 166912),
        ("NVIDIA A100-SXM4-40GB", "8.0", 166912),
        ("a800", "8.0", 166912),
        ("a30", "8.0", 166912),
        ("a10", "8.6", 101376),
        ("A10G", "8.6", 101376),
        ("a40", "8.6", 101376),
        ("RTX A6000", "8.6", 101376),
        ("l4", "8.9", 101376),
        ("l40", "8.9", 101376),
        ("l40s", "8.9", 101376),
        ("b200", "10.0", 232448),
        ("gb200", "10.0", 232448),
        ("b300", "10.3", 232448),
        ("gb300", "10.3", 232448),
        ("rtx3090", "8.6", 101376),
        ("NVIDIA GeForce RTX 4090", "8.9", 101376),
        ("rtx5090", "12.0", 101376),
        ("RTX 2080 Ti", "7.5", 65536),
        ("Tesla T4", "7.5", 65536),
        ("Tesla V100-SXM2-32GB", "7.0", 98304),
        ("orin", "8.7", 166912),
        ("thor", "11.0", 232448),
        ("gb10", "12.1", 101376),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 101376),
        ("sm_90", "9.0", 232448),
        ("9.0", "9.0", 232448),
        ("sm_120", "12.0", 101376),
        ("sm_103a", "10.3", 232448),
    ],
)
def test_names(name, capability, shared):
    """A GPU is found by the names that people and drivers give it, and by its compute capability."""
    found = named_gpu(name)

    assert (capability, shared) == (found.compute_capability, found.shared_memory_bytes)


@pytest.mark.parametrize("name", ["mi300x", "sm_52", "4090 ti", "rtx 4090 laptop gpu", "", "gpu", "h1000"])
def test_unknown_names(name):
    """What is not in the table is refused: a guess would be judged as if it were known."""
    with pytest.raises(BadInput):
        named_gpu(name)


def test_no_name_is_given_twice():
    """No two products share a name, as names are compared."""
    names = [n for gpu in TABLE["gpu"] for n in {plain_name(x) for x in (gpu["name"], *gpu["aliases"])}]

    assert len(set(names)) == len(names)


def test_products_follow_their_architecture():
    """A product has the shared memory of its compute capability, and every entry names a source."""
    limits = {a["compute_capability"]: a["shared_memory_bytes"] for a in TABLE["architecture"]}

    for gpu in TABLE["gpu"]:
        assert limits[gpu["compute_capability"]] == gpu["shared_memory_bytes"], gpu["name"]
    for entry in TABLE["gpu"] + TABLE["architecture"] + TABLE["driver"]:
        assert entry["source"].startswith("https://")


def test_inside_knows_the_same_limits():
    """The limits that patient/ falls back on are the table's."""
    for architecture in TABLE["architecture"]:
        gpu = simulated_gpu.from_request({"compute_capability": architecture["compute_capability"]})

        assert architecture["shared_memory_bytes"] == gpu.shared_memory
        assert architecture["threads_per_multiprocessor"] == gpu.threads_per_multiprocessor


def test_an_unknown_limit_is_not_made_up():
    """A capability of which no limit is known needs one in the request."""
    with pytest.raises(ValueError, match="not known"):
        simulated_gpu.from_request({"compute_capability": "13.0"})
    assert simulated_gpu.from_request({"compute_capability": "13.0", "shared_memory_bytes": 1}).shared_memory == 1


@pytest.mark.parametrize("text", ["9.0", "sm_90", "90", "90a", 90, (9, 0), "sm90"])
def test_capability_forms(text):
    """One compute capability, however it is written."""
    assert simulated_gpu.capability(text) == (9, 0)


@pytest.mark.parametrize("text", ["", "nine", "9", "9.0.1", None])
def test_not_a_capability(text):
    """What is no compute capability raises, and is not read as another one."""
    with pytest.raises(ValueError, match="not a compute capability"):
        simulated_gpu.capability(text)
