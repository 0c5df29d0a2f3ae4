"""The node itself: operating system, container, job, ROCm, and the relevant environment variables."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes

#: Variables that change which libraries are loaded, which kernels run, or how they are built.
VARIABLES = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES", "CUDA_HOME", "CUDA_PATH", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
    "TORCH_CUDA_ARCH_LIST", "TORCH_CUDNN_SDPA_ENABLED", "TORCH_CUDNN_SDPA_PREFERRED",
    "TORCH_CUDNN_SDPA_DEPRIORITIZED", "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "PYTORCH_ROCM_ARCH",
    "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE",
    "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBCUDA_PATH", "TRITON_CACHE_DIR",
    "TRITON_F32_DEFAULT", "TRITON_INTERPRET", "CC", "FLASH_ATTENTION_FORCE_BUILD",
    "FLASH_ATTENTION_SKIP_CUDA_BUILD", "FLASH_ATTENTION_TRITON_AMD_ENABLE", "FLASH_ATTENTION_DETERMINISTIC",
    "FLASH_ATTN_CUDA_ARCHS", "XFORMERS_DISABLED", "XFORMERS_DISABLE_FLASH_ATTN", "XFORMERS_FORCE_DISABLE_TRITON",
    "XFORMERS_IGNORE_FLASH_VERSION_CHECK", "NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN",
    "NVTE_FRAMEWORK", "VLLM_ATTENTION_BACKEND", "VLLM_FLASH_ATTN_VERSION", "FLA_USE_FAST_OPS",
    "FLA_TRIL_PRECISION", "FLA_USE_TMA", "FLA_CONV_BACKEND", "FLA_DISABLE_BACKEND_DISPATCH", "FLA_TILELANG",
    "FLASHINFER_CUDA_ARCH_LIST", "ACCELERATE_MIXED_PRECISION", "NCCL_NVLS_ENABLE", "DS_SKIP_CUDA_CHECK",
)  # fmt: skip


#: All variables of these libraries: they read more than can be listed, and ranks with different values hang.
_FAMILIES = (
    "NCCL_", "TORCH_NCCL_", "RCCL_", "TRITON_", "FLASH_ATTENTION_", "FLASH_ATTN_", "XFORMERS_", "NVTE_", "FLA_",
    "TORCH_CUDNN_",
)  # fmt: skip
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CRED")
_LONGEST_VALUE = 2000


def probe(environment: Mapping[str, str], *, root: Path = Path("/")) -> tuple[Fact, ...]:
    """Everything that can be found without starting a process. `root` is another folder in tests."""
    notes = FactNotes()
    name = environment.get("SLURMD_NODENAME")
    notes.known("node.hostname", name or os.uname().nodename, "SLURMD_NODENAME" if name else "gethostname()")
    notes.known("node.system", os.uname().sysname, "uname -s")
    notes.known_or_absent("node.os", _os_name(root), "/etc/os-release")
    notes.known("node.kernel", os.uname().release, "uname -r")
    notes.known("node.machine", os.uname().machine, "uname -m")
    notes.known_or_absent("node.container", _container(environment, root), "container marker files and variables")
    notes.known_or_absent("node.slurm_job", environment.get("SLURM_JOB_ID"), "SLURM_JOB_ID")
    notes.known("node.cpus", len(os.sched_getaffinity(0)), "sched_getaffinity")
    notes.known_or_absent("node.memory_mib", _memory_mib(root), "/proc/meminfo")
    notes.known_or_absent("node.gpu_hint", gpu_hint(root), "device nodes, kernel modules and PCI display devices")
    notes.known_or_absent("rocm.version", _rocm(root), "/opt/rocm/.info/version")
    seen = 0
    for variable in VARIABLES:
        value = environment.get(variable)
        seen += value is not None
        notes.known_or_absent(f"env.{variable}", value, "the environment attn-doctor was started with", "not set")
    for variable in relevant(environment):
        if variable not in VARIABLES:
            seen += 1
            notes.known(
                f"env.{variable}",
                _shown(variable, environment[variable]),
                "the environment attn-doctor was started with",
            )
    notes.known("listed.env", seen, "the environment attn-doctor was started with")
    return notes.facts()


def relevant(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The relevant variables that are set, sorted."""
    return tuple(
        name
        for name in sorted(environment)
        if name in VARIABLES or (name.startswith(_FAMILIES) and re.fullmatch(r"\w+", name))
    )


def _shown(variable: str, value: str) -> str:
    """A value in a form that may be published in a report."""
    if _SECRET.search(variable.upper()):
        return "(set, not shown)"
    value = re.sub(r"//[^/@\s]+@", "//", value)
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}… ({len(value)} characters)"


def gpu_hint(root: Path = Path("/")) -> str | None:
    """A sign of a GPU that is visible without the driver library."""
    for path in ("proc/driver/nvidia/version", "dev/nvidiactl", "dev/dxg", "dev/kfd"):
        if (root / path).exists():
            return f"/{path} is there"
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        with contextlib.suppress(OSError):
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
            if vendor in ("0x10de", "0x1002") and kind.startswith(("0x0300", "0x0302", "0x0380", "0x1200")):
                maker = "NVIDIA" if vendor == "0x10de" else "AMD"
                return f"PCI device {device.name} is a display or compute device of {maker}"
    return None


def _os_name(root: Path) -> str | None:
    with contextlib.suppress(OSError):
        text = (root / "etc/os-release").read_bytes().decode(errors="replace")  # distributions use any encoding
        match = re.search(r'^PRETTY_NAME="?([^"\n]+)', text, re.MULTILINE)
        return match[1] if match else None
    return None


def _container(environment: Mapping[str, str], root: Path) -> str | None:
    for variable, runtime in (
        ("APPTAINER_NAME", "apptainer"),
        ("SINGULARITY_NAME", "singularity"),
        ("ENROOT_ROOTFS", "enroot"),
        ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ):
        if environment.get(variable):
            return runtime
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return environment.get("container")


def _memory_mib(root: Path) -> int | None:
    with contextlib.suppress(OSError):
        match = re.search(r"^MemTotal:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
        return int(match[1]) // 1024 if match else None
    return None


def _rocm(root: Path) -> str | None:
    with contextlib.suppress(OSError):
        text = (root / "opt/rocm/.info/version").read_bytes().decode(errors="replace")
        match = re.match(r"\d+(\.\d+)+", text.strip())
        return match[0] if match else None
    return None
