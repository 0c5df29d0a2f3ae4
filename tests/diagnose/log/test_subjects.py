"""What a log tells of the machine, and which distribution a message is about; a remedy for another one is refuted."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.causes import explain, explain_text
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.diagnose.log.subjects import named_in
from attn_doctor.model.facts import FactSet
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.recipes.shelf import bundled
from tests.diagnose.log.making import made
from tests.diagnose.test_derived import facts

_ASKED = {"fact": "subject.package", "one_of": ["flash-attn"]}
_REMEDY = {"id": "r", "title": "Take another {subject.package}", "safety": "safe", "actions": []}
_ANY = made("any", {"pattern": "rror:|rror |undefined|fatal", "confirms": True}, remedy=[{**_REMEDY, "when": [_ASKED]}])
_FRAME = '  File "/env/lib/python3.11/site-packages/{}", line 3, in f\n    g()\n'
_HEAD = "Traceback (most recent call last):\n"
_NINJA = _HEAD + _FRAME.format("torch/utils/cpp_extension.py") + "CalledProcessError: Command '['ninja']' rror: failed"
_SETUP = '  File "/tmp/pip-install-x/causal-conv1d_0a1b2c3d4e5f60718293/setup.py"'

_NOT_FOUND = "Error: Could not find a version that satisfies the requirement torch"


def _subject(text: str) -> object:
    seen = made("any", {"pattern": "rror:|rror |undefined|fatal", "confirms": True}, title="{subject.package}")
    return explain_text(text, [seen], FactSet()).diagnosis.findings[0].title


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("ImportError: /env/selective_scan_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: x", "mamba-ssm"),
        ("ImportError: DLL load failed while importing flash_attn_2_cuda: The specified error", "flash-attn"),
        (
            _HEAD + '  File "/home/x/ops/roiaware_pool3d/utils.py", line 4, in <module>\n'
            "    from . import roiaware_pool3d_cuda\nImportError: libcudart.so.8.0: cannot open shared object file",
            "roiaware-pool3d",
        ),
        ("poetry add flash-attn\nModuleNotFoundError: No module named 'packaging'", "flash-attn"),
        ('loc("/x/fla/ops/gla/chunk.py":12:3): error: operands differ', "flash-linear-attention"),
        ("Error: Can't import it: DLL load failed while importing _fused: The specified module", "sageattention"),
        ("ImportError: /env/transformer_engine_torch.cpython-310.so: undefined symbol: x", "transformer-engine"),
        ("ImportError: /env/site-packages/transformer_engine_extensions.so: undefined symbol: x", "transformer-engine"),
        (
            "error: x\nhint: This error likely indicates that `xformers@0.0.28` depends on `torch`",
            "xformers",
        ),
        (
            _HEAD + _FRAME.format("transformers/x.py") + _FRAME.format("xformers/o.py") + "RuntimeError: no",
            "xformers",
        ),
        (
            _HEAD + '  File "/c/uv/sdists-v9/pypi/flash-attn/2.8.3/x/src/setup.py", line 2\n    import torch\nerror: x',
            "flash-attn",
        ),
        (
            _HEAD + _SETUP + "ModuleNotFoundError: No module named 'torch'\nerror: x",
            "causal-conv1d",
        ),
        ("ModuleNotFoundError: No module named 'sageattention'", "sageattention"),
        ("RuntimeError: FlashAttention only supports a thing", "flash-attn"),
        ("RuntimeError: scaled_dot_product_attention: flash attention refuses", "torch"),
        (
            "CUDA error (/build/source/flash-attn/flash_fwd_launch_template.h:191): no kernel image",
            "kernels",
        ),
        (
            "x.cu:3:1: error: bad\nERROR: Failed building wheel for mamba-ssm",
            "mamba-ssm",
        ),
        ("pip install xformers\nRuntimeError: CUDA error: no kernel image", "xformers"),
        ("(venv) me@box:~/SageAttention$ pip install -e .\nerror: x", "sageattention"),
        ("PS C:\\src\\SageAttention> python setup.py install\nerror: x", "sageattention"),
        ("C:\\src\\flash-attention>python setup.py bdist_wheel\nerror: x", "flash-attn"),
        ("me@box:/w/flash-attention/hopper$ MAX_JOBS=4 python setup.py install\nerror: x", "flash-attn-3"),
        ("[me@n01 xformers]$ pip install --no-build-isolation .\nerror: x", "xformers"),
        ("git clone https://x/SageAttention\ncd SageAttention\npip install .\nerror: x", "sageattention"),
        ("me@box:~/SageAttention$ python run.py\nerror: x", "The package"),
        ("me@box:~/SageAttention$ pip install -r requirements.txt\nerror: x", "The package"),
        ("me@box:~/SageAttention$ pip install flash-attn\nerror: x", "flash-attn"),
        ("me@box:~/SageAttention$ pip install .\nFailed to build flash-attn\nerror: x", "flash-attn"),
        ("me@box:~/rows$ pip install .\nerror: x", "The package"),
        ("pip install torch xformers -U flash-attn==2.7.4\nerror: x", "The package"),
        ("pip install xformers flash-attn\nerror: x", "The package"),
        ("pip install xformers flash-attn\nFailed to build flash-attn\nerror: x", "flash-attn"),
        ("pip install sageattention xformers\nerror in xformers setup command: x\nerror: x", "xformers"),
        ("pip install flash-attn fails with xformers\nerror: x", "flash-attn"),
        (
            "pip install xformers flash_attn\nCollecting xformers\nCollecting flash_attn\n Prep ... error\nerror: x",
            "flash-attn",
        ),
        ("Collecting xformers\nCollecting flash-attn\nBuilding wheel for xformers ... error\nerror: x", "xformers"),
        ("    out, lse = _C_flashattention.fwd(\n        ^^^^\nRuntimeError: CUDA error: no kernel image", "xformers"),
        ("ModuleNotFoundError: No module named 'flex_head_fa_2_cuda' rror:", "flex-head-fa"),
        ("ModuleNotFoundError: No module named 'tvm_ffi' rror:", "apache-tvm-ffi"),
        ("ValueError: Selected backend AttentionBackendEnum.FLASHINFER is not valid", "vllm"),
        ("Cannot use FlashAttention-2 backend for head size 72. rror:", "vllm"),
        (_HEAD + _FRAME.format("vllm/vllm_flash_attn/i.py") + "RuntimeError: FlashAttention only supports x", "vllm"),
        (_HEAD + _FRAME.format("text_generation_server/a.py") + "RuntimeError: x", "text-generation-server"),
        ("Building extension module cpu_lion...\n" + _NINJA, "deepspeed"),
        ("flashinfer.jit: Loading JIT ops: decode_x\n" + _NINJA, "flashinfer-python"),
        (_NINJA, "The package"),
        ("Building extension module cpu_lion...\n" + _HEAD + _FRAME.format("torch/a.py") + "RuntimeError: x", "torch"),
        ("RuntimeError: failed: ninja -C /root/.cache/torch_extensions/py311_cu124/fused_lamb stopped", "deepspeed"),
        ("/home/me/.cache/flashinfer/0.6/90a/x/decode.cu(3): error: x", "flashinfer-python"),
        ("/tmp/pip-install-ab3/natten_0123456789abcdef0123/csrc/a.cu:3:1: error: x", "natten"),
        (_HEAD + _FRAME.format("vllm/q.py") + "ImportError: Please install bitsandbytes>=0.46 rror:", "bitsandbytes"),
        (_HEAD + _FRAME.format("sglang/q.py") + "ImportError: `xformers` is not installed rror:", "xformers"),
        ("TypeError: FlashInferImpl.__init__() got another keyword rror:", "vllm"),
        ("AttributeError: '_OpNamespace' '_vllm_fa2_C' object has no attribute 'fwd' rror:", "vllm"),
        ("ImportError: /env/x/_vllm_fa3_C.abi3.so: undefined symbol: x", "vllm"),
        ("AssertionError: flash_attn at sgl-kernel is only for others rror:", "sglang"),
        ("TypeError: LlamaFlashAttention2.forward() takes less rror:", "transformers"),
        ("ImportError: common_ops.abi3.so: undefined symbol: _Z3absv", "sgl-kernel"),
        ("It says `Cannot use FlashAttention-2 backend for head size 24.` rror:", "vllm"),
        ("AssertionError: headdim should be in [8, 16]. rror:", "sageattention"),
        ("RuntimeError: x. If so, please report an enhancement request to PyTorch.)", "torch"),
        (_HEAD + _FRAME.format("peft/a.py") + "ImportError: libx.so.13: cannot open shared object file", "The package"),
        (_HEAD + _FRAME.format("peft/a.py") + "ImportError: undefined symbol: x of xformers", "xformers"),
        ("RuntimeError: CUDA error: x\n  Location: /t/pip-req-build-a1b2c3d4/cumesh/src/a.cu:12", "cumesh"),
        ("RuntimeError: CUDA error: no kernel image\n  Location: flex_gemm", "flex-gemm"),
        ("RuntimeError: CUDA error: no kernel image\nLocation: flex_gemm sparse_conv3d", "flex-gemm"),
        ("/r/.cache/torch_extensions/py39_cu126 is used\nBuilding extension module cpu_lion\n" + _NINJA, "deepspeed"),
    ],
)  # fmt: skip
def test_a_message_is_about_a_distribution(text: str, subject: str) -> None:
    """The compiled file, the folder of setup.py, the frames and the words tell it, in that order."""
    assert _subject(text) == subject


def test_an_environment_that_is_called_like_a_package_is_not_it() -> None:
    """Neither a folder of environments nor the standard library is a package's own code."""
    frame = '  File "/home/me/envs/vllm/lib/python3.10/subprocess.py", line 526, in run\n    raise x\n'

    assert _subject(f"Traceback (most recent call last):\n{frame}RuntimeError: no") == "The package"


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("RuntimeError: FlashAttention takes no such head", 1),
        (_HEAD + _FRAME.format("vllm/vllm_flash_attn/i.py") + "RuntimeError: FlashAttention takes no such head", 0),
        (_HEAD + _FRAME.format("vllm/i.py") + "ModuleNotFoundError: No module named 'flash_attn'", 1),
    ],
)
def test_a_package_with_kernels_of_its_own_is_not_mended_by_installing_those(text: str, offered: int) -> None:
    """An engine has copies of FlashAttention: another flash-attn changes nothing for it, unless it asks for that."""
    install = {"kind": "install-packages", "requirements": ["flash-attn>=2.8"], "no_deps": True}
    recipe = made("any", {"pattern": "rror: ", "confirms": True}, remedy=[{**_REMEDY, "actions": [install]}])
    (finding,) = explain_text(text, [recipe], FactSet()).diagnosis.findings

    assert len(finding.remedies) == offered


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("ImportError: /env/flash_attn_2_cuda.so: undefined symbol: x", 1),
        ("ImportError: /env/xformers/_C.so: undefined symbol: x", 0),
        ("RuntimeError: nobody is named", 1),
    ],
)
def test_a_remedy_for_another_package_is_refuted(text: str, offered: int) -> None:
    """It stays open only where nobody knows what the message is about."""
    (finding,) = explain_text(text, [_ANY], FactSet()).diagnosis.findings

    assert len(finding.remedies) == offered


def test_check_binds_the_package_of_an_extension_likewise() -> None:
    """One condition serves check and explain."""
    extension = {"fact": "extension.package", "for_each": "extension", "present": True}
    recipe = made("r", when=[extension], remedy=[{**_REMEDY, "when": [_ASKED]}])
    node = facts(
        listed__extension=2, **{"extension__xformers._C__package": "xformers", "extension__fa__package": "flash-attn"}
    )
    found = {one.subjects: [r.title for r in one.remedies] for one in judge(node, [recipe]).findings}

    assert found == {("extension fa",): ["Take another flash-attn"], ("extension xformers._C",): []}


@pytest.mark.parametrize(
    ("text", "fact", "value"),
    [
        ("    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.", "gpu.0.compute_capability", "12.1"),
        ("NVIDIA GB10", "node.machine", "aarch64"),
        ("Platform: linux-aarch64", "node.machine", "aarch64"),
        ("CUDA capability 9.0 of NVIDIA GH200 480GB", "node.machine", "aarch64"),
        ("ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'", "gpu.0.compute_capability", "12.1"),
        ("device capability (7, 5)", "gpu.0.compute_capability", "7.5"),
        ("driver on your system is too old (found version 11040). Please", "driver.cuda", "11.4"),
        ("| NVIDIA-SMI 470.1  Driver Version: 470.182.03   CUDA Version: 11.4  |", "driver.cuda", "11.4"),
        ("was used to compile PyTorch (12.1). Please", "torch.cuda", "12.1"),
        ("CUDA used to build PyTorch: 12.4", "torch.cuda", "12.4"),
        ("PyTorch version: 2.6.0+cu124\nCUDA used to build PyTorch: 12.4", "torch.cuda", "12.4"),
        ("torch.version.cuda: 12.4", "torch.cuda", "12.4"),
        ("torch.version.cuda = '12.4'", "torch.cuda", "12.4"),
        ("  - pytorch-cuda=11.8", "torch.cuda", "11.8"),
        ("Tesla V100-SXM2-32GB", "gpu.0.compute_capability", "7.0"),
        ("V100-SXM2-32GB", "gpu.0.compute_capability", "7.0"),
        ("platform: win32", "node.system", "Windows"),
        ("The detected CUDA version (11.5) mismatches the version", "cuda.nvcc", "11.5"),
        ("Cuda compilation tools, release 12.4, V12.4.131", "cuda.nvcc", "12.4"),
        (r'  File "C:\Users\me\x.py", line 3, in f', "node.system", "Windows"),
        ('  File "/home/me/x.py", line 3, in f', "node.system", "Linux"),
        ('  File "/Users/me/x.py", line 3, in f', "node.system", "macOS"),
        ('  File "/env/lib/python3.11/site-packages/torch/x.py", line 3, in f', "python.version", "3.11"),
        ("Python 3.11.4\n  File \"/env/lib/python3.11/site-packages/x.py\", line 3", "python.version", "3.11.4"),
        ("torch 2.6.0\ntorch 2.6.0+cu124", "torch.cuda", "12.4"),
        ("FROM pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", "node.system", "Linux"),
        ("pip install git+https://github.com/state-spaces/mamba.git@v2.2.4", "subject.package", "mamba-ssm"),
        (
            "x/pip-install-a1/xformers_2f/third_party/flash-attention/csrc/a.cu\nFailed building wheel for xformers",
            "subject.package",
            "xformers",
        ),
        (
            "Guessing wheel URL: https://x/flash_attn-2.8.3+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl",
            "torch.version",
            "2.6",
        ),
    ],
)  # fmt: skip
def test_lines_tell_of_the_machine(text: str, fact: str, value: str) -> None:
    """GPU, driver, system, Python and torch, also where they are told more and less fully."""
    told = explain([Scanner(Patterns([])).scan("x", [text])], FactSet()).facts

    assert told.value(fact) == value


def test_a_capability_that_is_asked_for_is_none_that_is_there() -> None:
    """What a kernel needs says nothing of the GPU."""
    told = explain([Scanner(Patterns([])).scan("x", ["it requires compute capability 8.0"])], FactSet()).facts

    assert told.value("gpu.0.compute_capability") is None


@pytest.mark.parametrize(
    ("text", "fact", "value"),
    [
        ("RuntimeError: head dimension must be at most 256, got 320", "log.head_dim", 320),
        ("RuntimeError: unsupported head_dim=80", "log.head_dim", 80),
        ("RuntimeError: CUDA 12.8 or higher is required for compute capability 12.0.", "log.cuda_needed", "12.8"),
        ("ValueError: XLMRobertaModel does not do that", "log.model", "XLMRobertaModel"),
        ("RuntimeError: expected BFloat16 and got Byte", "log.dtypes", ("bfloat16", "uint8")),
        ("RuntimeError: got attn_mask.dtype: unsigned char and query.dtype: float", "log.dtypes", ("uint8", "float32")),
        ("RuntimeError: BatchPrefillWithPagedKVCache failed to dispatch with dtype Half", "log.dtype_given", "float16"),
        ("ModuleNotFoundError: No module named 'flash_attn.cute'", "log.module", "flash_attn.cute"),
        (f"{_NOT_FOUND}==2.4.0 (from versions: 2.6.0, 2.7.0)", "log.torch_asked", "2.4.0"),
        (f"{_NOT_FOUND}>=2.10 (from versions: 2.6.0, 2.8.0)", "log.torch_asked", "2.10.0"),
        (f"{_NOT_FOUND}==2.1.0+cu121 (from versions: 2.2.0, 2.10.0)", "log.torch_asked", "2.1.0"),
    ],
)
def test_a_message_tells_what_it_names(text: str, fact: str, value: object) -> None:
    """Titles and conditions can use it."""
    seen = made("any", {"pattern": "rror:", "when": [{"fact": fact, "present": True}]})
    (finding,) = explain_text(text, [seen], FactSet()).diagnosis.findings

    assert [one.state.value for one in finding.evidence if str(one.name) == fact] == [value]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked",
    [
        ">=2.1,<2.3 (from versions: 2.6.0)",  # a range: another release of it may be meant
        "==2.5.1 (from versions: 2.1.2, 2.2.0, 2.2.1, 2.2.2)",  # a Mac with Intel, whatever its Python
        "==2.6.0+cu124 (from versions: 2.2.0, 2.6.0)",  # the registry has that release, without its build's name
        "==2.2.0+cu118 (from versions: 2.10.0+cu130, 2.11.0+cu130)",  # another index
    ],
)
def test_no_release_is_missed_for_its_python_alone(asked: str) -> None:
    seen = made("any", {"pattern": "rror:", "when": [{"fact": "log.torch_asked", "present": True}]})
    found = explain_text(_NOT_FOUND + asked, [seen], FactSet()).diagnosis.findings

    assert all(str(one.name) != "log.torch_asked" for finding in found for one in finding.evidence)


def test_what_a_person_assumes_stands_above_what_the_log_tells() -> None:
    """The driver that was named is the driver."""
    base = assume(FactSet(), ["driver.cuda=12.8"])
    told = explain([Scanner(Patterns([])).scan("x", ["(found version 11040)"])], base).facts

    assert told.value("driver.cuda") == "12.8"


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ("FlashAttention-3 is not available; install flash-attn", "flash-attn-3"),
        ("flash_attn_interface could not be loaded", "flash-attn-3"),
        ("DeepSpeed needs flash-attn for this", "flash-attn"),
        ("vllm does not take this dtype", "vllm"),
        ("安装flash-attn失败", "flash-attn"),
        ("no kernel of memory_efficient_attention takes it", "xformers"),
        ("xformers is missing, SageAttention is used", "xformers"),
    ],
)
def test_the_package_that_a_message_names_first(message: str, subject: str) -> None:
    """Kernels before the frameworks around them, a longer name before the one that it begins with, in any language."""
    assert named_in(message) == subject


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("fatal error C1083: Cannot open include file: 'Python.h'", "node.system", "Windows"),
        ("LINK : fatal error LNK1181: cannot open input file", "node.system", "Windows"),
        ("c:\\\\Users\\\\me\\\\x.py", "node.system", "Windows"),
        ("RuntimeError: x on device mps:0", "node.system", "macOS"),
        ("x86_64-conda-linux-gnu-cc: error", "node.system", "Linux"),
        ("torch.__version__ = 2.5.1+rocm6.2", "torch.hip", "6.2"),
        ("PyTorch version: 2.5\nROCM version: 6.1", "torch.hip", "6.1"),
        ("PyTorch version (GPU?): 2.0.1+cu117 (True)", "package.torch.version", "2.0.1+cu117"),
        ("- `Accelerate` version: 0.34.2", "package.accelerate.version", "0.34.2"),
    ],
)
def test_a_line_shows_the_system(text: str, name: str, value: str) -> None:
    """Compilers, linkers and versions are signs as good as paths."""
    told = explain_text(f"{text}\nRuntimeError: x rror:", [_ANY], FactSet()).facts

    assert told.text(name) == value


def test_a_gpu_of_a_small_board_tells_the_board() -> None:
    """Also where the GPU was stated beside the log: torch's usual index has nothing for it."""
    stated = assume(FactSet(), ["gpu.0.name=NVIDIA Jetson Nano"])
    found = explain_text("AssertionError: Torch not compiled with CUDA enabled", bundled(), stated).diagnosis.findings

    assert "Jetson" in found[0].remedies[0].title


@pytest.mark.parametrize(("module", "name"), [("_XLAC", "torch-xla"), ("_my_kernels", "my"), ("_qutlass_C", "qutlass")])
def test_no_distribution_begins_with_a_line(module: str, name: str) -> None:
    """The compiled part of a package on no list, by its module."""
    assert distribution_of(module) == name


def test_a_repository_of_torch_hub_is_not_torch() -> None:
    """It lies in a cache called torch, and its own code fails."""
    frame = '  File "/home/u/.cache/torch/hub/facebookresearch_dinov2_main/dinov2/layers/block.py", line 3, in f\n'

    assert _subject(f"{_HEAD}{frame}    g()\nAssertionError: an rror: of the sizes") != "torch"
    assert _subject(f"{_HEAD}{_FRAME.format('torch/hub.py')}RuntimeError: an rror: of the sizes") == "torch"
