"""What a log of a serving engine tells, its release, GPU and switches, decides which fix comes first."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

VLLM = 'File "/e/site-packages/vllm/worker.py", line 9, in init\n'
FIRST = [
    (
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU "
            "has compute capability 7.5. You can use float16 instead by setting the `dtype` flag in CLI, for example: "
            "--dtype=half."
        ),
        "as-the-message-says",
    ),
    (
        VLLM + "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        "dtype-of-the-engine",
    ),
    (
        (
            "ValueError: The quantization method gptq_marlin is not supported for the current GPU. Minimum capability: "
            "80. Current capability: 75."
        ),
        "gptq-without-marlin",
    ),
    (
        "RuntimeError: CUDA driver error (/e/deep_gemm/jit/handle.hpp:9): 200 (device kernel image is invalid)",
        "VLLM_USE_DEEP_GEMM=0,",
    ),
    (
        "GPU: NVIDIA GeForce RTX 5090\nRuntimeError: CUDA driver error (/e/deep_gemm/jit/handle.hpp:9): 200 (invalid)",
        "VLLM_USE_DEEP_GEMM=0",
    ),
    (
        (
            "ValueError: No valid attention backend found. Reasons: {FLASH_ATTN: [kv_cache_dtype not supported, dtype "
            "not supported], TRITON_ATTN: [kv_cache_dtype not supported]}."
        ),
        "--kv-cache-dtype",
    ),
    (
        "ValueError: Selected backend FLASHINFER is not valid. Reason: ['compute capability not supported']",
        "--attention-backend",
    ),
    ("NotImplementedError: FlashMLA V1 with FP8 KV cache not yet supported", "quantized"),
    (
        "/e/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "engine-in-one-set",
    ),
    (
        "vLLM API server version 0.14.1\n" + VLLM + "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "vllm-triton-attention",
    ),
    (
        "an LLM engine (v0.7.3)\n" + VLLM + "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "vllm-v0-xformers",
    ),
    (VLLM + "torch._dynamo.exc.Unsupported: call of a builtin", "--enforce-eager"),
    (
        "ValueError: Head size 72 is not supported by FlashAttention. Set VLLM_ATTENTION_BACKEND=X to go on.",
        "as-the-message-says",
    ),
    (
        VLLM.replace("worker", "fused_moe") + "ValueError: type fp8e4nv not supported in this architecture.",
        "weights-without-triton-fp8",
    ),
    (
        "--kv-cache-dtype fp8\n" + VLLM + "ValueError: type fp8e4nv not supported in this architecture.",
        "cache-in-half-precision",
    ),
    (
        (
            "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. "
            "Current capability: 86."
        ),
        "newer-vllm-for-fp8-weights",
    ),
    (
        (
            'File "/e/mamba_ssm/ops/ssd.py", line 4, in f\ntriton.OutOfResources: out of resource: shared memory, '
            "Required: 300000, Hardware limit: 101376."
        ),
        "heads-of-mamba",
    ),
    (
        "import vllm._C\nImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
        + VLLM,
        "engine-for-this-cuda",
    ),
    (
        "vllm/_C.abi3.so: undefined symbol: _Z15quantize_my_wayRN2at6TensorES1_",
        "vllm's",
    ),
    (
        "GPU: Tesla P40\n"
        + VLLM
        + "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "engine-is-not-for-this-gpu",
    ),
    ("AssertionError: Sinks are only supported in FlashAttention 3", "sinks"),
    (VLLM + "ValueError: Invalid head_dim: 512, must be divisible by 16", "TRITON_ATTN"),
    (VLLM + "ValueError: the KV cache of layer 3 has no pages", "engine"),
    ("ValueError: the KV cache of layer 3 has no pages", "frame"),
    ("/e/sgl_kernel/common_ops.abi3.so: undefined symbol: cuGreenCtxCreate", "NVIDIA's."),
    ("Error 804: forward compatibility was attempted on non supported HW", "image-of-the-drivers-cuda"),
    ("Error 803: system has unsupported display driver / cuda driver combination", "without-compat"),
    ("AssertionError: FP8 KV cache is not supported on this GPU", "key-value"),
    ("RuntimeError: DeepGEMM backend is not available or outdated.", "SGLANG_ENABLE_JIT_DEEPGEMM=0"),
    (
        "File \"C:\\v\\site-packages\\vllm\\x.py\", line 1, in f\nModuleNotFoundError: No module named 'vllm._C'",
        "not-on-windows",
    ),
    (
        'File "/Users/ann/v/site-packages/vllm/x.py", line 1, in f\nRuntimeError: Failed to infer device type',
        "vllm-on-a-mac",
    ),
    (VLLM + "triton.compiler.errors.CompilationError: at 4:2:", "belongs"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/r/.triton/cache/a/k.json.tmp.pid_4_1'", "processes"),
    ("Jetson AGX Orin\nRuntimeError: FlashInfer requires GPUs with sm75 or higher", "name-the-gpu"),
    ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "newer-nvcc"),
    ("[TM][FATAL] kernels/attention/x.cu(3): Check failed: kernel No decoding kernel found: d192", "LMDeploy:"),
    ("AssertionError: AWQ kernels could not be loaded.", "AutoAWQ"),
    ("ImportError: libnuma.so.1: cannot open shared object file: No such file or directory", "libnuma.so.1"),
    (
        "ValueError: NvFp4 MoE backend X does not support the deployment configuration since the GPU is old.",
        "--moe-backend",
    ),
    ("RuntimeError: Configured CUDA binary not found at /e/libbitsandbytes_cuda131.so", "newer"),
    ("ROCm\nRuntimeError: Configured CUDA binary not found at /e/libbitsandbytes_rocm71.so", "ROCm:"),
]


@pytest.mark.parametrize(("log", "first"), FIRST)
def test_the_first_fix_is_the_engines_own(log: str, first: str) -> None:
    findings = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings

    fix = findings[0].remedies[0]
    assert first in (fix.id, *fix.title.split())
