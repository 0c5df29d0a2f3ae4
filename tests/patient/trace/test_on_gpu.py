"""On a real GPU, with its real kernels: the verdicts that CUDA's rules on CPU tensors foretell, case by case.

    pytest -m gpu --noconftest tests/patient/trace/test_on_gpu.py
    python -m tests.patient.trace.test_on_gpu

The second prints the agreement as a table. Both need torch, the first pytest too, and nothing else of the tests'.
"""

import sys
from pathlib import Path

import pytest

from tests.patient.trace.conftest import MODELS, Tracer, culprit

PRODUCTS = Path(__file__).parent / "products.py"
OPS = ("linear", "matmul", "einsum", "conv1d", "cdist", "cross", "addmm")
CELLS = [(op, *dtypes) for op in OPS for dtypes in (("float16", "float32"), ("float32", "float16"))]

MODEL_CASES = [
    ("plain", {}),
    ("plain", {"dtype": "bfloat16", "backward": True}),
    ("plain", {"autocast": "float16", "backward": True}),
    ("gained", {}),
    ("gained", {"half": "float16"}),
    ("gained", {"autocast": "bfloat16"}),
    ("buffered", {}),
    ("zero_dimensional", {}),
    ("cast_by_hand", {}),
    ("asked_for", {}),
    ("promoted_by_list", {"autocast": "float16"}),
    ("cached", {}),
    ("masked", {"kind": "float32"}),
    ("masked", {"kind": "float16"}),
    ("masked", {"kind": "bool"}),
    ("asserting", {}),
    ("multi_head", {"autocast": "float16"}),
    ("flex", {}),
    ("custom_op", {}),
    ("mismatched_linear", {}),
    ("without_attention", {}),
    # flash_attn, which is stood in for on both sides where it is not installed
    ("normalised", {"autocast": "float16"}),
    ("normalised", {"autocast": "float16", "cast": "scale"}),
    ("normalised", {"autocast": "float16", "cast": "norm"}),
    ("normalised", {"autocast": "float16", "cast": "scale norm"}),
    ("single", {}),
    ("packed", {"dtype": "bfloat16"}),
    ("variable_length", {}),
    ("with_cache", {}),
    ("with_cache", {"cache": "float16"}),
]
"""Factories of models.py, and what is asked of them."""

PRODUCT_CASES = [
    ("product", {"file": PRODUCTS, "op": op, "first": first, "second": second, "autocast": autocast})
    for op, first, second in CELLS
    for autocast in (None, "float16")
]
CASES = MODEL_CASES + PRODUCT_CASES


def words(case):
    factory, options = case
    return " ".join([factory, *(f"{k}={v}" for k, v in options.items() if v is not None and k != "file")])


def seen(answer):
    """What must be alike: verdict, attention calls with the dtypes they were handed, culprits' lines, and the error."""
    return {
        "verdict": answer["verdict"],
        "error": answer["error"] and answer["error"]["kind"],
        "calls": [
            (call["name"], call["verdict"], call["calls"], *(call["operands"][role]["dtype"] for role in "qkv"))
            for call in answer["attention"]
            if not call["backward"]
        ],
        "culprits": sorted((one["line"], one["kind"], one["dtype_out"]) for one in answer["promotions"]),
    }


def compare(tracer, case):
    """(what the GPU did, what was foretold for it)."""
    factory, options = case
    real = tracer(factory, rules="gpu", **options)
    assert (real["rules"] or {}).get("name") == "gpu", real["error"]
    gpu = {"compute_capability": real["rules"]["gpu"]["compute_capability"]}
    return real, tracer(factory, rules="cpu", gpu=gpu, **options)


@pytest.fixture(scope="module")
def on_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    tracer = Tracer()
    yield tracer
    tracer.close()


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=words)
def test_prediction_holds(on_gpu, case):
    """Verdict, calls, dtypes, culprits and kind of error are what was said without a GPU."""
    real, foretold = compare(on_gpu, case)

    assert seen(real) == seen(foretold)


@pytest.mark.gpu
@pytest.mark.parametrize("case", [("gained", {}), ("gained", {"autocast": "bfloat16"}), ("buffered", {})], ids=words)
def test_error_text(on_gpu, case):
    """The kernel's own words, too, and the line that is blamed."""
    real, foretold = compare(on_gpu, case)

    assert [c["error"] and c["error"]["message"] for c in real["attention"]] == [
        c["error"] and c["error"]["message"] for c in foretold["attention"]
    ]
    assert culprit(real, "q")["line"] == culprit(foretold, "q")["line"]


def main():
    """Prints one line a case and the agreement; exit status 1 if any differs."""
    import torch

    if not torch.cuda.is_available():
        print("torch sees no GPU: nothing to compare with")
        return 2
    tracer, agreed = Tracer(), 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, models of {MODELS.name} and {PRODUCTS.name}")
    for case in CASES:
        try:
            real, foretold = (seen(answer) for answer in compare(tracer, case))
        except AssertionError as error:
            real, foretold = {"verdict": "not run", "error": str(error)[:200]}, {}
            tracer = Tracer()
        same = real == foretold
        agreed += same
        what = real["verdict"] or real["error"] or "no attention call"
        print(f"{'agrees ' if same else 'DIFFERS'}  {words(case):70} {what}")
        for name in [] if same else real:
            if real[name] != foretold.get(name):
                print(f"           {name}: GPU {real[name]}\n{'':11}{'':{len(name)}}  foretold {foretold.get(name)}")
    tracer.close()
    print(f"{agreed} of {len(CASES)} agree")
    return 0 if agreed == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
