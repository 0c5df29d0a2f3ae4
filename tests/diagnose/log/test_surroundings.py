"""Signs that spare a line the search for where a log was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.log import clusters, devices, images, surroundings, systems
from attn_doctor.recipes.data.programs import programs as every_row
from attn_doctor.recipes.data.programs import signs

#: Engines are told by their records and processes.
TOLD = [(row, row.told_by) for row in every_row() if row.told_by]

SIGNS = [
    (systems._SYSTEM, systems._MAY_BE_SYSTEM),
    (systems._SAID, systems.MAY_BE_SAID),
    (devices.MADE_FOR, surroundings._MAY_BE),
    (surroundings._JETSON, surroundings._MAY_BE),
    (surroundings._INTERPRETER, surroundings._MAY_BE_INTERPRETER),
    (surroundings._INSTALLER, surroundings._MAY_BE_INSTALLED),
    (surroundings._KEPT, surroundings._MAY_BE_KEPT),
    (surroundings._RUNTIME, surroundings._MAY_BE_RUNTIME),
    (devices.NAMED, devices.SIGNS),
    (images._TOLD, images.SIGNS),
    (clusters._SCHEDULER, clusters.SIGNS),
    (clusters._MODULES, clusters.SIGNS),
    (clusters._HOSTED, clusters.SIGNS),
    (clusters._ASKED, clusters.SIGNS),
    *((told_by, signs()) for _, told_by in TOLD),
]


@pytest.mark.parametrize(("pattern", "signs"), SIGNS)
@given(data=st.data())
def test_a_line_that_is_found_has_a_sign(data: st.DataObject, pattern: re.Pattern[str], signs: tuple[str, ...]) -> None:
    line = data.draw(st.from_regex(re.compile(pattern.pattern, re.ASCII)))
    assert any(sign in line for sign in signs), line


@pytest.mark.parametrize("told_by", [told_by for _, told_by in TOLD], ids=[row.name for row, _ in TOLD])
@given(data=st.data())
def test_a_program_s_line_on_windows_has_a_sign(data: st.DataObject, told_by: re.Pattern[str]) -> None:
    line = data.draw(st.from_regex(re.compile(told_by.pattern, re.ASCII))).replace("/", "\\")
    assert any(sign in line for sign in signs()), line


def _said(line: str) -> set[str]:
    return {value for name, value in surroundings.Surroundings().told(line) if name == surroundings.SAID}


def test_pip_s_own_folder_below_tmp_is_of_linux() -> None:
    line = "/tmp/pip-install-q/causal-conv1d_9/setup.py:108: UserWarning: nvcc was not found"
    assert dict(surroundings.Surroundings().told(line))["node.system"] == "Linux"


def test_a_release_of_triton_windows_is_of_windows() -> None:
    """A requirement of it stands in advice that everybody reads."""
    assert _said("RTX 5090, triton-windows 3.2.0.post18 torch 2.7.1+cu128") == {"Windows"}
    assert _said("triton-windows==3.3.1.post19") == {"Windows"}
    assert not _said("On such a system take triton-windows<3.4, or the newest triton-windows")


def test_a_line_that_names_two_systems_says_both() -> None:
    assert _said("I have the same pytorch on Windows and Ubuntu.") == {"Windows", "Linux"}
    assert _said("when I use Ubuntu, it could be installed") == {"Linux"}
    assert _said("удалили wheels для Windows с CUDA 11.8") == {"Windows"}
    assert _said("Windows embedded python, visual studio 2022") == {"Windows"}
    assert _said("flash-attn unter Windows bauen") == {"Windows"}
    assert _said("Windows環境で動かない") == {"Windows"}


@pytest.mark.parametrize(
    "line",
    [
        "found to be non-existent: {WindowsPath('/usr/local/cuda/lib64')}",
        r"C:\venv\bitsandbytes\cuda_setup\paths.py:27: {WindowsPath('/usr/local/cuda/lib64')}",
    ],
)
def test_a_folder_that_is_only_looked_in_tells_no_system(line: str) -> None:
    assert dict(surroundings.Surroundings().told(line))["node.system"] == "Windows"
    looking = "CUDA_SETUP: WARNING! libcudart.so not found. Searching /usr/local/cuda/lib64..."
    assert "node.system" not in dict(surroundings.Surroundings().told(looking))


def test_the_banner_of_a_container_names_its_maker() -> None:
    told = dict(surroundings.Surroundings().told("NVIDIA Release 22.09 (build 44877844)"))
    assert told["log.image"] == "NVIDIA"
    told = dict(surroundings.Surroundings().told("I run in apptainer container pytorch_24.10 on V100 nodes with --nv"))
    assert told["log.image"] == "NVIDIA"
    assert told["log.container"] == "Apptainer"
    assert "log.image" not in dict(surroundings.Surroundings().told("docker pull pytorch/pytorch:2.5.1-cuda12.4"))


@pytest.mark.parametrize(
    ("line", "build"),
    [
        ("Step 7/12 : RUN pip install flash-attn", "image build"),
        ("#12 [builder 7/12] RUN pip install flash-attn", "image build"),
        (" => ERROR [ 8/10] RUN cd ops && sh make.sh    12.3s", "image build"),
        (
            'ERROR: process "/bin/sh -c python setup.py install" did not complete successfully: exit code: 1',
            "image build",
        ),
        ("It fails during docker build with this:", "image build"),
        ("$ docker run -it --gpus all my_image", "started"),
        ("RUN pip install flash-attn", None),  # a Dockerfile, which may be shown for a container that runs
        ("Epoch [7/12] RUNNING", None),
        ("After docker build the image runs", None),
    ],
)
def test_the_steps_of_an_image_tell_that_it_is_built(line: str, build: str | None) -> None:
    """No GPU is there while it is; where its container was started as well, it is not known what failed."""
    assert dict(surroundings.Surroundings().told(line)).get("log.image_build") == build


@pytest.mark.parametrize(
    "line", [r"C:\>python -m pip install deepspeed", r"copying apex\a.py -> build\lib.win-amd64-cpython-312\apex"]
)
def test_a_prompt_and_a_build_folder_say_windows(line: str) -> None:
    assert dict(surroundings.Surroundings().told(line))["node.system"] == "Windows"


def test_uv_in_brackets_is_an_installer() -> None:
    told = dict(surroundings.Surroundings().told("I was trying `(uv) pip install mambavision`"))
    assert told.get("log.uv_command", "pip") == "pip"


@pytest.mark.parametrize(
    ("shown", "left"),
    [
        (("portable", "desktop"), ["desktop"]),  # the app's own files, and a folder that somebody names
        (("desktop", "dotvenv", "portable"), ["dotvenv"]),  # it was put elsewhere than the app proposes
        (("uv", "dotvenv"), ["uv"]),
        (("dotvenv", "venv"), ["dotvenv", "venv"]),
    ],
)
def test_environments_that_others_explain_go(shown: tuple[str, ...], left: list[str]) -> None:
    assert list(surroundings.one_environment(dict.fromkeys(shown, 1))) == left


def test_the_desktop_app_of_comfyui_is_known_by_its_files() -> None:
    line = (
        r'  File "C:\Users\u\AppData\Local\Programs\@comfyorgcomfyui-electron\resources\ComfyUI\execution.py", line 3'
    )
    assert ("python.environment", "desktop") in list(surroundings.Surroundings().told(line))


def test_the_environment_that_uv_pip_names_is_of_no_project() -> None:
    told = dict(surroundings.Surroundings().told("Using Python 3.11.13 environment at: /w/envs/moon"))
    assert told["log.uv_command"] == "pip"


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("linux (arch) rocm (amd rx6600)", "gfx1032"),
        ("my rx 7900 xtx", "gfx1100"),
        ("AMD Radeon RX 6800 XT", "gfx1030"),
        ("2x AMD Radeon (TM) Pro WX 5100 Graphics", "gfx803"),
        ("bought in tx 6600 of them", None),
        ("prx 6600", None),
        ("rx 6600 and rx 7900 in one machine", None),
    ],
)
def test_a_gpu_of_amd_in_small_letters(line: str, target: str | None) -> None:
    told = dict(surroundings.Surroundings().told(line))
    assert told.get("log.gfx") == target
    assert (told.get("log.made_for") == "AMD") == (target is not None or " and " in line)


@pytest.mark.parametrize(
    ("line", "runtime"),
    [
        ("\tat ai.onnxruntime.OrtSession$SessionOptions.addCUDA(Native Method)", "Java"),
        ("\tat com.shop.Embedder.embed(Embedder.java:31)", "Java"),
        ("   at Shop.Embedder.Embed(String text) in C:\\w\\Embedder.cs:line 31", ".NET"),
        ("    at node:internal/modules/cjs/loader:1554:14", "Node.js"),
        ("terminate called after throwing an instance of 'Ort::Exception'", "C++"),
        ("    Ort::SessionOptions options;", "C++"),
        ("Sort::Exception and Ort::Moon", None),
        ('  File "/w/train.py", line 31, in <module>', None),
        ("java.txt: System.out.println", None),
    ],
)
def test_another_language_than_python(line: str, runtime: str | None) -> None:
    assert dict(surroundings.Surroundings().told(line)).get("log.runtime") == runtime


@pytest.mark.parametrize(
    "text",
    ["系统信息 910B1，python==3.10", "torch==2.2.0 and torch-npu==2.2.0", "Atlas 910_93, CANN 8.2"],
)
def test_an_npu_is_known_by_its_chip_or_its_package(text: str) -> None:
    assert ("log.made_for", "Ascend") in list(surroundings.Surroundings().told(text))
    assert (devices.BESIDE, "Ascend") in list(surroundings.Surroundings().told("import torch_npu"))


def test_a_number_alone_is_no_npu() -> None:
    assert not list(surroundings.Surroundings().told("step 910 of 9100, 910 it/s"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("启动Qwen3-Reranker-4B，选CPU。结果报错：", True),
        ("CPU模式启动报错", True),
        ("I launch bge-reranker-v2-m3 with xinference on CPU", True),
        ("I selected CPU as the device", True),
        ("the image installs the CPU-only version of PyTorch, is there a reason for that?", False),
        ("Flash Attention 2 is not available on CPU. Please make sure torch can access a CUDA device.", False),
        ("move the model to GPU after initializing it on CPU with `model.to('cuda')`", False),
        ("Some parameters are on the meta device because they were offloaded to the cpu.", False),
    ],
)
def test_who_chose_the_cpu_wants_it(line: str, wanted: bool) -> None:
    told = dict(surroundings.Surroundings().told(line))
    assert (told.get("log.device_wanted") == "cpu") is wanted


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("dyld: Library not loaded: /usr/local/opt/moon.dylib", "macOS"),
        ('  File "/opt/anaconda3/lib/python3.12/site-packages/torch/cuda/memory.py", line 374, in moon', None),
        ('  File "/opt/conda/lib/python3.12/site-packages/torch/cuda/memory.py", line 374, in moon', "Linux"),
        ("OSError: /usr/local/lib/libmoon.so: cannot open shared object file", "Linux"),
        ("vLLM only supports Linux platform (including WSL) and MacOS.", None),
    ],
)
def test_the_system_of_a_line_about_a_library(line: str, told: str | None) -> None:
    facts = dict(surroundings.Surroundings().told(line))
    assert facts.get("node.system") == told
    assert "node.kernel" not in facts


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("wsl2 ubuntu 22.04, two RTX 3090", True),
        ("I run it in wsl with Ubuntu", True),
        ("I installed Ubuntu 22.04 for WSL2", True),
        ("take Linux or WSL2", False),
        ("use wsl2 or Docker instead", False),
        ("wsl --update", False),
        ("bare Ubuntu 22.04, no WSL involved", False),
        ("Ubuntu on the metal, not in WSL2", False),
        ("it does not start on WSL2", True),
    ],
)
def test_wsl_is_known_as_people_write_it(line: str, there: bool) -> None:
    facts = dict(surroundings.Surroundings().told(line))
    assert ("node.kernel" in facts) is there


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#SBATCH --gres=gpu:1", {"log.scheduler": "Slurm", "log.gpus_asked": "Slurm"}),
        ("#SBATCH --mem=32G", {"log.scheduler": "Slurm"}),
        ("srun: error: gpu-a-012: task 3: Exited with exit code 1", {"log.scheduler": "Slurm"}),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=991.batch.", {"log.scheduler": "Slurm"}),
        ("kubectl logs vllm-0", {"log.scheduler": "Kubernetes"}),
        ("apptainer exec --nv moon.sif python t.py", {"log.container": "Apptainer", "log.gpus_handed": "Apptainer"}),
        ("$ module load cuda/12.2", {"log.modules": "modules"}),
        ("I tried it on Kaggle with a P100", {"log.hosted": "Kaggle"}),
        ("it works on Kaggle, and not here", {}),
        ("the module loads its weights, the modal value is 3, and the pods are green", {}),
    ],
)
def test_where_a_log_was_written(line: str, told: dict[str, str]) -> None:
    known = dict(surroundings.Surroundings().told(line))
    names = ("log.scheduler", "log.gpus_asked", "log.gpus_handed", "log.modules", "log.hosted", "log.container")
    assert {name: known[name] for name in names if name in known} == told
