"""Which call made an operand float32, and where the float32 was born."""

from pathlib import Path

import pytest

from tests.patient.trace.conftest import MODELS, culprit, operand


def line_of(comment):
    """The line of models.py that carries this comment."""
    lines = Path(MODELS).read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.rstrip().endswith("# " + comment))


def births(promotion):
    return [(b["kind"], b["name"] or b["op"]) for b in promotion["born"]]


def test_normalisation_and_scale(traced):
    """Under fp16 autocast both promoters of q are named, the second as latent, k's normalisation too, and v is not."""
    answer = traced("normalised", autocast="float16")

    assert answer["verdict"] == "raises"
    found = {(p["line"], p["kind"], p["latent"]): p for p in answer["promotions"]}
    assert set(found) == {
        (line_of("normalises q"), "autocast policy", False),
        (line_of("normalises k"), "autocast policy", False),
        (line_of("scales q"), "mixed operands", True),
    }
    assert {p["roles"][0] for p in answer["promotions"]} == {"q", "k"}
    assert not operand(answer, "v")["blamed"]
    scale = found[line_of("scales q"), "mixed operands", True]
    assert births(scale) == [("parameter", "0.scale")]
    assert answer["counterfactual"]["clean_after"] == 2


def test_half_a_cure(traced):
    """With only the scale cast the verdict stays broken, and nothing latent is left."""
    answer = traced("normalised", autocast="float16", cast="scale")

    assert answer["verdict"] == "raises"
    assert {p["line"] for p in answer["promotions"]} == {line_of("normalises q"), line_of("normalises k")}
    assert not any(p["latent"] for p in answer["promotions"])


def test_whole_cure(traced):
    """With both cast the verdict is clean in every layer, folded into one entry."""
    answer = traced("normalised", autocast="float16", cast="scale and norm")

    assert (answer["verdict"], answer["promotions"]) == ("clean", [])
    assert [call["calls"] for call in answer["attention"]] == [3]
    assert answer["attention"][0]["modules"] == ["0", "1", "2"]


def test_cpu_autocast_would_have_said_otherwise(traced):
    """Under plain CPU autocast the normalisation keeps half precision, so the half-mended model would pass."""
    kept = traced.run(
        "import torch\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n"
        "    q = torch.nn.functional.normalize(torch.randn(2, 4).half(), dim=-1)\n"
        "answer = str(q.dtype)"
    )

    assert kept == "torch.float16"
    assert culprit(traced("normalised", autocast="float16", cast="scale"), "q")["dtype_out"] == "float32"


def test_parameter(traced):
    """A float32 parameter times a half operand: the line, both operands' dtypes and the parameter's name."""
    answer = traced("gained")
    found = culprit(answer, "q")

    assert answer["verdict"] == "raises"
    assert (found["line"], found["kind"]) == (line_of("multiplies q"), "mixed operands")
    assert [(o["dtype"], o["name"]) for o in found["operands"]] == [("bfloat16", None), ("float32", "gain")]
    assert "query.dtype: float key.dtype: c10::BFloat16" in answer["attention"][0]["error"]["message"]


def test_concatenation_is_a_consequence(traced):
    """What is named is the product that promoted, not the cat that spread it."""
    found = culprit(traced("buffered"), "q")

    assert found["line"] == line_of("multiplies a part of q")
    assert (found["call"], births(found)) == ("Tensor.mul", [("buffer", "table")])


def test_explicit_cast(traced):
    """A .float() in the model's own code is called a cast, and a kernel without a contract takes it silently."""
    answer = traced("cast_by_hand")

    assert answer["verdict"] == "silently mixed"
    assert culprit(answer, "q")["kind"] == "explicit cast"


def test_dtype_argument(traced):
    """softmax(dtype=torch.float32) was asked for in words."""
    assert culprit(traced("asked_for"), "k")["kind"] == "dtype argument"


def test_promote_list(traced):
    """addcmul under autocast widens to its widest operand: one call, blamed on the parameter."""
    answer = traced("promoted_by_list", autocast="float16")
    found = culprit(answer, "k")

    assert answer["verdict"] == "silently mixed"
    assert (found["call"], births(found)) == ("Tensor.addcmul", [("parameter", "gain")])


def test_zero_dimensional_operands_promote_nothing(traced):
    """A float32 tensor without dimensions, like a Python number, leaves a half operand as it is."""
    assert traced("zero_dimensional")["verdict"] == "clean"


def test_cache(traced):
    """Filling a float32 cache does not make the cache's dtype k's doing: it was born where it was allocated."""
    answer = traced("cached")

    assert answer["verdict"] == "raises"
    assert culprit(answer, "k") is None
    assert [b["kind"] for b in operand(answer, "k")["born"]] == ["made before the trace"]


def test_everything_float32(traced):
    """A float32 model without autocast has no promoting call: its weights are where float32 was born."""
    answer = traced("single")
    q = operand(answer, "q")

    assert (answer["verdict"], answer["promotions"]) == ("raises", [])
    assert q["all_along"]
    assert q["born"][0]["name"] == "qkv.weight"


def test_repaired(traced):
    """SDPA stands on autocast's list: what was promoted is cast back, and only that is said."""
    answer = traced("gained", autocast="bfloat16")

    assert answer["verdict"] == "promoted then repaired"
    assert answer["attention"][0]["error"] is None
    assert culprit(answer, "q")["line"] == line_of("multiplies q")


def test_path(traced):
    """The path of an operand leads from its projection to the kernel, each step with its line and dtypes."""
    path = operand(traced("gained"), "q")["path"]

    assert path[0]["call"] == "F.linear"
    assert [s["call"] for s in path[-2:]] == ["Tensor.unbind", "Tensor.mul"]
    assert [s["changed"] for s in path] == [False] * (len(path) - 1) + [True]
    assert all(s["file"] == str(MODELS) and s["source"] for s in path)


@pytest.mark.parametrize("rules", ["cpu", "fake"])
def test_fake_and_real_agree(traced, rules):
    """Fake tensors and real ones give one verdict and one set of culprits, backward pass included."""
    answer = traced("normalised", autocast="float16", rules=rules, backward=True)

    assert answer["verdict"] == "raises"
    assert len(answer["promotions"]) == 3
    assert answer["counterfactual"]["clean_after"] == 2
    assert answer["rules"]["fake"] is (rules == "fake")
