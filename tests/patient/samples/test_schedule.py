"""When the samples of a library start, without starting any."""

import pytest

from attn_doctor.patient import forked
from attn_doctor.patient.samples import schedule

IMPORTED = {"outcome": "imported"}
FAILED = {"outcome": "failed", "error_type": "RuntimeError", "error": "RuntimeError: 0 active drivers"}
MISSING = {"outcome": "failed", "error_type": "ImportError", "error": "no triton", "missing_module": "triton"}
CRASHED = {"outcome": "crashed", "how": "killed by SIGSEGV"}
GPU = {"devices": [{"index": 0, "name": "NVIDIA H200", "compute_capability": "9.0"}]}
NO_GPU = {"devices": []}


class Written(dict):
    """The answers that stand there."""

    def __call__(self, name, value):
        self[name] = value

    def outcomes(self, library):
        return [one["outcome"] for one in self["samples-" + library]["samples"]]

    def errors(self, library):
        return {one["error"] for one in self["samples-" + library]["samples"]}


@pytest.fixture
def written():
    return Written()


def samples(written, *modules, asked=True, gpu=None):
    return schedule.LibrarySamples(asked, modules, gpu, 60.0, "/nowhere", written)


def ended(told=(), signal=None, status=0, stderr="", hung=False, starved=0.0):
    told = [{"outcome": "told", "value": value} for value in told]
    return forked.Ended("x", told, 1.0, hung, signal, status, "", stderr, [], starved=starved)


def answered(name, outcome="ran"):
    return [{"started": name}, {"sample": {"name": name, "outcome": outcome, "error": None}}]


def test_nothing_is_known_at_first(written):
    """From the beginning each answer says that it was not come to."""
    samples(written, "x_transformers", "triton")

    assert set(written.outcomes("x_transformers")) == {"unasked"}
    assert written["canary"]["outcome"] == "could_not_look"


def test_a_library_waits_for_its_import_and_for_the_gpu(written):
    """Whichever comes last starts it, once."""
    one = samples(written, "x_transformers")

    assert one.imported("x_transformers", IMPORTED) == []
    assert [child.name for child in one.cuda(NO_GPU)] == ["x_transformers samples"]
    assert one.imported("x_transformers", IMPORTED) == []


def test_only_what_was_asked_for(written):
    """A list names the libraries; None and False name none."""
    assert samples(written, "x_transformers", "fla", asked=["x_transformers"]).libraries == ["x_transformers"]
    assert samples(written, "x_transformers", asked=None).libraries == []
    assert samples(written, "xformers.ops").libraries == ["xformers"]


@pytest.mark.parametrize(("outcome", "starts"), [(IMPORTED, 1), (FAILED, 1), (MISSING, 0), (CRASHED, 0)])
def test_an_import_that_wanted_a_gpu_is_tried_with_one(written, outcome, starts):
    """A package that fails for want of a GPU gets one that answers; one that crashes or lacks a package does not."""
    one = samples(written, "fla")
    one.cuda(NO_GPU)

    assert len(one.imported("fla", outcome)) == starts
    assert starts or written.errors("fla") != {schedule._NOT_REACHED}


@pytest.mark.parametrize("library", ["flash_attn", "xformers"])
def test_a_stand_in_hides_no_broken_library(written, library):
    """What does not import gets no stand-in, which would run in its place."""
    one = samples(written, library)
    one.cuda(NO_GPU)

    assert one.imported(library, FAILED) == []
    assert all("0 active drivers" in error for error in written.errors(library))


def test_on_a_real_gpu_each_layer_has_a_child(written):
    """Compiling takes long there, and more than one CPU can do it."""
    one = samples(written, "fla")
    one.imported("fla", IMPORTED)

    assert len(one.cuda(GPU)) == 4


def test_a_gpu_that_is_named_is_the_one_in_question(written):
    """Even where a real one is."""
    one = samples(written, "fla", gpu={"compute_capability": "8.0"})
    one.imported("fla", IMPORTED)

    assert len(one.cuda(GPU)) == 1


def test_an_amd_gpu_is_not_judged_by_cuda_s_rules(written):
    """Its samples are left out, with the reason."""
    one = samples(written, "fla")
    one.imported("fla", IMPORTED)

    assert one.cuda({"devices": [{"index": 0, "gcnArchName": "gfx942"}]}) == []
    assert any("AMD" in error for error in written.errors("fla"))


def test_flash_attention_2_only_where_flash_attn_works(written):
    """Llama's samples with it wait for its import, and are left out where that fails."""
    one = samples(written, "transformers", "flash_attn")
    one.cuda(NO_GPU)
    assert one.imported("transformers", IMPORTED) == []
    one.imported("flash_attn", FAILED)
    names = [sample.name for sample in one.samples["transformers"]]

    assert names == ["transformers-llama-sdpa-bfloat16", "transformers-llama-sdpa-autocast"]


def test_a_crash_costs_one_sample(written):
    """The one that was running has crashed; another child takes the rest."""
    one = samples(written, "x_transformers")
    one.imported("x_transformers", IMPORTED)
    (child,) = one.cuda(NO_GPU)
    (again,) = child.done(ended([{"started": "x-transformers-xpos"}], signal=11, status=None))

    assert written.outcomes("x_transformers") == ["crashed", "unasked", "unasked"]
    told = answered("x-transformers-rotary-fp32-buffer") + answered("x-transformers-rotary-autocast")
    assert again.done(ended(told)) is None
    assert written.outcomes("x_transformers") == ["crashed", "ran", "ran"]


def test_an_alarm_is_a_hang(written):
    """The alarm that ends a sample tells where it was."""
    one = samples(written, "x_transformers")
    one.imported("x_transformers", IMPORTED)
    (child,) = one.cuda(NO_GPU)
    frames = 'Stack (most recent call first):\n  File "/lib/loop.py", line 7 in spin\n'
    child.done(ended([{"started": "x-transformers-xpos"}], signal=14, status=None, stderr=frames))
    first = written["samples-x_transformers"]["samples"][0]

    assert (first["outcome"], first["error"]) == ("hung", "no end within 60 s in /lib/loop.py:7")


def test_a_busy_machine_is_no_hang(written):
    """A sample that had to wait for a processor could not be examined; the reason tells it."""
    one = samples(written, "x_transformers")
    one.imported("x_transformers", IMPORTED)
    (child,) = one.cuda(NO_GPU)
    child.done(ended([{"started": "x-transformers-xpos"}], signal=14, status=None, starved=41.0))
    first = written["samples-x_transformers"]["samples"][0]

    assert first["outcome"] == "unasked"
    assert first["error"] == "the machine is busy, and for 41 s no processor was free: no end within 60 s"


def test_a_kernel_still_being_compiled_hangs_not(written):
    """A cold compiler cache on a real GPU may take longer than the time limit, and nothing is wrong."""
    one = samples(written, "fla")
    one.imported("fla", IMPORTED)
    child = one.cuda(GPU)[0]
    frames = (
        'Stack (most recent call first):\n  File "/site/triton/backends/nvidia/compiler.py", line 7 in make_cubin\n'
    )
    child.done(ended([{"started": "fla-rwkv7-bfloat16"}], signal=14, status=None, stderr=frames))

    assert written.outcomes("fla")[0] == "unasked"


def test_a_library_that_always_crashes_is_given_up(written):
    """Not every sample gets a child of its own to crash."""
    one = samples(written, "fla")
    one.imported("fla", IMPORTED)
    children = one.cuda(NO_GPU)
    started = 0
    while children:
        (child,) = children
        name = one.samples["fla"][started].name
        started += 1
        children = child.done(ended([{"started": name}], signal=6, status=None))

    assert started == schedule._MOST_RESTARTS + 1
    assert written.outcomes("fla").count("crashed") == started
    assert any("not tried again" in error for error in written.errors("fla"))


def test_what_cannot_be_imported_is_told_once(written):
    """The rest of the samples has the first one's reason."""
    one = samples(written, "x_transformers")
    one.imported("x_transformers", IMPORTED)
    (child,) = one.cuda(NO_GPU)
    child.done(ended([*answered("x-transformers-xpos", "unasked"), {"stopped": "no einops"}]))

    assert written.errors("x_transformers") == {None, "no einops"}


def test_without_torch_the_canary_is_left(written):
    """It needs Triton alone."""
    one = samples(written, "triton", "fla")
    one.imported("triton", IMPORTED)
    one.imported("fla", FAILED)
    one.without_torch("there is no torch")

    assert [child.name for child in one.cuda(NO_GPU)] == ["canary"]
    assert written.errors("fla") == {"there is no torch"}


MIXED = {
    "devices": [
        {"index": 0, "name": "NVIDIA H100", "compute_capability": "9.0"},
        {"index": 1, "name": "NVIDIA H100", "compute_capability": "9.0"},
        {"index": 2, "error": "CUDA error"},
        {"index": 3, "name": "NVIDIA L40S", "compute_capability": "8.9"},
    ]
}


def test_every_kind_of_gpu(written):
    """On a node of two kinds of GPU every sample runs on one of each, under a name of its own."""
    one = samples(written, "x_transformers")
    one.imported("x_transformers", IMPORTED)
    first, second = one.cuda(MIXED)
    names = [entry["name"] for entry in written["samples-x_transformers"]["samples"]]
    assert len(one.samples["x_transformers"]) == 2 * len(names)

    first.done(ended(answered(sample.name)[1] for sample in one.samples["x_transformers"][:3]))
    second.done(ended(answered(sample.name)[1] for sample in one.samples["x_transformers"][3:]))
    names = [entry["name"] for entry in written["samples-x_transformers"]["samples"]]
    assert names[3:] == [f"{name}-gpu3" for name in names[:3]]
    assert set(written.outcomes("x_transformers")) == {"ran"}
    assert [one._device(sample.gpu)["index"] for sample in one.samples["x_transformers"]] == [0] * 3 + [3] * 3


@pytest.mark.parametrize("module", ["flash_attn_interface", "flash_attn.cute"])
def test_newer_flash_attn(written, module):
    """flash-attn 3 and 4 have samples of their own, although 4 lies in flash-attn 2's namespace."""
    one = samples(written, module)
    one.cuda(NO_GPU)
    (child,) = one.imported(module, IMPORTED)

    assert child.name == f"{module} samples"
    assert {name.rsplit("-", 1)[-1] for name in (e["name"] for e in written["samples-" + module]["samples"])} == {
        "bfloat16",
        "float16",
    }
