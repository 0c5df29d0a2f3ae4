"""What a log of a serving engine tells, its release, GPU and switches, decides which fix comes first."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

VLLM = 'File "/e/site-packages/vllm/worker.py", line 9, in init\n'
VLLM_OTHER, F32, ANEW = "vllm-other-backend", "float32-on-this-gpu", "engine-for-this-driver"
FIRST = [
    (
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU "
            "has compute capability 7.5. You can use float16 instead by setting the `dtype` flag in CLI, for example: "
            "--dtype=half."
        ),
        "dtype-of-the-engine",
    ),
    (
        VLLM + "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        "dtype-of-the-engine",
    ),
    (  # the message's own advice is not for this GPU
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla "
            "P100-PCIE-16GB GPU has compute capability 6.0. You can use float16 instead by explicitly setting the "
            "`dtype` flag in CLI, for example: --dtype=half."
        ),
        "engine-for-this-gpu",
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
    ("NotImplementedError: FlashMLA V1 with FP8 KV cache not yet supported", "Latent"),
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
    ("/e/sgl_kernel/common_ops.abi3.so: undefined symbol: cuGreenCtxCreate", "driver-with-green-contexts"),
    ("Error 804: forward compatibility was attempted on non supported HW", "image-of-the-drivers-cuda"),
    ("Error 803: system has unsupported display driver / cuda driver combination", "without-compat"),
    ("AssertionError: FP8 KV cache is not supported on this GPU", "key-value"),
    ("RuntimeError: DeepGEMM backend is not available or outdated.", "SGLANG_ENABLE_JIT_DEEPGEMM=0"),
    (
        "File \"C:\\v\\site-packages\\vllm\\x.py\", line 1, in f\nModuleNotFoundError: No module named 'vllm._C'",
        "vllm-in-wsl",
    ),
    (
        'File "/Users/ann/v/site-packages/vllm/x.py", line 1, in f\nRuntimeError: Failed to infer device type',
        "vllm-on-a-mac",
    ),
    (VLLM + "triton.compiler.errors.CompilationError: at 4:2:", "belongs"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/r/.triton/cache/a/k.json.tmp.pid_4_1'", "rank"),
    ("Jetson AGX Orin\nRuntimeError: FlashInfer requires GPUs with sm75 or higher", "name-the-gpu"),
    ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "newer-nvcc"),
    ("[TM][FATAL] kernels/attention/x.cu(3): Check failed: kernel No decoding kernel found: d192", "LMDeploy:"),
    ("AssertionError: AWQ kernels could not be loaded.", "why-they-do-not-load"),
    ("ImportError: libnuma.so.1: cannot open shared object file: No such file or directory", "libnuma.so.1"),
    (
        "ValueError: NvFp4 MoE backend X does not support the deployment configuration since the GPU is old.",
        "--moe-backend",
    ),
    ("RuntimeError: Configured CUDA binary not found at /e/libbitsandbytes_cuda131.so", "newer"),
    ("ROCm\nRuntimeError: Configured CUDA binary not found at /e/libbitsandbytes_rocm71.so", "ROCm:"),
    ("ERROR 03-19 11:54:51 [engine.py:158] AssertionError('Only FlashAttention backend is supported')", VLLM_OTHER),
    ("(EngineCore_0 pid=7) RuntimeError: FlashAttention only supports Ampere GPUs or newer.", VLLM_OTHER),
    ("RuntimeError: Error in model execution: FlashAttention only supports Ampere GPUs or newer.", VLLM_OTHER),
    ("$ vllm serve m\nRuntimeError: FlashAttention only supports Ampere GPUs or newer.", VLLM_OTHER),
    ("we like vllm\nRuntimeError: FlashAttention only supports Ampere GPUs or newer.", "use-sdpa"),
    ("ValueError: XFormers does not support attention logits soft capping", "allowed-backend"),
    ("Jetson AGX Orin\nnvcc fatal   : Unsupported gpu architecture 'compute_100a'", "only-the-boards-own"),
    ("GPU: RTX 5090\n/home/a\nnvcc fatal   : Unsupported gpu architecture 'compute_120'", "toolkit-12-8"),
    (
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\nPossible solutions:\n"
            "1. set --mem-fraction-static to a smaller value (e.g., 0.8)\n2. disable graphs by --disable-cuda-graph\n"
            "srt.model: sglang.launch_server"
        ),
        "engine-for-a-new-gpu",
    ),
    (
        (
            'File "/e/site-packages/aiter/ops/mha.py", line 7, in f\n    return op(*args)\n'
            "RuntimeError: cu_seqlens_k.value() must have shape (batch_size + 1)"
        ),
        "VLLM_ROCM_USE_AITER_MHA=0,",
    ),
    (
        (
            'File "/e/sglang/srt/layers/attention/a_backend.py", line 5, in init_metadata\n    assert a == b\n'
            "AssertionError: a.shape=torch.Size([1]) b.shape=torch.Size([3])"
        ),
        "engine",
    ),
    (
        (
            'File "/e/site-packages/vllm/attention/ops/prefix_prefill.py", line 7, in f\n    _fwd_kernel[grid](\n'
            "triton.OutOfResources: out of resource: shared memory, Required: 65540, Hardware limit: 65536."
        ),
        "attention-of-the-engine",
    ),
    ("vLLM API server version 0.14\nRuntimeError: Cannot re-initialize CUDA in forked subprocess.", "vllm-spawns"),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. Use 'spawn'.", "spawn"),
    ("ValueError: Unknown attention backend: 'XFORMERS'. Valid options are: FLASH_ATTN", "without-xformers"),
    ("ModuleNotFoundError: No module named 'flashinfer'", "release-of-the-engine"),
    ("AssertionError: FlashAttention does not support fp8 kv-cache on this device.", "key-value"),
    ("Jetson AGX Orin\nImportError: Can not import sgl_kernel. Please check your installation.", "on-a-jetson"),
    ("Exception: flashinfer_python with minimum required version 0.2.5 is not installed.", "release-that-is-named"),
    ("Tesla T4\nThe model type 'g' does not support float16. Reason: Numerical instability. Please use bfloat16.", F32),
    (
        "The model type 'g' does not support float16. Reason: Numerical instability. Please use bfloat16.",
        "allowed-dtype",
    ),
    (VLLM + "CUDA error: the provided PTX was compiled with an unsupported toolchain.", "engine-for-the-drivers-cuda"),
    ("vLLM API server version 0.14\nThe NVIDIA driver on your system is too old (found version 12040).", ANEW),
    ("/e/vllm/_C.abi3.so: version `GLIBC_2.32' not found (required by /e/vllm/_C.abi3.so)", "engine-in-its-image"),
    ("ValueError: Head size 512 is not supported by FlashAttention.", "backend-of-the-engine"),
    ("/root/.cache/a\nRTX 5090\nnvcc fatal   : Unsupported gpu architecture 'compute_120a'", "toolkit-12-8"),
    (
        VLLM.replace("worker", "attention/flash_attn") + "CUDA error: an illegal memory access was encountered",
        "engine",
    ),
    (
        (
            'text_generation_launcher: x\nFile "/e/site-packages/m.py", line 1, in f\n'
            "ImportError: /e/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
        ),
        "image-of-tgi",
    ),
    (
        VLLM + "ImportError: /e/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "engine-has-its-own",
    ),
    (
        (
            "INFO 03-19 11:53:56 [cuda.py:234] Using XFormers backend.\n"
            'File "/e/site-packages/transformers/trainer.py", line 9, in train\n'
            "RuntimeError: FlashAttention only supports Ampere GPUs or newer."
        ),
        "use-sdpa",
    ),
    ("GPU: V100\n" + VLLM + "RuntimeError: PassManager::run failed", "engine-leaves-it-out"),
    ("GPU: A100\n" + VLLM + "RuntimeError: PassManager::run failed", "another-triton"),
    ("ImportError: libatb.so: cannot open shared object file: No such file or directory", "CANN's"),
    ("ImportError: libascend_hal.so: cannot open shared object file: No such file", "libascend_hal.so"),
    ("ImportError: /e/vllm/_C.abi3.so: undefined symbol:", "anew"),
    ("RuntimeError: Attention triton kernel does not fully support triton[2.2.0~2.3.1] on this device", "Triton"),
    ("RuntimeError: [TM][ERROR] CUDA runtime error: operation not supported /s/utils/allocator.h:197", "LMDeploy:"),
    ("GPU: V100\n[TensorRT-LLM][ERROR] Assertion failed: Unsupported architecture (/k/fmhaRunner.cpp:89)", "8.0:"),
]


@pytest.mark.parametrize(("log", "first"), FIRST)
def test_the_first_fix_is_the_engines_own(log: str, first: str) -> None:
    findings = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings

    fix = findings[0].remedies[0]
    assert first in (fix.id, *fix.title.split())
