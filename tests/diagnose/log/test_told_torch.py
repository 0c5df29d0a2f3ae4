"""What a log tells of torch and the machine names the published wheel that fits."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

SYMBOL = (
    "ImportError: /e/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: "
    "undefined symbol: _ZN3c104cuda9SetDeviceEi"
)


def first_fix(log: str) -> str:
    """Identity, words and commands of the first finding's first remedy."""
    first = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0]
    return "\n".join(
        [first.id, *(one.action.advice for one in first.actions), *(c for a in first.actions for c in a.commands)]
    )


def told(log: str, name: str) -> object:
    return explain_text(log, (), FactSet()).facts.value(name)


@pytest.mark.parametrize(
    ("torch", "wheel"),
    [
        ("torch 2.4.0+cu121", "cu12torch2.4cxx11abiFALSE-cp310"),
        ("torch.__version__  = 2.3.1+cu121", "cu12torch2.3cxx11abiFALSE-cp310"),
        ("Name: torch\nVersion: 2.6.0", "cu12torch2.6cxx11abiFALSE-cp310"),  # the registry's: CUDA 12.4
        ("torch 2.6.0+cu126", "cu12torch2.6cxx11abiTRUE-cp310"),
        ("torch 2.7.1", "cu12torch2.7cxx11abiTRUE-cp310"),
        ("torch 2.2.2\nCUDA 11.8", "cu11torch2.2cxx11abiFALSE-cp310"),
    ],
)
def test_the_wheel_for_the_torch_of_the_log(torch: str, wheel: str) -> None:
    assert wheel in first_fix(f"{torch}\n{SYMBOL}")


@pytest.mark.parametrize(
    "log",
    [
        "torch 2.6.0+cpu",
        "torch 2.4.0a0+3bcc3cddb5.nv24.07",
        "torch 2.3.1.post100",
        "torch 2.4.1\ntools, release 11.8, V11.8.89\nCUDA 12.1",
    ],
)
def test_no_build_is_taken_for_a_published_one_that_is_none(log: str) -> None:
    assert told(f"{log}\n{SYMBOL}", "torch.cxx11_abi") is None


def test_no_wheel_of_a_pc_is_for_arm64() -> None:
    assert told(f"torch 2.6.0\n{SYMBOL.replace('x86_64', 'aarch64')}", "torch.cxx11_abi") is None


def test_the_container_of_nvidia_keeps_its_own() -> None:
    assert first_fix(f"torch 2.4.0a0+3bcc3cddb5.nv24.07\n{SYMBOL}").startswith("build-in-nvidias-container")


@pytest.mark.parametrize(
    ("package", "folder", "torch", "wheel"),
    [
        ("causal_conv1d", "causal-conv1d", "2.4.1+cu121", "causal_conv1d-1.5.0.post8+cu12torch2.4cxx11abiFALSE-cp311"),
        ("mamba_ssm", "mamba-ssm", "2.0.1+cu118", "mamba_ssm-2.2.2+cu118torch2.0cxx11abiFALSE-cp311"),
    ],
)
def test_no_compiler_and_a_wheel_that_takes_none(package: str, folder: str, torch: str, wheel: str) -> None:
    log = (
        f'  File "/tmp/pip-install-a/{folder}_7721d6a781ed44e89dfcba384dc3416f/setup.py", line 185, in <module>\n'
        f"      NameError: name 'bare_metal_version' is not defined\n      torch.__version__  = {torch}\n"
        "copying x.py to build/lib.linux-x86_64-cpython-311/x.py"
    )

    assert wheel in first_fix(log)
    assert "name-the-toolkit" in first_fix(log.replace(torch, "2.4.0a0+nv1"))


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("flash attention: 2.6.3", "2.6.3"),
        ("flash-attention 2.5.8", "2.5.8"),
        ("Name: flash_attn\nVersion: 2.7.4.post1", "2.7.4.post1"),
        ("You are attempting to use Flash Attention 2.0 with a model on the CPU", None),
        ("Flash Attention 2: on", None),
    ],
)
def test_flash_attn_in_words(line: str, version: str | None) -> None:
    assert told(line, "package.flash-attn.version") == version


@pytest.mark.parametrize(
    ("line", "capability"),
    [("gpu: 3090", "8.6"), ("gpu: 4090 x2", "8.9"), ("gpu: A100", "8.0"), ("gpu: step 3090", None)],
)
def test_gpus_in_lower_case(line: str, capability: str | None) -> None:
    assert told(line, "gpu.0.compute_capability") == capability


def test_the_interpreter_that_ran_is_believed() -> None:
    """`pip list` of another Python stands in the same report."""
    log = (
        "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
        "    PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.0.1+cu118)\n"
        " torch                  2.3.0+cu121\n"
    )

    assert told(log, "torch.version") == "2.0.1+cu118"
    assert "xformers==0.0.22" in first_fix(log)
    assert "index-url" not in first_fix(log)


@pytest.mark.parametrize(
    ("torch", "cause"), [("12.4", "cuda-library-not-on-path"), ("13.0", "cuda-runtime-major-mismatch")]
)
def test_a_library_of_torchs_own_cuda(torch: str, cause: str) -> None:
    missing = "ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory"
    log = f"torch 2.9.1+cu{torch.replace('.', '')}\n{missing}"

    assert explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].id == cause


def test_an_old_python_has_the_wheel_of_its_time() -> None:
    said = first_fix(f"torch 2.1.0+cuda12.1\n{SYMBOL.replace('310', '38').replace('3.10', '3.8')}")

    assert said.startswith("reinstall-flash-attn")
    assert "flash_attn-2.7.0.post2+cu12torch2.1cxx11abiFALSE-cp38-cp38-linux_x86_64.whl" in said


def test_a_build_as_people_write_it() -> None:
    assert told("torch2.2.0+cuda11.8", "torch.cuda") == "11.8"


def test_a_version_ends_before_the_sentence_does() -> None:
    """With its build, and without the full stop."""
    assert told("I have torch 2.6.0+cu124. It fails.", "package.torch.version") == "2.6.0+cu124"


@pytest.mark.parametrize("asked", [">>> torch.__version__\n'1.6.0+cu101'", "print(torch.__version__)\n1.6.0+cu101"])
def test_the_answer_of_an_interpreter(asked: str) -> None:
    assert told(asked, "package.torch.version") == "1.6.0+cu101"


def test_another_question_has_another_answer() -> None:
    assert told(">>> numpy.__version__\n'1.26.0'", "package.torch.version") is None


def test_a_chosen_list_gives_way_to_the_torch_that_is_there() -> None:
    listed = "pip install torch-scatter -f https://data.pyg.org/whl/torch-1.11.0+cu115.html"

    assert told(listed, "package.torch.version") == "1.11.0"
    assert told(f"with pytorch 1.12.1 here\n{listed}", "package.torch.version") == "1.12.1"


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("transformers-4.49.0", "4.49.0"),
        (" - transformers-4.49.0", "4.49.0"),
        ("      Successfully uninstalled transformers-4.40.1", None),
        ("transformers-4.49.0.dist-info", None),
    ],
)
def test_a_list_made_by_hand(line: str, version: str | None) -> None:
    assert told(line, "package.transformers.version") == version


@pytest.mark.parametrize("slash", ["/", "\\"])
def test_the_torch_that_pip_builds_beside_is_not_the_one_that_is_there(slash: str) -> None:
    """Without --no-build-isolation a setup.py imports the newest torch, and prints its release."""
    overlay = "/tmp/pip-build-env-x9/overlay/lib/python3.10/site-packages/torch/functional.py:2: UserWarning: no NumPy"
    log = f"{overlay.replace('/', slash)}\ntorch.__version__  = 2.7.0+cu126\nRuntimeError: no nvcc"

    assert told(log, "torch.version") is None
    assert told(f"torch 2.0.1+cu118\n{log}", "torch.version") == "2.0.1+cu118"
    assert told(f"{log}\n[end of output]\nPyTorch version: 2.1.2+cu118", "torch.version") == "2.1.2+cu118"
    assert told(log.replace("torch" + slash, "numpy" + slash), "torch.version") == "2.7.0+cu126"


def test_an_answer_with_more_behind_it() -> None:
    """`print(torch.__version__, torch.backends.mps.is_available())`, and the line below."""
    asked = '(cog) % python -c "import torch; print(torch.__version__, torch.backends.mps.is_available())"\n'
    assert told(asked + "2.3.1 True", "package.torch.version") == "2.3.1"


def test_a_wheel_that_is_asked_for_is_no_machine() -> None:
    log = "DGX Spark\npip install https://example.org/flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl"
    assert told(log, "node.machine") == "aarch64"


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("ImportError: You have torch 2.1.2 and this needs 2.4", "2.1.2"),
        ("You have torch 2.1.2 but torch 2.4 is required", "2.1.2"),
        ("RuntimeError: this package needs torch 2.4, found torch 2.1.2", "2.1.2"),
        ("vllm 0.10.0 requires torch==2.7.1, but you have torch 2.8.0+cu128 which is incompatible.", "2.8.0+cu128"),
        ("Disabling PyTorch because PyTorch >= 2.4 is required but found 2.1.2", "2.1.2"),
        ("AssertionError: PyTorch version must be 2.5 or newer, but got 2.3.0+cu121", "2.3.0+cu121"),
        ("current torch: 2.2.2; expected torch 2.4.0", "2.2.2"),
        ("my torch is 2.6.0+cu124, the wheel is for torch 2.7.0", "2.6.0+cu124"),
        ("Your torch version is 2.2.0, which does not have flex_attention (torch 2.5.0)", "2.2.0"),
        ("torch version is 2.5.1+cu124 on this node", "2.5.1+cu124"),
        ("**PyTorch**: 2.5.1+cu124", "2.5.1+cu124"),
        ("print(torch.__version__) gives 2.5.1+cu124", "2.5.1+cu124"),
        ("我的torch的版本是2.5.1", "2.5.1"),
        ("torch版本：2.5.1+cu121", "2.5.1+cu121"),
        ("it runs if torch version is 2.5.1", None),
        ("如果torch版本是2.5.1就可以", None),
        ("torch版本2.5.1以上", None),
        ("torchvision 0.19.0 depends on torch 2.4.0; torch 2.5.1 is installed", "2.5.1"),
        ("Using torch 2.8.0+cu128", "2.8.0+cu128"),
        # asked for, advised, or what something was made with or for
        ("looking for a wheel, torch 2.8.0+cu128, cp312", None),
        ("xformers 0.0.28 requires torch==2.4.0", None),
        ("This wheel was built for torch 2.5", None),
        ("Downloading torch-2.8.0-cp312-cp312-manylinux_2_28_x86_64.whl (888 MB)", None),
        ("sageattention-2.2.0+cu128torch2.8.0.post3-cp39-abi3-win_amd64.whl is not a supported wheel", None),
        ("README says torch 2.1.0 is recommended", None),
        ("please use torch 2.4.0", None),
        ("    PyTorch 2.6.0+cu124 with C", None),
        ("    PyTorch 2.1.0+cu121 with CUDA 1201", None),
        ("    PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.2.0+cu121)", "2.2.0+cu121"),
        ("PyTorch 2.1.0 with CUDA 12.1", "2.1.0"),
        ("the repo pins torch 2.3.0", None),
        ("This code is for PyTorch 1.13.1", None),
        ("flex_attention was added in PyTorch 2.5.0", None),
        ("If you have torch 2.1.2 this needs an upgrade", None),
        ("Make sure you have torch 2.4.0 installed", None),
        ("could not find torch 2.4.0", None),
        ("numpy>=2 is required but found 1.26.4", None),
        ("After the upgrade from torch 2.3.1 to torch 2.4.0 it fails", None),
    ],
)
def test_what_is_there_stands_beside_what_is_asked_for(line: str, there: str | None) -> None:
    assert told(line, "package.torch.version") == there


def test_another_package_is_read_likewise() -> None:
    line = "huggingface-hub>=0.23.2,<1.0 is required for this module, but found huggingface-hub==1.0.0."

    assert told(line, "package.huggingface-hub.version") == "1.0.0"


@pytest.mark.parametrize(
    "asked",
    [">>> torch.version.cuda\n'12.1'", '$ python -c "import torch;print(torch.version.cuda)"\n12.1'],
)
def test_a_question_for_torchs_cuda_and_its_answer(asked: str) -> None:
    nvcc = "RuntimeError: FlashAttention is only supported on CUDA 11.6 and above. nvcc is too old"
    found = explain_text(f"{asked}\n$ pip install flash-attn\n{nvcc}", (*bundled(),), FactSet()).diagnosis.findings[0]

    assert found.id == "nvcc-too-old"
    assert "cuda-12.1" in str(found.remedies[0].actions)
