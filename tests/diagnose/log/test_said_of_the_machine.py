"""What sentences and paths of a log tell of GPU, engine, system and compiler."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log import images
from attn_doctor.diagnose.log.facts import Clues
from attn_doctor.diagnose.log.unit import Line


def _told(*texts: str) -> dict[str, object]:
    clues = Clues()
    for number, text in enumerate(texts, 1):
        clues.see(Line(number=number, text=text))
    return {str(one.name): getattr(one.state, "value", None) for one in clues.facts("a.log")}


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ('The issue "FlashAttention only supports Ampere GPUs or newer" came when using Tesla V100 for it', "7.0"),
        ("(T4 GPU) RuntimeError: FlashAttention only supports Ampere GPUs or newer.", "7.5"),
        ("FlashAttention only supports Ampere GPUs or newer, and I have a RTX 2080 Ti", "7.5"),
        ("Flash attention needs an NVIDIA A100 GPU or newer", None),
        ("the kernel does not compile on our old V100 nodes, and works on the A100 partition", "7.0"),
        ("It works fine on an RTX 4090. On the T4 it raises", "7.5"),
        ("It does not work on the RTX 4090", "8.9"),
    ],
)
def test_what_a_kernel_asks_for_is_not_what_is_there(text: str, capability: str | None) -> None:
    assert _told(text).get("gpu.0.compute_capability") == capability


@pytest.mark.parametrize(
    ("text", "capability"),
    [
        ("on my new PC (RTX 5090). I updated PyTorch nightly with sm_90 support", "12.0"),
        ("NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible: sm_50 sm_60", "12.0"),
        ("Card is a 1660S", "7.5"),
        ("my card: 3060", "8.6"),
        ("我的显卡是tesla T4， 在ubuntu22.04下使用", "7.5"),
        ("running on 2x 3090", "8.6"),
        ("RTX 4090 and A100 (sm_80)", "8.0"),  # two names: the number decides
        ("The model card is 3060 lines long", None),
        ("Problems on RTX 5000 series", "12.0"),
        ("on my 30 series card", "8.6"),
        ("我用50系显卡", "12.0"),
        ("RTX 20 series or newer is required", None),
        ("the 20 series of papers", None),
        ("When I run this project on 3090, there is a CUDA error", "8.6"),
        ("listening on 5090", None),
        ("The prompt with 2080 tokens fails: CUDA error: no kernel image is available", None),
        ("trained for 3060 steps, then CUDA error: device-side assert", None),
        ("listening on 5060, GPU memory 80 GiB", None),
        ("I use an AMD Radeon RX 5000 series card with ROCm", None),
        ("Quadro RTX 5000 series card", "7.5"),
        ("PyTorch 2.7 with CUDA 12.8 is the first with kernels for RTX 50 series", None),
        ("共有50系统 GPU", None),
    ],
)
def test_a_name_counts_before_a_number_of_a_build(text: str, capability: str | None) -> None:
    assert _told(text).get("gpu.0.compute_capability") == capability


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("When I tried to start it using vllm, I got an error", "vllm"),
        ("我使用vllm部署这个模型", "vllm"),
        ("Deployed the model with SGLang on two GPUs", "sglang"),
        ("It works when I serve it with vllm, with transformers it does not", None),
        ("GRPO training that rolls out using vLLM stops", None),
        ("installed with vllm-flash-attn", None),
    ],
)
def test_a_person_names_the_engine(text: str, engine: str | None) -> None:
    assert _told(text).get("log.engine") == engine


def test_wsl_is_a_linux() -> None:
    assert _told("- OS: Windows 10 WSL Ubuntu 24")["node.system"] == "Linux"
    assert _told("- OS: Windows 10")["node.system"] == "Windows"
    assert "node.system" not in _told("It fails on Windows 11", "and runs in WSL2")


def test_a_name_of_windows_in_python() -> None:
    assert _told("os.name= nt")["node.system"] == "Windows"


def test_the_index_that_torch_came_from_tells_its_cuda() -> None:
    assert _told("PyTorch Nightly: installed from https://example.org/whl/nightly/cu121")["torch.cuda"] == "12.1"
    assert _told("pip install torch==2.5.1 --index-url https://example.org/whl/cu118")["torch.cuda"] == "11.8"
    assert "torch.cuda" not in _told("Please install torch from https://example.org/whl/cu128")


def test_paths_of_a_build_tell_nvcc_and_torch_s_cuda() -> None:
    told = _told(
        r"Using C:\Users\a\AppData\Local\torch_extensions\torch_extensions\Cache\py310_cu117 as PyTorch root",
        r"[1/2] C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.0\bin\nvcc --generate-dependencies-with-compile",
    )
    assert (told["torch.cuda"], told["cuda.nvcc"], told["python.version"]) == ("11.7", "11.0", "3.10")
    assert told["log.nvcc_of_another_cuda"] == "11.0"


def test_a_newer_minor_release_of_nvcc_is_none_of_another_cuda() -> None:
    told = _told("/home/a/.cache/torch_extensions/py311_cu124/x/build.ninja", "/usr/local/cuda-12.6/bin/nvcc -c x.cu")
    assert told["cuda.nvcc"] == "12.6"
    assert "log.nvcc_of_another_cuda" not in told


def test_the_distribution_s_nvcc() -> None:
    assert _told("[1/2] /usr/bin/nvcc  -DTORCH_EXTENSION_NAME=x -c x.cu")["cuda.nvcc_path"] == "/usr/bin/nvcc"


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("CUDA SETUP: Loading binary C:/v/bitsandbytes/libbitsandbytes_cuda116.dll...", ("0.43", "11.6")),
        ('  File "/e/site-packages/bitsandbytes/cuda_setup/main.py", line 9', ("0.43", None)),
        ("Could not find the bitsandbytes CUDA binary at libbitsandbytes_cuda124.so", (None, None)),
    ],
)
def test_how_old_bitsandbytes_is(line: str, facts: tuple[str | None, str | None]) -> None:
    """Only its releases before 0.43 speak so, and say which library they chose."""
    told = _told(line)
    assert (told.get("log.bitsandbytes_before"), told.get("log.bitsandbytes_cuda")) == facts


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("I followed the quick start with Docker compose", ("docker compose", None)),
        ("docker-compose run -d jupyterlab", ("docker compose", "Docker")),
        ("docker run -it image", (None, "Docker")),
        ("decompose the matrix", (None, None)),
    ],
)
def test_what_started_the_container(line: str, facts: tuple[str | None, str | None]) -> None:
    told = _told(line)
    assert (told.get("log.compose"), told.get("log.container")) == facts


@pytest.mark.parametrize(
    ("line", "handed"),
    [
        ("singularity exec --nv img.sif python train.py", "Apptainer"),
        ("docker run -it --rm --gpus all image", "Docker"),
        ("docker run --runtime nvidia image", "Docker"),
        ("podman run --device nvidia.com/gpu=all image", "Docker"),
        ("docker run -it image --gpus-of-moon", None),
        ("apptainer run img.sif", None),
    ],
)
def test_gpus_are_handed_to_a_container(line: str, handed: str | None) -> None:
    assert _told(line).get("log.gpus_handed") == handed


@pytest.mark.parametrize(
    ("line", "podman"),
    [
        ("podman run --rm -it --gpus all image", True),
        ("I use Podman 5 in WSL", True),
        ("started with docker or podman", False),
        ("podman, docker: both work", False),
        ("docker run -it image", False),
    ],
)
def test_podman_is_told(line: str, podman: bool) -> None:
    assert (_told(line).get("log.podman") is not None) == podman


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("macbook m1", "node.system", "macOS"),
        ("macOS M3", "node.system", "macOS"),
        ("I run it in Google Colab", "python.environment", "notebook"),
        ("It works on Colab, and here it does not", "python.environment", None),
        ("on Colab it runs", "python.environment", None),
        ("MacBook Pro 2019, torch 2.2", "node.system", "macOS"),
        ("it runs on a server and not on the MacBook Pro of a friend", "node.system", None),
        (" macOS 14 M2", "node.system", "macOS"),
        ("(base) me@MacBook-Pro % python run.py", "node.system", "macOS"),
        ("Windows", "node.system", "Windows"),
        ("Stable diffusion webui, Windows, AMD Radeon RX 580", "node.system", "Windows"),
        ("The windows of attention are local", "node.system", None),
        ("DGX Spark", "gpu.0.compute_capability", "12.1"),
        ("L40S", "gpu.0.compute_capability", "8.9"),
        ("on 8xH100", "gpu.0.compute_capability", "9.0"),
        ("H100, torch 2.8", "gpu.0.compute_capability", "9.0"),
        ("V100 32G * 8", "gpu.0.compute_capability", "7.0"),
        ("a server with 4 A100s", "gpu.0.compute_capability", "8.0"),
        ("running it on a single h100 node", "gpu.0.compute_capability", "9.0"),
        ("硬件3090*8", "gpu.0.compute_capability", "8.6"),
        ("it took 2 A100 days", "gpu.0.compute_capability", None),
        ("supports 4 A100 GPUs or more", "gpu.0.compute_capability", None),
        ("# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64", "log.board", "Jetson"),
        ("cat /etc/nv_tegra_release", "log.board", "Jetson"),
        ("# R36 (release) of the paper", "log.board", None),
        ("Raspberry Pi 5, aarch64", "node.machine", "aarch64"),
        ("torch==2.6.0+cpu installed", "package.torch.version", "2.6.0+cpu"),
        ("torch==2.6.0+cpu installed by pip is too old", "package.torch.version", None),
        ("Kaggle notebook", "python.environment", "notebook"),
    ],
)
def test_a_line_of_its_own_says_what_somebody_has(text: str, name: str, value: str | None) -> None:
    assert _told(text).get(name) == value


@pytest.mark.parametrize("text", ["total = 2*L4 + 3*x", "model = 2*T4 + w", "loss = 3 * A100 - b"])
def test_arithmetic_is_no_gpu(text: str) -> None:
    assert "gpu.0.compute_capability" not in _told(text)


@pytest.mark.parametrize(
    ("text", "capability"), [("2*T4, 16 GB each", "7.5"), ("Kaggle: 2xT4", "7.5"), ("8*A100", "8.0")]
)
def test_a_count_is_one(text: str, capability: str) -> None:
    assert _told(text).get("gpu.0.compute_capability") == capability


@pytest.mark.parametrize(
    ("text", "scheduler"),
    [
        ("We do not run in Kubernetes, it is a plain PC", None),
        ("I do not run on a Slurm cluster", None),
        ("this is not a Slurm cluster", None),
        ("it does not run on a Slurm cluster", "Slurm"),
        ("there is no GPU in the Kubernetes pod", "Kubernetes"),
        ("We run in Kubernetes", "Kubernetes"),
    ],
)
def test_a_scheduler_that_is_denied_is_not_there(text: str, scheduler: str | None) -> None:
    assert _told(text).get("log.scheduler") == scheduler


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("nginx: dynamic module load failed", False),
        ("the module load order changed", False),
        ("$ module load cuda/12.4", True),
    ],
)
def test_modules_are_those_of_a_cluster(text: str, there: bool) -> None:
    assert ("log.modules" in _told(text)) is there


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("docker run --rm img python t.py   # I have not tried docker run --gpus all img yet", False),
        ("docker run --gpus all img python t.py", True),
        ("It does not work: docker run --rm --gpus all img", True),
    ],
)
def test_a_container_that_is_to_come_was_given_nothing(text: str, given: bool) -> None:
    assert images.hands_gpus(text) is given
