"""What is to be installed stands as a person types it there: its name, the torch beside it, the right pip."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.engines import engine_of
from attn_doctor.diagnose.log.images import SIGNS, container_in
from attn_doctor.diagnose.log.modules_wanted import checkout_of
from attn_doctor.diagnose.log.two_packages import asked_for, caller_and_callee
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Remedy
from attn_doctor.recipes.data.modules import distribution_with
from attn_doctor.recipes.shelf import bundled, families
from attn_doctor.report.language.translated import finding as in_chinese

MISSING = "ModuleNotFoundError: No module named '{}'\n"


def first(log: str) -> Remedy:
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0]


def typed(log: str) -> str:
    return " ".join(command for action in first(log).actions for command in action.commands)


def frame(path: str) -> str:
    return f'Traceback (most recent call last):\n  File "{path}", line 12, in <module>\n    import x\n'


@pytest.mark.parametrize(
    ("module", "requirement", "around"),
    [
        ("peft", "peft", True),
        ("open_clip", "open-clip-torch", True),
        ("cv2", "opencv-python", False),
        ("src", None, None),
    ],
)
def test_a_module_has_its_distribution(module: str, requirement: str | None, around: bool | None) -> None:
    found = distribution_with(module)

    assert (found.requirement if found else None) == requirement
    assert (found.around_torch if found else None) is around


def test_a_folder_of_ones_own_is_no_checkout_of_a_known_package() -> None:
    assert "openai-whisper" in typed(frame("/home/ann/whisper/app.py") + MISSING.format("whisper"))
    assert "-e /home/ann/peft" in typed(frame("/home/ann/peft/examples/sft/train.py") + MISSING.format("peft"))


def test_what_asks_for_torch_is_asked_for_beside_the_one_that_is_there() -> None:
    old = "torch==1.13.1+cu117\nPython 3.8.12\n" + frame("/home/ann/project/train.py")

    assert typed(old + MISSING.format("peft")) == "python -m pip install 'peft<0.14' torch==1.13.1"
    assert typed(old + MISSING.format("cv2")) == "python -m pip install opencv-python"
    assert typed(old + MISSING.format("llava")).endswith(
        "--no-deps --no-build-isolation git+https://github.com/haotian-liu/LLaVA.git"
    )
    metadata = "importlib.metadata.PackageNotFoundError: No package metadata was found for accelerate\n"
    assert "install 'accelerate<1.8' torch==1.13.1" in typed(old + metadata)


@pytest.mark.parametrize(
    ("path", "module", "folder"),
    [
        ("/home/ann/RoboVLMs/main.py", "robovlms", "/home/ann/RoboVLMs"),
        ("D:\\work\\fish-speech-main\\tools\\run.py", "fish_speech", "D:/work/fish-speech-main"),
        ("/env/lib/python3.11/site-packages/peft/peft_model.py", "peft", None),
        ("/home/ann/utils/main.py", "utils", None),
        ("/home/ann/project/main.py", "mamba", None),
    ],
)
def test_a_checkout_called_like_the_module_brings_it(path: str, module: str, folder: str | None) -> None:
    assert checkout_of(module, [path]) == folder


SITE = "/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("paths", "message", "found"),
    [
        (
            ["/home/ann/run.py", f"{SITE}/parler_tts/modeling.py", f"{SITE}/transformers/generation/utils.py"],
            "TypeError: f() takes 3 positional arguments but 4 were given",
            ("parler-tts", "transformers"),
        ),
        (
            [f"{SITE}/nemo/collections/llm/api.py"],
            "ImportError: cannot import name 'AttnBackend' from 'megatron.core.transformer.enums'",
            ("nemo-toolkit", "megatron-core"),
        ),
        (["/home/ann/run.py", f"{SITE}/transformers/generation/utils.py"], "TypeError: f() takes 3", None),
        (
            [f"{SITE}/vllm/worker/x.py", f"{SITE}/torch/nn/modules/module.py"],
            "AttributeError: 'Layer' object has no attribute 'x'",
            None,
        ),
    ],
)
def test_caller_and_callee_are_two_packages(paths: list[str], message: str, found: tuple[str, str] | None) -> None:
    assert caller_and_callee(paths, message) == found


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("ImportError: cannot import name 'f' from 'torch._dynamo.eval_frame' (/e/x.py)", "torch._dynamo.eval_frame.f"),
        ("AttributeError: module 'torch' has no attribute 'dml'", "torch.dml"),
        ("AttributeError: 'MoonConfig' object has no attribute 'attention_bias'", "MoonConfig.attention_bias"),
        ("type object 'BACKEND' has no attribute 'EXLLAMA_V1'", "BACKEND.EXLLAMA_V1"),
        ("TypeError: Mixin._position() takes 3 positional arguments but 4 were given", "Mixin._position()"),
        ("TypeError: make.<locals>.inner() got an unexpected keyword argument 'cache'", "inner(cache=)"),
        ("No module named 'vllm.transformers_utils.tokenizer'", "vllm.transformers_utils.tokenizer"),
        ("No module named 'vllm'", None),  # the whole package is missing
        ("'NoneType' object has no attribute 'x'", None),
        ("TypeError: __init__() missing 1 required positional argument: 'x'", None),
        (
            "cannot import name 'a' from 'b'\nDuring handling: AttributeError: module 'cc' has no attribute 'd'",
            "cc.d",
        ),
    ],
)
def test_what_is_asked_for(message: str, asked: str | None) -> None:
    assert asked_for(message) == asked


def test_the_title_names_what_is_asked_for() -> None:
    """And says it in general where the message does not."""

    def title(text: str) -> str:
        (finding,) = explain_text(text, [*bundled(), *families()], FactSet()).diagnosis.findings
        assert finding.id == "packages-of-two-times"
        return finding.title

    assert title("import torch\nImportError: cannot import name 'f_x' from").startswith("One package calls another")
    assert title("AttributeError: 'MoonForCausalLM' object has no attribute 'merge_and_unload'").startswith(
        "MoonForCausalLM.merge_and_unload: what asks for it was written for another release"
    )


@pytest.mark.parametrize(
    ("line", "container"),
    [
        ("docker run --gpus all -it image:latest", "Docker"),
        ("#11 [5/8] RUN pip install flash-attn", "Docker"),
        ("FROM nvidia/cuda:12.4.1-devel-ubuntu22.04", "Docker"),
        ("I run it in a Docker container of my own", "Docker"),
        ("I use the pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime image", "Docker"),
        ("a container from https://hub.docker.com/r/pytorch/pytorch, only images whose names", None),
        ("apptainer exec --nv image.sif python train.py", "Apptainer"),
        ("It works without docker", None),
        ("from torch import nn", None),
        ("SELECT x FROM models", None),
    ],
)
def test_an_image_is_told(line: str, container: str | None) -> None:
    assert container_in(line) == container
    assert container is None or any(sign in line for sign in SIGNS)


def test_what_is_installed_in_an_image_has_to_last() -> None:
    log = frame("/opt/app/train.py") + MISSING.format("bitsandbytes")

    assert typed(log).endswith("bitsandbytes")
    assert "as RUN in its Dockerfile" in typed("docker run --gpus all image\n" + log)
    assert "%post" in typed("singularity exec --nv image.sif python train.py\n" + log)


def test_words_that_say_pip_are_followed_by_the_programs_own() -> None:
    log = (
        "D:\\ComfyUI_windows_portable>.\\python_embeded\\python.exe -s ComfyUI\\main.py\n"
        "RuntimeError: Cannot find a working triton installation. Either the package is not installed or it is too"
        " old.\n"
    )
    result = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0]

    said = [action.action.advice for action in result.remedies[0].actions]
    assert said[-1] == "pip here: .\\python_embeded\\python.exe -m pip install, from the program's own folder."
    assert in_chinese(result).remedies[0].actions[-1].action.advice.startswith("这里的 pip：")


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("MacBook Pro M2, macOS 14\n", "Windows and macOS have no NCCL"),
        ("Radeon RX 7900 XTX, torch 2.5.1+rocm6.2\n", "torch for ROCm has RCCL"),
        ("Ascend 910B, torch_npu 2.5.1\n", "An Ascend NPU has HCCL"),
        ("Intel Arc A770, torch 2.8.0+xpu\n", "An Intel GPU has XCCL"),
    ],
)
def test_who_has_no_nccl_is_told_what_is_there_in_its_place(before: str, words: str) -> None:
    """What is said of NVIDIA beside it does not take the text away from a Mac that its condition names."""
    assert first(before + "RuntimeError: Distributed package doesn't have NCCL built in\n").title.startswith(words)


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("When serving Qwen3.5 AWQ models with vLLM on an RTX 5090", "vllm"),
        ("I deployed the model on a serverless worker (vLLM), however there is an error", "vllm"),
        ("I know that LMDeploy runs it, but can I do so via SGLang?", "sglang"),
        ("Training works with vLLM", None),
        ("It is described in our paper (vLLM)", None),
    ],
)
def test_words_tell_the_engine_that_serves(line: str, engine: str | None) -> None:
    assert engine_of(Line(number=1, text=line)) == engine
