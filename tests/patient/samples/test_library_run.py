"""Samples of a library that is a stub: each way in which it can behave, through bootstrap.py as the doctor does."""

import pytest

pytest.importorskip("torch")

STUB = """
import ctypes, os, time
import torch
import torch.nn.functional as F
from torch import nn

class Encoder(nn.Module):
    def __init__(self, *, dim, depth, heads, attn_flash, rotary_pos_emb=False, rotary_xpos=False):
        super().__init__()
        self.heads, self.xpos = heads, rotary_xpos
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("inv_freq", torch.ones(1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        {}
        return F.scaled_dot_product_attention(q, k, v)

Decoder = Encoder
"""
XPOS, BUFFER, AUTOCAST = "x-transformers-xpos", "x-transformers-rotary-fp32-buffer", "x-transformers-rotary-autocast"


@pytest.fixture
def patient(warm_patient):
    """What is tried here comes after the import of torch."""
    return warm_patient


@pytest.fixture
def run(patient):
    """Gives a function (line in forward, or a whole module) -> samples by name."""

    def run(line, module=STUB, **request):
        patient.stub("x_transformers", module.format(line) if module is STUB else module)
        patient.examine("x_transformers", torch=True, library_samples=True, **{"timeout": 20, **request})
        return {one["name"]: one for one in patient.answers["samples-x_transformers"]["samples"]}

    return run


def test_clean(run):
    """A library that keeps its dtypes is clean, by CUDA's rules without a GPU."""
    found = run("pass")

    assert [(one["outcome"], one["verdict"]) for one in found.values()] == [("ran", "clean")] * 3
    assert "no GPU" in found[XPOS]["rules"]


def test_a_float32_buffer(run):
    """A buffer that stayed float32 is named as the cause, at the library's line, and hurts where it is float32."""
    found = run("q = q * self.inv_freq")

    assert {name: one["verdict"] for name, one in found.items()} == {
        XPOS: "clean",
        BUFFER: "raises",
        AUTOCAST: "promoted then repaired",
    }
    assert found[BUFFER]["outcome"] == "raised"
    (promotion,) = found[BUFFER]["trace"]["promotions"]
    assert promotion["file"].endswith("x_transformers/__init__.py")
    assert promotion["source"] == "q = q * self.inv_freq"
    assert [birth["name"] for birth in promotion["born"]] == ["inv_freq"]


def test_a_crash_costs_that_sample(run):
    """The samples after it are run in another child."""
    found = run("self.xpos and ctypes.string_at(0)")

    assert {name: one["outcome"] for name, one in found.items()} == {XPOS: "crashed", BUFFER: "ran", AUTOCAST: "ran"}
    assert "SIGSEGV" in found[XPOS]["error"]


def test_a_hang_costs_that_sample(run):
    """One that never returns to Python is ended by its alarm, and says where it was."""
    found = run("self.xpos and ctypes.PyDLL(None).sleep(600)", timeout=6)

    assert {name: one["outcome"] for name, one in found.items()} == {XPOS: "hung", BUFFER: "ran", AUTOCAST: "ran"}
    assert found[XPOS]["error"].startswith("no end within 6 s in ")
    assert "x_transformers/__init__.py" in found[XPOS]["error"]


def test_exit_is_no_crash(run):
    """A library that calls exit() is met like any other error of the sample."""
    found = run("raise SystemExit(3)")

    assert {one["outcome"] for one in found.values()} == {"unasked"}


def test_another_release(run):
    """A release with other arguments is not judged by a sample that does not fit it."""
    found = run("", module="class Encoder:\n    def __init__(self, width):\n        pass\nDecoder = Encoder\n")

    assert {one["outcome"] for one in found.values()} == {"unasked"}
    assert "TypeError" in found[XPOS]["error"]


def test_no_such_class(run):
    """Nor is one that named its classes otherwise."""
    found = run("", module="")

    assert {one["outcome"] for one in found.values()} == {"unasked"}
    assert "ImportError" in found[XPOS]["error"]


def test_what_does_not_import(run):
    """Its samples say so, and no child tries again."""
    found = run("", module="import a_package_that_is_not_there")

    assert {one["outcome"] for one in found.values()} == {"unasked"}
    assert all("a_package_that_is_not_there" in one["error"] for one in found.values())


def test_what_does_not_import_with_a_gpu_either(run):
    """It is tried once more with a GPU that answers; every sample has the reason of the first."""
    found = run("", module="raise RuntimeError('not for this node')")

    assert {one["outcome"] for one in found.values()} == {"unasked"}
    assert all("not for this node" in one["error"] for one in found.values())


def test_an_import_that_wants_a_gpu(run):
    """A package that asks for the GPU while it is imported is sampled all the same."""
    wants = "import torch\nassert torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)\n"
    found = run("", module=wants + STUB.format("pass"))

    assert {one["verdict"] for one in found.values()} == {"clean"}


def test_nothing_is_written_elsewhere(run, patient):
    """Caches of compilers and hubs go to the scratch folder."""
    found = run("open('mark', 'w').close(); print(os.environ['TRITON_CACHE_DIR'], os.environ['HF_HOME'])")

    assert {one["outcome"] for one in found.values()} == {"ran"}
    assert (patient.scratch / "mark").exists()


def test_a_kernel_library_without_a_gpu(patient):
    """flash_attn is stood in for, with its checks, and the answer says so."""
    patient.stub("flash_attn", "__version__ = '2.8.3'")
    info = patient.stubs / "flash_attn-2.8.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    patient.examine("flash_attn", torch=True, library_samples=True, timeout=30)
    found = patient.answers["samples-flash_attn"]["samples"]

    assert [(one["outcome"], one["verdict"]) for one in found] == [("ran", "clean")] * 4
    assert all("stand-in" in one["stand_in"] for one in found)
