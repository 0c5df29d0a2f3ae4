"""Launches recorded instead of made."""

import pytest

pytestmark = pytest.mark.triton

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

tuned = triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (1, 4)], key=["n"])(scale)
guessed = triton.heuristics({"BLOCK": lambda arguments: 64 if arguments["n"] < 100 else 256})(scale)
x = torch.zeros(256, dtype=torch.bfloat16)
y = torch.full((256,), 7.0)
"""


def test_a_launch_is_told_whole(triton, tmp_path):
    """Kernel, line of the call, dtypes, constants and options are recorded; the outputs stay as they were."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    returned = scale[(4,)](x, y, 256, 0.5, BLOCK=64, num_warps=2)  # HERE
line = 1 + [n for n, text in enumerate(open(__file__)) if text.rstrip().endswith("# HERE")][0]
told = recording.launches[0].as_dict()
answer([told, f"{__file__}:{line}", returned, y.unique().tolist()])
"""
    )

    told, here, returned, values = triton.run(tmp_path, script)

    assert ("__main__:scale", here, 1) == (told["kernel"], told["call_site"], told["count"])
    assert [(a["name"], a["kind"], a["text"]) for a in told["arguments"][:3]] == [
        ("x", "tensor", "bfloat16"),
        ("y", "tensor", "float32"),
        ("n", "scalar", "256"),
    ]
    assert told["arguments"][4] == {"name": "BLOCK", "kind": "constexpr", "text": "64"}
    assert told["options"] == {"num_warps": "2"}
    assert (returned, values) == (None, [7.0])


def test_equal_launches_are_one(triton, tmp_path):
    """Launches that Triton would compile once are recorded once, with their number; others are another launch."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    for n in (32, 48, 64):          # all divide by 16
        scale[(4,)](x, y, n, 0.5, BLOCK=64)
    scale[(4,)](x, y, 33, 0.5, BLOCK=64)          # does not
    scale[(4,)](x, y, 1, 0.5, BLOCK=64)           # is folded
    scale[(4,)](x, y, 2**40, 0.5, BLOCK=64)       # is 64 bits wide
    scale[(4,)](x[1:], y, 32, 0.5, BLOCK=64)      # a pointer that does not divide by 16
    scale[(4,)](y, y, 32, 0.5, BLOCK=64)
    scale[(4,)](x, y, 32, 0.5, BLOCK=128)
answer([launch.count for launch in recording.launches])
"""
    )

    assert triton.run(tmp_path, script, warm=True) == [3, 1, 1, 1, 1, 1, 1]


def test_every_configuration_of_an_autotuned_kernel(triton, tmp_path):
    """All configurations are recorded as one launch, and heuristics see the arguments."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    tuned[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](x, y, 256, 0.5)
    tuned[(1,)](x, y, 256, 0.5)
    guessed[(1,)](x, y, 50, 0.5)
    guessed[(1,)](x, y, 500, 0.5)
answer([[launch.autotuned, launch.count, [one.positional[-1] for one in launch.configurations],
         [one.options for one in launch.configurations]] for launch in recording.launches])
"""
    )

    both, small, large = triton.run(tmp_path, script, warm=True)

    assert both[:3] == [True, 2, [64, 64, 128, 128]]
    assert [options["num_warps"] for options in both[3]] == [1, 4, 1, 4]
    assert (small[2], large[2]) == ([64], [256])


def test_pruning_is_the_kernels_own(triton, tmp_path):
    """A kernel's own pruning of configurations holds; where it fails without a GPU all are taken, and it is said."""
    script = (
        KERNELS
        + """
def only_big(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] == 128]
def broken(configs, named_args, **kwargs):
    raise RuntimeError("no GPU")
counts = []
for prune in (only_big, broken):
    pruned = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], key=["n"],
                             prune_configs_by={"early_config_prune": prune})(scale)
    with triton_record.record() as recording:
        pruned[(1,)](x, y, 256, 0.5)
    counts.append([len(recording.launches[0].configurations), recording.notes])
answer(counts)
"""
    )

    (kept, silent), (all_of_them, told) = triton.run(tmp_path, script, warm=True)

    assert (kept, silent) == (1, [])
    assert all_of_them == 2
    assert "RuntimeError: no GPU" in told[0]


def test_the_caller_sees_live_arguments(triton, tmp_path):
    """on_launch gets each call's own tensors by name, and what it raises reaches the caller."""
    script = (
        KERNELS
        + """
seen = []
def look(launch, arguments):
    seen.append([launch.count, arguments["x"] is x, arguments["n"]])
    if arguments["n"] == 13:
        raise ValueError("thirteen")
with triton_record.record(look) as recording:
    scale[(4,)](x, y, 32, 0.5, BLOCK=64)
    tuned[(4,)](x, y, 64, 0.5)
    try:
        scale[(4,)](x, y, 13, 0.5, BLOCK=64)
    except ValueError as error:
        seen.append(str(error))
answer(seen)
"""
    )

    assert triton.run(tmp_path, script, warm=True) == [[1, True, 32], [1, True, 64], [1, True, 13], "thirteen"]


def test_wrong_arguments_are_still_refused(triton, tmp_path):
    """A launch without one of its arguments raises as Triton's own would."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    try:
        scale[(1,)](x, y, BLOCK=64)
    except TypeError as error:
        answer(str(error))
"""
    )

    assert "missing a required argument" in triton.run(tmp_path, script, warm=True)


def test_fake_tensors(triton, tmp_path):
    """Fake tensors have no address: their launches are recorded, and compiled, like any other."""
    script = (
        KERNELS
        + """
from torch._subclasses.fake_tensor import FakeTensorMode
with triton_record.record() as recording, FakeTensorMode():
    fake = torch.empty(10**12, dtype=torch.float16)
    scale[(1,)](fake, fake[8:], 64, 0.5, BLOCK=64)
    scale[(1,)](fake, fake[1:], 64, 0.5, BLOCK=64)
found = triton_compile.compile_launches(recording.launches, [gpu("8.0")], scratch=scratch)
answer([verdict.outcome for verdict in found])
"""
    )

    assert triton.run(tmp_path, script, warm=True) == ["compiles", "compiles"]


def test_afterwards_triton_is_itself(triton, tmp_path):
    """After it, and after an exception inside it, Triton launches for itself again."""
    script = (
        KERNELS
        + """
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
before = JITFunction.run, Autotuner.run
try:
    with triton_record.record():
        inside = JITFunction.run
        raise KeyError
except KeyError:
    pass
answer([inside is before[0], (JITFunction.run, Autotuner.run) == before])
"""
    )

    assert triton.run(tmp_path, script, warm=True) == [False, True]


def test_without_triton_nothing_is_recorded(triton, tmp_path):
    """Where no Triton is, nothing is recorded, and that is said."""
    triton_less = type(triton)(tmp_path)

    notes = triton_less.run(tmp_path, "with triton_record.record() as recording:\n    pass\nanswer(recording.notes)")

    assert "Triton is not installed" in notes[0]


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1", "3.0.0", "3.9.0"])
def test_every_triton(triton_beside, tmp_path, version):
    """From 2.1 on, launches are recorded with their configurations, and Triton is itself afterwards."""
    script = (
        KERNELS
        + """
from triton.runtime.jit import JITFunction
before = scale.run, vars(JITFunction).get("run")
with triton_record.record() as recording:
    scale[(4,)](x, y, 256, 0.5, BLOCK=64)
    tuned[(4,)](x, y, 256, 0.5)
    guessed[(1,)](x, y, 50, 0.5)
    @triton.jit
    def made_inside(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 0.0)
    made_inside[(1,)](y, BLOCK=64)
same = vars(JITFunction).get("run") is before[1] and ("run" not in vars(scale) or scale.run is before[0])
found = triton_compile.compile_launches(recording.launches[:3], [gpu("8.0")], scratch=scratch)
answer([[len(launch.configurations) for launch in recording.launches], same, [one.outcome for one in found]])
"""
    )

    assert triton_beside(version).run(tmp_path, script) == [[1, 4, 1, 1], True, ["compiles"] * 3]
