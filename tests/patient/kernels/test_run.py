"""The trials as a doctor starts them, on CPU tensors: planted faults cost their cell, are named, and nothing else."""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.patient.conftest import Patient

pytest.importorskip("torch")

PLANTED = Path(__file__).with_name("planted.py")


@pytest.fixture
def patient(warm_patient):
    """What is tried here comes after the import of torch."""
    return warm_patient


def run(patient, backends, **more):
    """The cells that were tried."""
    shutil.copy(PLANTED, patient.stubs)
    request = {
        "task": "kernels.run",
        "mode": "quick",
        "seed": 11,
        "budget": 100,
        "cell_timeout": 30,
        "backends": backends,
        "dtypes": ["bfloat16"],
        "devices": ["cpu"],
        "scratch": str(patient.scratch),
    }
    request = {**request, **more}
    done = patient.run(request, timeout=request["budget"] + 50)
    assert done.returncode == 0, done.stderr
    lines = []
    for file in patient.answers_dir.glob("cells-*.jsonl"):
        lines += [json.loads(line) for line in file.read_text().splitlines()]
    cells = [{**line.pop("cell"), **line} for line in lines if "cell" in line]
    planned = sum(len(one["cells"]) for one in patient.answers["plan"]["plans"].values())
    assert len(cells) == planned or "budget" in more
    return cells


@pytest.fixture
def tried(patient):
    """tried(function, **request): the cells of that planted function."""
    return lambda function, **more: run(patient, **{"backends": [f"planted:{function}"], **more})


#: Tried beside one another: each would import torch for itself. What may cost a cell its process is tried apart. Those
#: of the second group are asked for by hand alone (tests/costly.txt).
WRONG = (
    ("mask_off_by_one",),
    (
        "off_by_two_per_cent",
        "tile_unwritten",
        "gradient_off",
        "rows_dropped",
        "strides_swapped",
        "cache_stale",
        "wrong_scale",
        "no_key_no_zero",
    ),
)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """The cells of each function of WRONG, tried when the first of its group is asked for."""
    patient = Patient(tmp_path_factory.mktemp("wrong"), sys.executable, warm=True)

    class Cells(dict):
        def __missing__(self, function):
            group = next(one for one in WRONG if function in one)
            cells = run(patient, [f"planted:{one}" for one in group], budget=400)
            assert all(c["outcome"] != "not run" for c in cells)
            self.update({one: [c for c in cells if c["backend"] == f"planted:{one}"] for one in group})
            return self[function]

    return Cells()


def usual(cells):
    """Those in contiguous random numbers: a situation can hide a fault, such as a gradient of 0 that is halved."""
    return [c for c in cells if "situation" not in c]


def outcomes(cells, **wanted):
    return Counter(c["outcome"] for c in cells if all(c[key] == value for key, value in wanted.items()))


def test_a_right_kernel_is_right(tried):
    """Nothing is found where nothing is wrong, in any dtype, form and direction."""
    cells = tried("right", dtypes=None)

    assert outcomes(cells) == {"right": len(cells)}
    assert {c["form"] for c in cells} >= {"dense", "causal", "gqa", "bool-mask", "half-mask", "fp32-mask"}


def test_off_by_two_per_cent(wrong):
    """An output that is off by 2 % is wrong in every cell, with its error."""
    cells = usual(wrong["off_by_two_per_cent"])

    assert outcomes(cells) == {"wrong": len(cells)}
    # Each tells the form of its call, by which a known error is recognized.
    assert {tuple(c["call"]["shapes"]) for c in cells} <= {("q", "k", "v"), ("q", "k", "v", "mask")}
    assert {c["call"]["trains"] for c in cells} == {c["direction"] == "train" for c in cells}
    assert all(0.015 < c["errors"]["out"]["relative"] < 0.03 for c in cells)


def test_a_tile_left_unwritten(wrong):
    """A tile that nobody writes is wrong in every cell, and mostly told as what it is."""
    cells = usual(wrong["tile_unwritten"])

    assert outcomes(cells) == {"wrong": len(cells)}
    assert any("unwritten" in c["troubles"] for c in cells)


def test_a_wrong_gradient_behind_a_right_output(wrong):
    """The backward pass is looked at by itself: dk is off, out and dq and dv are right."""
    cells = usual(wrong["gradient_off"])
    trained = [c for c in cells if c["direction"] == "train"]

    assert outcomes(cells, direction="forward") == {"right": len(cells) - len(trained)}
    assert outcomes(trained) == {"wrong": len(trained)}
    for cell in trained:
        off = {name for name, error in cell["errors"].items() if error["relative"] > error["limit"]}
        assert off == {"dk"}


@pytest.mark.parametrize(
    ("function", "outcome", "words"),
    [("hangs", "hung", "did not end"), ("crashes", "crashed", "SIGSEGV"), ("leaves", "crashed", "status 3")],
)
def test_a_fault_costs_its_cell(tried, function, outcome, words):
    """A cell that takes its process along is named; the others run, until this backend took three along."""
    cells = tried(function, cell_timeout=6 if function == "hangs" else 30)
    lost = [c for c in cells if c["outcome"] == outcome]

    assert len(lost) in (1, 2, 3), "none is lost, or the backend was not given up after its third"
    assert all(words in c["reason"] and c["form"] in ("causal", "gqa") for c in lost)
    assert outcomes(cells)["right"] >= 1
    assert set(outcomes(cells)) <= {"right", outcome, "not run"}


@pytest.mark.parametrize(
    ("function", "where"),
    [
        ("rows_dropped", {"off-tile", "expanded"}),
        ("strides_swapped", {"fused", "again", "transposed"}),
        ("cache_stale", {"again"}),
        ("mask_off_by_one", {None, "fused"}),
        ("wrong_scale", {None, "fused", "off-tile", "decode", "cross"}),
        ("no_key_no_zero", {"dead-rows"}),
    ],
)
def test_faults_that_random_contiguous_numbers_do_not_show(wrong, function, where):
    """What kernels were reported to do wrong is caught by `quick`, in the situations that it needs."""
    cells = wrong[function]
    shown = {c.get("situation") for c in cells if c["outcome"] == "wrong"}

    assert where <= shown
    assert set(outcomes(cells)) <= {"right", "wrong"}
    if None not in where and function != "cache_stale":  # which spoils all that comes after
        assert None not in shown, "random numbers in contiguous tensors would have shown it as well"


def test_the_rest_of_the_backends_goes_on(tried):
    """One backend that crashes does not cost another one anything."""
    cells = tried("crashes", backends=["planted:crashes", "sdpa-math"])

    assert outcomes(cells, backend="sdpa-math") == {"right": sum(c["backend"] == "sdpa-math" for c in cells)}


def test_a_refusal_in_its_own_words(tried):
    """What a kernel raises is its refusal, word for word."""
    cells = tried("refuses", dtypes=["float32", "float16"])
    refused = [c for c in cells if c["outcome"] == "refused"]

    assert {c["dtype"] for c in refused} == {"float32"}
    assert {c["reason"] for c in refused} == {"RuntimeError: only fp16 and bf16, says this kernel"}


def test_each_gpu_is_a_line_of_its_own(tried, patient):
    """Every GPU goes through all trials, beside the others; what a kernel breaks on one costs nothing on another."""
    (patient.stubs / "once.py").write_text(
        """
import os, signal
import torch.nn.functional as F
def first_come(q, k, v, **given):
    try:
        os.close(os.open("taken", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return F.scaled_dot_product_attention(q, k, v, **given)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    cells = tried("", backends=["once:first_come"], devices=["cpu-a", "cpu-b"])
    files = sorted(file.name for file in patient.answers_dir.glob("cells-*.jsonl"))

    assert files == ["cells-cpu-a.jsonl", "cells-cpu-b.jsonl"]
    assert outcomes(cells) == {"crashed": 1, "right": len(cells) - 1}


def test_what_the_time_did_not_reach_was_not_run(tried):
    """When the time is over no cell is begun, and those that were are whole."""
    cells = tried("right", budget=0.5)

    assert len(cells) < 10


def test_one_dtype(tried):
    """Only the dtypes that were asked for are tried."""
    assert {c["dtype"] for c in tried("right", dtypes=["float16"])} == {"float16"}


def recorded(shape, *, strides=None, mask=None, by_heads=True, name="scaled_dot_product_attention", **flags):
    """A form as `trace --record` keeps it."""
    roles = {"q": shape, "k": shape, "v": shape} | ({} if mask is None else {"mask": mask})
    usual = {"causal": False, "gqa": False, "scale": None, "window": None, "softcap": None, "documents": None}
    return {
        "name": name,
        "library": "torch",
        "by_heads": by_heads,
        "shapes": {role: list(one) for role, one in roles.items()},
        "strides": {role: strides if role in "qkv" else None for role in roles},
        "dtypes": {role: "bool" if role == "mask" else "bfloat16" for role in roles},
        "flags": {**usual, **flags},
        "autocast": None,
        "trains": True,
        "backend": "math",
        "calls": 24,
        "place": "model.py:8",
    }


def test_a_models_own_calls(tried, patient):
    """Each recorded call is tried by each backend that takes it, in its own shapes and strides; others say why not."""
    heads, length, dim = 4, 200, 32
    fused = [length * 3 * heads * dim, dim, 3 * heads * dim, 1]
    calls = [
        recorded((2, heads, length, dim), strides=fused, causal=True),
        recorded((2, heads, 96, dim), mask=(2, 1, 96, 96)),
        recorded((2, heads, 96, dim), mask=(96, 96), causal=False),
        recorded((2, length, heads, dim), by_heads=False, name="flash_attn_func", window=[15, 0]),
        recorded((256, heads, dim), by_heads=False, name="flash_attn_varlen_func", documents=3),
    ]
    cells = tried("", backends=["sdpa-default", "sdpa-math", "planted:strides_swapped"], mode="replay", calls=calls)
    found = {(c["backend"], c["situation"]): c["outcome"] for c in cells}
    plan = next(iter(patient.answers["plan"]["plans"].values()))

    assert found == {
        **{(name, f"call-{n}"): "right" for name in ("sdpa-default", "sdpa-math") for n in (1, 2, 3)},
        ("planted:strides_swapped", "call-1"): "wrong",
        ("planted:strides_swapped", "call-2"): "right",
        ("planted:strides_swapped", "call-3"): "right",
    }
    assert {c["used"] for c in cells if c["backend"] == "sdpa-default"} == {True}
    assert {c["situation_words"] for c in cells} == {f"your call {n} (model.py:8)" for n in (1, 2, 3)}
    assert {(c["situation"], c["form"]) for c in plan["not_offered"]} == {("call-4", "window"), ("call-5", "varlen")}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (recorded((2, 4, 8, 16), window=[3, 3]), "looks ahead"),
        (recorded((8, 16)), "not those of an attention call"),
        (recorded((2, 4, 0, 16)), "no element"),
        ({**recorded((2, 4, 8, 16)), "dtypes": {"q": "float16", "k": "float32", "v": "float16"}}, "different dtypes"),
        ({**recorded((2, 4, 8, 16)), "dtypes": dict.fromkeys("qkv", "float64")}, "not in float64"),
    ],
)
def test_a_call_that_cannot_be_repeated(call, words):
    """What a record does not hold, or no trial is made of, is said and not guessed."""
    from attn_doctor.patient.kernels import recorded as forms

    assert words in forms.why_not(call)


def test_without_a_gpu_nothing_runs(patient):
    """On a node without a GPU the answer is a plan, for the GPU that was named."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    request = {"task": "kernels.run", "mode": "full", "seed": 1, "budget": 10, "scratch": str(patient.scratch)}
    gpu = {"compute_capability": "9.0", "name": "h100"}
    done = patient.run({**request, "gpu": gpu}, timeout=60)

    assert done.returncode == 0, done.stderr
    assert list(patient.answers_dir.glob("*.jsonl")) == []
    assert patient.answers["plan"]["no_gpu"]
    assert {c["backend"] for c in patient.answers["plan"]["cells"]} >= {"sdpa-cudnn", "sdpa-flash"}
    assert any("Flash Attention does not support" in c["reason"] for c in patient.answers["plan"]["not_offered"])
