"""A person's own function without a GPU: its Triton kernels compiled for the one that is named, by a real Triton."""

import json
import os

import pytest

pytest.importorskip("torch")

MINE = """
import os, signal
import torch
import triton
import triton.language as tl


@triton.jit
def scores(left, right, target, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = rows[:, None] * WIDTH + columns[None, :]
    tile = tl.dot(tl.load(left + at), tl.trans(tl.load(right + at)))
    tl.store(target + rows[:, None] * ROWS + rows[None, :], tile)


def launch(left, right, rows=32, times=1):
    target = torch.empty(128, 128, device=left.device)
    scores[(1,)](left, right, target, times * triton.next_power_of_2(left.shape[-1]), rows)


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        launch(q, k)
        return torch.empty_like(q)

    @staticmethod
    def backward(ctx, gradient):
        launch(gradient, gradient.half())
        return gradient, gradient, gradient


def sound(q, k, v, **options):
    assert q.is_cuda, "made for a GPU"
    launch(q, k)
    return q * 1.0


def mixed(q, k, v, enable_gqa=False, **options):
    if enable_gqa:
        raise TypeError("as many heads of k as of q, please")
    return Attend.apply(q, k, v)


def large(q, k, v, **options):
    launch(q.bfloat16(), k.bfloat16(), rows=64, times=8)
    return q * 1.0


def plain(q, k, v, **options):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def wants_a_driver(q, k, v, **options):
    raise OSError("libcuda.so.1: cannot open shared object file")


def talks(q, k, v, **options):
    raise ValueError("this layout is not for me\\nsee the manual")


def sleeps(q, k, v, **options):
    import time

    time.sleep(1000)


def hides(q, k, v, **options):
    return torch.compile(plain)(q, k, v, **options)


def dies(q, k, v, **options):
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture
def patient(warm_patient):
    """What is tried here comes after the import of torch."""
    return warm_patient


@pytest.fixture
def compiled(patient, triton):
    """compiled(names…): what each function came to, by name."""

    def run(*names, gpu="8.9", source=MINE, budget=240):
        patient.stub("mine", source)
        request = {
            "task": "kernels.run",
            "mode": "quick",
            "seed": 1,
            "budget": budget,
            "backends": [f"mine:{name}" for name in names],
            "dtypes": ["bfloat16", "float32"],
            "scratch": str(patient.scratch),
            "gpu": {"compute_capability": gpu, "name": "rtx4090"},
        }
        path = os.pathsep.join(str(one) for one in (patient.stubs, triton.folder))
        done = patient.run(request, timeout=300, env={"PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in (patient.answers_dir / "compiled.jsonl").read_text().splitlines()]
        return {one["compiled"]["backend"].partition(":")[2]: one["compiled"] for one in lines if "compiled" in one}

    return run


@pytest.mark.triton
def test_own_kernels_are_compiled(compiled):
    """Forward and backward, in each dtype: what compiles, what the compiler refuses and in which call, what needs more
    shared memory than there is; a call that raises is told, and the others are looked at all the same."""
    found = compiled("sound", "mixed", "large")

    assert found["sound"]["error"] is None
    assert found["sound"]["kernels"]
    assert {one["outcome"] for one in found["sound"]["kernels"]} == {"compiles"}
    assert {one["call"].partition(",")[0] for one in found["sound"]["kernels"]} == {"bfloat16", "float32"}
    assert found["sound"]["kernels"][0]["place"].endswith("mine/__init__.py:18")
    refused = [one for one in found["mixed"]["kernels"] if one["outcome"] == "refuses"]
    assert refused
    assert all("with gradients" in one["call"] for one in refused)
    assert all("same dtype" in one["message"] for one in refused)
    assert len(refused) < len(found["mixed"]["kernels"])
    assert "as many heads of k" in found["mixed"]["error"]
    too_large = [one for one in found["large"]["kernels"] if one["outcome"] == "exceeds shared memory"]
    assert too_large
    assert all(one["required_bytes"] > one["limit_bytes"] == 101376 for one in too_large)
    assert all("head dim 128" in one["call"] for one in too_large)
    assert {one["outcome"] for one in found["large"]["kernels"] if "head dim 64" in one["call"]} == {"compiles"}


@pytest.mark.triton
def test_what_cannot_be_seen_is_no_verdict(compiled):
    """Nothing to compile is said of a function that launches no Triton kernel, and of no other: one that wants a
    driver, one that leaves its kernels to torch.compile and one that takes the process along could not be looked at."""
    found = compiled("plain", "wants_a_driver", "hides", "dies", "sound")

    assert {name for name, told in found.items() if told["kernels"]} == {"sound"}
    assert found["plain"]["error"] is None
    assert "launched no Triton kernel" in found["plain"]["nothing"]
    assert "libcuda.so.1" in found["wants_a_driver"]["error"]
    assert "torch.compile" in found["hides"]["error"]
    assert "SIGSEGV" in found["dies"]["error"]
    assert "at bfloat16, head dim" in found["dies"]["error"]
    assert not any(found[name].get("nothing") for name in ("wants_a_driver", "hides", "dies"))


@pytest.mark.triton
def test_a_message_of_several_lines_is_told_by_the_one_that_says_it(compiled):
    """Its first, and not what follows it."""
    assert "ValueError: this layout is not for me (" in compiled("talks")["talks"]["error"]


@pytest.mark.triton
def test_a_function_that_hangs_is_told_as_one(compiled):
    """What ended it was our own alarm, which is nobody's crash."""
    told = compiled("sleeps", budget=2)["sleeps"]["error"]

    assert told.startswith("it did not end in time and was killed (at bfloat16, head dim")


@pytest.mark.triton
def test_torch_compile_at_import_hides_what_it_would_make(compiled):
    """Also from a second function of the module, which is not imported again: neither has nothing to compile."""
    source = "import torch\n" + MINE[MINE.index("def plain") : MINE.index("def wants")]
    source += "first = torch.compile(plain)\nsecond = torch.compile(plain)\n"
    found = compiled("first", "second", source=source)

    assert ["torch.compile" in (found[name]["error"] or "") for name in ("first", "second")] == [True, True]
    assert not any(told.get("nothing") for told in found.values())
