"""What becomes of kernels on GPUs that are not there, as the compiler itself says."""

import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import attn_doctor

pytestmark = pytest.mark.triton
BENCH = Path(attn_doctor.__file__).parent.parent / "bench" / "triton_verdicts.py"

OUT_OF_RESOURCES = "triton.runtime.errors.OutOfResources"
COMPILATION_ERROR = "triton.compiler.errors.CompilationError"

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def dot(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M); n = tl.arange(0, N); k = tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :]); b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(z + m[:, None] * N + n[None, :], tl.dot(a, b))

def launch(m, n, k, left=torch.float16, right=torch.float16, **options):
    dot[(1,)](torch.zeros(m, k, dtype=left), torch.zeros(k, n, dtype=right), torch.zeros(m, n), m, n, k, **options)

def verdicts(gpus, timeout=60.0, **options):
    found = triton_compile.compile_launches(recording.launches, gpus, scratch=scratch, timeout=timeout, **options)
    return [verdict.as_dict() for verdict in found]
"""


@pytest.fixture(scope="session")
def bench(triton):
    """What bench/triton_verdicts.py says for a GPU: capability -> {case: verdict}. CI asks it of one."""

    @functools.cache
    def verdicts(capability):
        command = [sys.executable, str(BENCH), "--gpu", capability, "--timeout", "60"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=triton.environment())
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)["predicted"][f"sm_{capability.replace('.', '')}"]

    return verdicts


@pytest.mark.parametrize("capability", ["9.0", "8.9"])
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("dot fp16 x fp32", "Both operands must be same dtype. Got fp16 and fp32"),
        ("dot bf16 x fp32", "Both operands must be same dtype. Got bf16 and fp32"),
        ("dot bf16 x fp16", "Both operands must be same dtype. Got bf16 and fp16"),
        ("range of 48", "arange's range must be a power of 2"),
        ("undefined name", "undefined_name is not defined"),
    ],
)
def test_refusals(bench, capability, case, words):
    """What the compiler refuses, it refuses with its own exception and its own text."""
    verdict = bench(capability)[case]

    assert (verdict["outcome"], verdict["exception"]) == ("refuses", COMPILATION_ERROR)
    assert words in verdict["text"]


@pytest.mark.parametrize(
    ("case", "capability", "required", "limit", "fits"),
    [
        ("dot 128 KiB", "9.0", 131072, 232448, True),
        ("dot 128 KiB", "8.9", 131072, 101376, False),
        ("dot 256 KiB", "9.0", 262144, 232448, False),
        ("dot 256 KiB", "8.9", 262144, 101376, False),
        ("looped dot, 4 stages", "9.0", 196608, 232448, True),
        ("looped dot, 4 stages", "8.9", 147456, 101376, False),
        ("looped dot, 5 stages", "9.0", 245760, 232448, False),
    ],
)
def test_shared_memory(bench, case, capability, required, limit, fits):
    """Shared memory is counted by the compiler and compared with the limit of that GPU."""
    verdict = bench(capability)[case]

    assert (required, limit) == (verdict["shared_memory"], verdict["limit"])
    assert ("compiles" if fits else "exceeds shared memory") == verdict["outcome"]
    if not fits:
        assert verdict["exception"] == OUT_OF_RESOURCES
        assert verdict["text"].startswith(
            f"out of resource: shared memory, Required: {required}, Hardware limit: {limit}."
        )


@pytest.mark.parametrize("capability", ["9.0", "8.9"])
def test_what_compiles_has_registers(bench, capability):
    """A kernel that compiles down to a cubin has a number of registers, within what a thread can have."""
    compiled = [verdict for verdict in bench(capability).values() if verdict["outcome"] == "compiles"]

    assert len(compiled) > 10
    assert all(0 < verdict["registers"] <= 255 for verdict in compiled)


@pytest.mark.parametrize("capability", ["9.0", "8.9"])
def test_one_configuration_that_fits_is_enough(bench, capability):
    """An autotuned kernel fails for shared memory only when none of its configurations fits."""
    fits, none = (bench(capability)[f"autotuned, {what}"] for what in ("one fits", "none fits"))

    assert (fits["outcome"], fits["configurations"]) == ("compiles", 3)
    assert none["outcome"] == "exceeds shared memory"


def test_a_kernel_that_compiles_for_minutes_costs_one_timeout(triton, tmp_path):
    """A compilation that does not end is ended at its timeout, and the kernels after it are judged.

    The dot really takes Triton more than half a minute for 7.5, where tensor cores are emulated: slow is no hang.
    """
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    launch(128, 128, 256, num_warps=8)
    launch(32, 32, 32)
answer(verdicts([gpu("7.5")], timeout=4.0))
"""
    )

    started = time.monotonic()
    slow, quick = triton.run(tmp_path, script)

    assert (slow["outcome"], quick["outcome"]) == ("could not look", "compiles")
    assert slow["message"].startswith("did not end within 4 s, of which it computed for ")
    assert time.monotonic() - started < 25


def test_a_compiler_that_aborts_costs_one_kernel(triton, tmp_path):
    """An abort inside the compiler is told by its signal and its last words, and the others are judged."""
    script = (
        KERNELS
        + """
import os
with triton_record.record() as recording:
    launch(32, 32, 32)
    launch(64, 32, 32)
    launch(32, 32, 64)
class Aborts:
    arg_names, constexprs = dot.arg_names, dot.constexprs
    def run(self, *args, **kwargs):
        os.write(2, b"loc(x): error: no such thing\\nLLVM ERROR: failed to translate\\n")
        os.abort()
recording.launches[1].jit_function = Aborts()
answer(verdicts([gpu("9.0")]))
"""
    )

    found = triton.run(tmp_path, script)

    assert [verdict["outcome"] for verdict in found] == ["compiles", "aborted", "compiles"]
    assert found[1]["signal"] == "SIGABRT"
    assert "LLVM ERROR: failed to translate" in found[1]["message"]


def test_configurations_left_out_are_not_a_verdict(triton, tmp_path):
    """One configuration that does not fit proves nothing while others were not compiled."""
    script = (
        KERNELS
        + """
tuned = triton.autotune([triton.Config({"K": k}) for k in (256, 64)], key=[])(dot)
half = lambda *size: torch.zeros(size, dtype=torch.float16)
with triton_record.record() as recording:
    tuned[(1,)](half(128, 256), half(256, 128), half(128, 128), M=128, N=128)
ada = [gpu("8.9")]
answer([verdicts(ada, configurations=choice)[0] for choice in ("first", "enough", "all")])
"""
    )

    first, enough, every = triton.run(tmp_path, script)

    assert (first["outcome"], first["left_out"]) == ("could not look", 1)
    assert (enough["outcome"], len(enough["configurations"])) == ("compiles", 2)
    assert (every["outcome"], every["left_out"]) == ("compiles", 0)
    assert [one["outcome"] for one in every["configurations"]] == ["exceeds shared memory", "compiles"]


def test_no_time_is_no_verdict(triton, tmp_path):
    """When the budget is used up, what was not compiled could not be looked at: it is not healthy."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    launch(32, 32, 32)
answer(verdicts([gpu("9.0")], budget=0.0))
"""
    )

    (verdict,) = triton.run(tmp_path, script)

    assert (verdict["outcome"], verdict["message"]) == ("could not look", "the time was up")


def test_triton_writes_only_into_the_scratch_folder(triton, tmp_path):
    """Compiling leaves nothing in the home folder, and Triton's driver and environment as they were."""
    script = (
        KERNELS
        + """
import os
from triton.runtime import driver
home = tempfile.mkdtemp()
os.environ["HOME"] = home
before = dict(os.environ), dict(vars(driver)), dict(vars(triton.runtime.jit.JITFunction))
with triton_record.record() as recording:
    launch(32, 32, 32)
outcome = verdicts([gpu("9.0")])[0]["outcome"]
with triton_driver.virtual_driver(gpu("9.0"), scratch):
    arch = driver.active.get_current_target().arch
after = dict(os.environ), dict(vars(driver)), dict(vars(triton.runtime.jit.JITFunction))
answer([outcome, arch, os.listdir(home), before == after])
"""
    )

    assert triton.run(tmp_path, script) == ["compiles", 90, [], True]


def test_registers_and_spills_are_those_of_cuobjdump(triton, tmp_path):
    """Read from the ELF file, they equal what NVIDIA's own tool reads, for cubins of several GPUs."""
    script = (
        KERNELS
        + """
import glob, os, re, subprocess
with triton_record.record() as recording:
    launch(64, 64, 64)
    launch(128, 128, 64, num_warps=1)
seen = verdicts([gpu("8.0"), gpu("8.9"), gpu("12.0")])
tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "cuobjdump")
pairs = []
for path in glob.glob(scratch + "/**/*.cubin", recursive=True):
    said = subprocess.run([tool, "--dump-resource-usage", path], capture_output=True, text=True).stdout
    numbers = re.search(r"REG:(\\d+) STACK:(\\d+)", said)
    ours = cubin.resources(open(path, "rb").read())["dot"]
    pairs.append([[int(number) for number in numbers.groups()], [ours.registers, ours.stack_bytes]])
answer([pairs, cubin.resources(b"no ELF"), cubin.resources(open(path, "rb").read()[:300])])
"""
    )

    pairs, junk, cut = triton.run(tmp_path, script)

    assert len(pairs) == 6
    assert any(theirs[1] for theirs, _ in pairs)  # one of them spills
    assert all(theirs == ours for theirs, ours in pairs)
    assert (junk, cut) == (None, None)


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1", "3.0.0", "3.2.0", "3.6.0", "3.9.0"])
def test_every_triton(triton_beside, tmp_path, version):
    """From 2.1 on, every Triton is asked through its own API: dtypes, shared memory, and bfloat16 on 7.5."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    launch(64, 64, 64, torch.float16, torch.float32)
    launch(128, 128, 256, num_warps=8)
    launch(64, 64, 64, torch.bfloat16, torch.bfloat16)
answer([verdicts([gpu("9.0"), gpu("8.9"), gpu("7.5")], timeout=12.0)])
"""
    )
    (found,) = triton_beside(version).run(tmp_path, script, timeout=200)
    mixed, big, bf16 = found[:3], found[3:6], found[6:]
    old = version < "3.4"

    assert {"refuses"} == {verdict["outcome"] for verdict in mixed}
    words = "Both operands must be same dtype" if version >= "3.2" else "First input (fp16) and second input (fp32)"
    assert all(words in verdict["message"] + verdict["cause"] for verdict in mixed)
    assert [verdict["outcome"] for verdict in big[:2]] == ["compiles", "exceeds shared memory"]
    assert big[0]["required"] == 131072
    assert [verdict["outcome"] for verdict in bf16[:2]] == ["compiles", "compiles"]
    if version in ("2.2.0", "2.3.1", "3.0.0", "3.2.0"):
        assert (bf16[2]["outcome"], bf16[2]["message"]) == ("refuses", "map::at")
    assert old or bf16[2]["outcome"] == "compiles"


FLA = """
import importlib, warnings, torch
warnings.simplefilter("ignore")
h100, rtx4090 = gpu("9.0", name="NVIDIA H100"), gpu("8.9", name="NVIDIA GeForce RTX 4090")
with torch_cuda.virtual_cuda(h100, available=False), triton_driver.virtual_driver(h100, scratch):
    with triton_record.record() as recording:
        layers = importlib.import_module("fla.layers")
        layer = getattr(layers, NAME)(**OPTIONS).to(torch.bfloat16)
        x = torch.zeros(2, 128, 256, dtype=torch.bfloat16, requires_grad=True)
        given = {"v_first": None} if NAME.startswith("RWKV7") else {}
        layer(x, **given)[0].float().sum().backward()
found = triton_compile.compile_launches(recording.launches, [h100, rtx4090], scratch=scratch, configurations="enough")
answer([len(recording.launches), recording.notes, [[v.kernel, v.gpu, v.outcome, v.message] for v in found]])
"""


@pytest.mark.heavy
@pytest.mark.registry
@pytest.mark.parametrize("version", ["0.6.0", "0.2.2"])
@pytest.mark.parametrize(
    ("layer", "options", "launches"),
    [
        ("GatedLinearAttention", {"hidden_size": 256, "num_heads": 2}, 13),
        ("RWKV7Attention", {"hidden_size": 256, "head_dim": 64, "layer_idx": 0, "num_hidden_layers": 4}, 17),
        ("GatedDeltaNet", {"hidden_size": 256, "num_heads": 2, "head_dim": 64}, 20),
    ],
)
def test_layers_of_flash_linear_attention(triton, packages, tmp_path, monkeypatch, version, layer, options, launches):
    """Forward and backward of its layers are recorded on CPU tensors, and their kernels compile for both GPUs."""
    pytest.importorskip("transformers")
    folders = [packages("flash-linear-attention", version)]
    if version != "0.2.2":
        folders.append(packages("fla-core", version))
    beside = type(triton)(":".join(map(str, [*folders, triton.folder])))
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")

    seen, notes, found = beside.run(tmp_path, f"NAME, OPTIONS = {layer!r}, {options!r}\n" + FLA, timeout=580)

    assert seen >= launches
    assert notes == []
    assert {"compiles"} == {outcome for _, _, outcome, _ in found}, [one for one in found if one[2] != "compiles"]


def test_a_fault_of_the_stand_in_is_no_kernels(triton, tmp_path):
    """What our own driver raises, and what Triton raises over it, says nothing of the kernel."""
    script = (
        KERNELS
        + """
with triton_record.record() as recording:
    launch(32, 32, 32)
resources, triton_driver.cubin.resources = triton_driver.cubin.resources, None  # fails in our code
told = verdicts([gpu("8.0")])
triton_driver.cubin.resources = resources
del triton_driver.Utils.load_binary, triton_driver.Utils.__getattr__  # fails in Triton's, over ours
answer(told + verdicts([gpu("8.0")]))
"""
    )

    for verdict in triton.run(tmp_path, script):
        assert verdict["outcome"] == "could not look"
        assert verdict["message"].startswith("attn-doctor's stand-in for the GPU failed: ")


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["2.1.0", "2.2.0", "2.3.1"])
def test_kernels_that_are_defined_while_launches_are_recorded(triton_beside, tmp_path, version):
    """Triton 2.1 generates each kernel's launcher where it is defined: in a traced run that is while it records."""
    script = """
with triton_record.record() as recording:
""" + "".join(f"    {line}\n" for line in KERNELS.strip().splitlines() if not line.startswith("from __future__"))
    script += """
    launch(32, 32, 32)
answer(verdicts([gpu("8.0")]))
"""

    (verdict,) = triton_beside(version).run(tmp_path, script)

    assert verdict["outcome"] == "compiles", verdict["message"]
