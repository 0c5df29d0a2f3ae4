"""Kernels compiled for a GPU that is not there, by a real Triton; a stand-in is the library that launches them."""

import json
import os

import pytest

pytest.importorskip("torch")

KERNELS = """
import os, signal
import torch
import triton
import triton.language as tl


@triton.jit
def store_transposed(source, target, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    tile = tl.trans(tl.load(source + rows[:, None] * SIZE + rows[None, :]))
    tl.store(target + rows[:, None] * SIZE + rows[None, :], tile)


@triton.jit
def product(left, right, target, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    at = rows[:, None] * SIZE + rows[None, :]
    tl.store(target + at, tl.dot(tl.load(left + at), tl.load(right + at)))


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        store_transposed[(1,)](x.bfloat16(), torch.empty_like(x), SIZE=32)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        other = gradient.bfloat16() if not TWO_DTYPES else gradient.half()
        product[(1,)](gradient.bfloat16(), other, torch.empty_like(gradient), SIZE=32)
        return gradient


class Layer(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        if DIES:
            os.kill(os.getpid(), signal.SIGSEGV)
        if RAISES:
            raise RuntimeError("this layer wants more heads")
        return Both.apply(x * self.scale)
"""
LAYERS = {
    "gated_deltanet": ("GatedDeltaNet", {}),
    "gla": ("GatedLinearAttention", {"TWO_DTYPES": True}),
    "gsa": ("GatedSlotAttention", {"DIES": True}),
    "rwkv7": ("RWKV7Attention", {"RAISES": True}),
}


@pytest.fixture
def patient(warm_patient):
    """What is tried here comes after the import of torch."""
    return warm_patient


@pytest.fixture
def compiled(patient, triton):
    """compiled(): the plan, and what each backend came to, by name."""

    def run(planted=True, budget=100):
        layers = patient.stub("fla", "").parent / "layers"
        layers.mkdir()
        (layers / "__init__.py").write_text("")
        for module, (name, switches) in LAYERS.items():
            switches = {"TWO_DTYPES": False, "DIES": False, "RAISES": False, **(switches if planted else {})}
            head = "".join(f"{key} = {value}\n" for key, value in switches.items())
            (layers / f"{module}.py").write_text(f"{head}{KERNELS}\n\n{name} = Layer\n")
        request = {
            "task": "kernels.run",
            "mode": "full",
            "seed": 1,
            "budget": budget,
            "backends": [f"fla-{name}" for name in ("gated-delta-rule", "gla", "gsa", "rwkv7")],
            "scratch": str(patient.scratch),
            "gpu": {"compute_capability": "9.0", "name": "h100"},
        }
        path = os.pathsep.join(str(one) for one in (patient.stubs, triton.folder))
        done = patient.run(request, timeout=200, env={"PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        file = patient.answers_dir / "compiled.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return patient.answers["plan"], {
            line["compiled"]["backend"]: line["compiled"] for line in lines if "compiled" in line
        }

    return run


@pytest.mark.triton
def test_each_trouble_costs_its_backend_alone(compiled):
    """Forward and backward are compiled; what the compiler refuses is told in its words; a layer that raises or takes
    its process along costs itself."""
    plan, found = compiled()

    assert plan["no_gpu"]
    assert list(found) == plan["to_compile"]["backends"]
    sound = found["fla-gated-delta-rule"]
    assert sound["error"] is None
    assert [(one["kernel"], one["outcome"]) for one in sound["kernels"]] == [
        ("fla.layers.gated_deltanet:store_transposed", "compiles"),
        ("fla.layers.gated_deltanet:product", "compiles"),
    ]
    refused = found["fla-gla"]["kernels"][1]
    assert (refused["kernel"], refused["outcome"]) == ("fla.layers.gla:product", "refuses")
    assert "same dtype" in refused["message"]
    assert "SIGSEGV" in found["fla-gsa"]["error"]
    assert "more heads" in found["fla-rwkv7"]["error"]


@pytest.mark.triton
def test_what_the_time_does_not_reach_is_no_verdict(compiled):
    """With no time left nothing is said to compile."""
    plan, found = compiled(planted=False, budget=0.01)

    assert len(plan["to_compile"]["backends"]) == 4
    outcomes = {one["outcome"] for told in found.values() for one in told["kernels"]}
    assert outcomes <= {"could not look"}


def test_quick_compiles_what_it_would_run(patient):
    """`quick` runs nothing that is compiled unless it is named, and so compiles nothing; it says so."""
    patient.stub("fla", "")
    request = {"task": "kernels.run", "mode": "quick", "seed": 1, "budget": 20, "scratch": str(patient.scratch)}
    done = patient.run({**request, "gpu": {"compute_capability": "9.0"}}, timeout=60)

    assert done.returncode == 0, done.stderr
    assert patient.answers["plan"]["to_compile"]["backends"] == []
    assert "`full`" in patient.answers["plan"]["to_compile"]["why_not"]


def test_without_triton_or_the_library_it_says_why(patient):
    """Nothing is compiled, and the reason is the one that holds."""
    request = {"task": "kernels.run", "mode": "full", "seed": 1, "budget": 20, "scratch": str(patient.scratch)}
    request["gpu"] = {"compute_capability": "9.0"}
    patient.run({**request, "backends": ["fla-gla"]}, timeout=60)
    without_library = patient.answers["plan"]["to_compile"]
    patient.stub("fla", "")
    patient.run(request, timeout=60)

    assert without_library["backends"] == []
    assert "not installed" in without_library["why_not"]
    assert "fla GLA" in without_library["why_not"]
    assert patient.answers["plan"]["to_compile"]["why_not"] == "Triton is not installed"
    assert not (patient.answers_dir / "compiled.jsonl").exists()
