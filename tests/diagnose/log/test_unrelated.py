"""What is none of our business gets no error and no warning: texts of other troubles, as their libraries word them.

Each is close to something that a recipe knows: it has attention frames, begins like a dtype error, names a GPU, misses
a symbol or a library, fails a build. Written from the libraries' own message strings.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.log.causes import explain, explain_text
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.recipes import shelf

FLASH_FRAME = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/flash_attn/flash_attn_interface.py", line 91, in _flash_attn_forward
    out, softmax_lse, S_dmask, rng_state = flash_attn_gpu.fwd(
"""
SDPA_FRAME = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/transformers/integrations/sdpa_attention.py", line 96, in forward
    attn_output = torch.nn.functional.scaled_dot_product_attention(
"""
TRITON_FRAME = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/triton/runtime/jit.py", line 617, in run
    kernel.run(grid_0, grid_1, grid_2, stream, kernel.function, kernel.packed_metadata, launch_metadata,
"""
PIP = """\
Collecting {name}
  error: subprocess-exited-with-error
  × Building wheel for {name} (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [8 lines of output]
      {line}
      [end of output]
  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for {name}
"""
ASYNCHRONOUS = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1.
"""

TEXTS = {
    "memory: inside flash-attn": FLASH_FRAME
    + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB.",
    "memory: an older class": FLASH_FRAME
    + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 744.00 MiB",
    "memory: inside SDPA": SDPA_FRAME + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.",
    "memory: inside Triton": TRITON_FRAME + "RuntimeError: Triton Error [CUDA]: out of memory",
    "memory: cuBLAS": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "memory: Metal": "RuntimeError: MPS backend out of memory (MPS allocated: 17.92 GB, max allowed: 18.13 GB).",
    "memory: the system's": "Loading checkpoint shards:  33%|###3      | 1/3 [00:10<00:20, 10.1s/it]\nKilled",
    "memory: Slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the tasks have been "
    "OOM Killed.",
    "memory: shared, of the system": "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. "
    "It is possible "
    "that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    "shape: SDPA": SDPA_FRAME
    + "RuntimeError: The expanded size of the tensor (1024) must match the existing size (1023) at "
    "non-singleton dimension 3.  Target sizes: [1, 32, 1024, 1024].  Tensor sizes: [1, 1, 1023, 1023]",
    "shape: a mask": "RuntimeError: The size of tensor a (63) must match the size of tensor b (59) at "
    "non-singleton dimension 3",
    "shape: linear": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x2048 and 768x320)",
    "shape: bmm": "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [8, 64] but "
    "got: [8, 32].",
    "shape: flash-attn": FLASH_FRAME + "RuntimeError: batch_size must be equal to batch_size_k",
    "shape: flash-attn's lengths": FLASH_FRAME + "RuntimeError: cu_seqlens_q must have shape (batch_size + 1)",
    "layout: flash-attn": FLASH_FRAME + "RuntimeError: Input tensor must have contiguous last dimension",
    "shape: a checkpoint": "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n\tsize mismatch for "
    "model.embed_tokens.weight: copying a param with shape torch.Size([32001, 4096]) from checkpoint",
    "dtype: labels": "RuntimeError: \"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Int'",
    "dtype: indices": "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following "
    "scalar types: "
    "Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)",
    "dtype: long": "RuntimeError: expected scalar type Long but found Float",
    "dtype: double": "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float",
    "dtype: numpy": "TypeError: can't convert np.ndarray of type numpy.object_.",
    "dtype: json": "TypeError: Object of type bfloat16 is not JSON serializable",
    "device": "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu!",
    "an assertion on the GPU": "Indexing.cu:1289: indexSelectLargeIndex: block: [288,0,0], thread: [64,0,0] Assertion "
    "`srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: device-side assert triggered\n" + ASYNCHRONOUS,
    "an address": FLASH_FRAME + "RuntimeError: CUDA error: an illegal memory access was encountered\n" + ASYNCHRONOUS,
    "a launch": "RuntimeError: CUDA error: unspecified launch failure\n" + ASYNCHRONOUS,
    "hardware": "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + ASYNCHRONOUS,
    "hardware: Xid": "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
    "NCCL: time": "[rank6]:[E626 16:48:25.441526059 ProcessGroupNCCL.cpp:1896] [PG ID 0 Rank 6] Process group "
    "watchdog thread "
    "terminated with exception: [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=120049, "
    "OpType=_ALLGATHER_BASE, NumelIn=16384000, NumelOut=131072000, Timeout(ms)=1800000) ran for 1800004 milliseconds",
    "NCCL: terminate": "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  NCCL "
    "error in: "
    "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:333, unhandled system error, NCCL version 2.21.5",
    "NCCL: libraries": "torch.distributed.DistBackendError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN "
    "for details)",
    "a port": "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
    "address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "torchrun's last words": "torch.distributed.elastic.errors.ChildFailedError:\n====\ntrain.py FAILED\n"
    "----\nRoot Cause (first observed failure):\n  exitcode  : 1 (pid: 4711)\n  error_file: <N/A>",
    "Ray": "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "gradients": "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors).",
    "in place": "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
    "operation: [torch.cuda.HalfTensor [2, 512]], which is output 0 of AsStridedBackward0",
    "DDP": "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
    "NumPy: ABI": "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from "
    "C header, got 88",
    "NumPy: 2": "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash. To "
    "support both "
    "1.x and 2.x\nversions of NumPy, modules must be compiled with NumPy 2.0.\nSome module may need to rebuild instead "
    "e.g. with 'pybind11>=2.12'.\nImportError: numpy.core.multiarray failed to import",
    "a symbol: not torch's": "ImportError: /env/lib/libgdal.so.32: undefined symbol: TIFFReadRGBATileExt, "
    "version LIBTIFF_4.0",
    "a symbol: R's": "ImportError: /env/site-packages/rpy2/_rinterface_cffi_api.abi3.so: undefined symbol: "
    "R_tryCatchError",
    "a library: OpenGL": "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
    "a library: MPI": "ImportError: libmpi.so.40: cannot open shared object file: No such file or directory",
    "glibc: a program's": "./server: /lib64/libm.so.6: version `GLIBC_2.27' not found (required by ./server)",
    "glibc: Node's": "/opt/node/bin/node: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by "
    "/opt/node/bin/node)",
    "a name: another library's": "ImportError: cannot import name 'cached_download' from 'huggingface_hub' "
    "(/env/__init__.py)",
    "a name: circular": "ImportError: cannot import name 'is_torch_available' from partially initialized module "
    "'transformers' (most likely due to a circular import)",
    "a module": "ModuleNotFoundError: No module named 'torchdata'",
    "a module: torch, in another program": 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
    "    import torch\nModuleNotFoundError: No module named 'torch'",
    "pip: a conflict": "ERROR: pip's dependency resolver does not currently take into account all the packages "
    "that are "
    "installed.\ntensorflow 2.15.0 requires keras<2.16,>=2.15.0, but you have keras 3.0.0 which is incompatible.",
    "pip: lxml": PIP.format(
        name="lxml", line="Error: Please make sure the libxml2 and libxslt development packages are there."
    ),
    "pip: a header": PIP.format(
        name="psycopg2", line="./psycopg/psycopg.h:35:10: fatal error: libpq-fe.h: No such file"
    ),
    "pip: Rust": PIP.format(name="tokenizers", line="error: can't find Rust compiler"),
    "pip: Cython": PIP.format(name="pycocotools", line="ModuleNotFoundError: No module named 'Cython'"),
    "a compiler: another header": "src/foo.c:3:10: fatal error: openssl/ssl.h: No such file or directory\n"
    "    3 | #include <openssl/ssl.h>\ncompilation terminated.\nerror: command '/usr/bin/gcc' failed with exit code 1",
    "the hub: 401": "OSError: You are trying to access a gated repo.\n401 Client Error. (Request ID: Root=1-abc)",
    "the hub: no network": "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', "
    "port=443): Max "
    "retries exceeded with url: /api/models (Caused by NewConnectionError('[Errno 110] Connection timed out'))",
    "certificates": "urllib.error.URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed>",
    "a disk": "OSError: [Errno 122] Disk quota exceeded: '/scratch/checkpoint-500/optimizer.pt'",
    "another disk": "OSError: [Errno 18] Invalid cross-device link: '/tmp/a.arrow' -> '/data/a.arrow'",
    "a tokenizer": "Exception: data did not match any variant of untagged enum ModelWrapper at line 1251003 column 3",
    "a tokenizer's notice": "huggingface/tokenizers: The current process just got forked, after parallelism has "
    "already been "
    "used. Disabling parallelism to avoid deadlocks...",
    "safetensors": "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    "an unknown model": "ValueError: The checkpoint you are trying to load has model type `qwen9` but "
    "Transformers does not "
    "recognize this architecture.",
    "PEFT": "ValueError: Target modules {'q_proj', 'v_proj'} not found in the base model.",
    "bitsandbytes": "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough "
    "GPU RAM to fit "
    "the quantized model.",
    "vLLM: cache": "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens "
    "that can be "
    "stored in KV cache (52144). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
    "vLLM: heads": "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).",
    "DeepSpeed: batch": "AssertionError: Check batch related parameters. train_batch_size is not equal to "
    "micro_batch_per_gpu * gradient_acc_step * world_size 64 != 2 * 4 * 4",
    "DeepSpeed: loss scale": "[INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping "
    "step. Attempted "
    "loss scale: 4294967296, reducing to 2147483648",
    "padding": "ValueError: You are attempting to perform batched generation with padding_side='right' this may "
    "lead to "
    "unexpected behaviour for Flash Attention version of Mistral.",
    "dynamo": "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [ConstantVariable(str)] {}",
    "autotuning": "AUTOTUNE mm(4096x4096, 4096x4096)\n  triton_mm_12 0.1234 ms 100.0% ACC_TYPE='tl.float32', "
    "BLOCK_K=64",
    "a data set": "KeyError: 'text'",
    "JSON": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "wandb": "wandb.errors.CommError: Error communicating with wandb process",
    "TensorFlow": "E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:479] Unable to register cuFFT "
    "factory: Attempting "
    "to register factory for plugin cuFFT when one has already been registered",
    "TensorFlow without a GPU": "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load "
    "dynamic library "
    "'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory",
    "what is not compiled in": "UserWarning: 1Torch was not compiled with flash attention. (Triggered internally at "
    "sdp_utils.cpp:555.)\n  x = F.scaled_dot_product_attention(q, k, v)",
    "a backend's list": "Currently enabled native sdp backends: ['flash', 'math', 'mem_efficient', 'cudnn']\n"
    "Xformers is not installed!\nFlash Attn is not installed!",
    "a notice on masks": "The attention mask and the pad token id were not set. As a consequence, you may "
    "observe unexpected "
    "behavior. Please pass your input's `attention_mask` to obtain reliable results.",
    "a notice on dtype": "`torch_dtype` is deprecated! Use `dtype` instead!",
    "a notice on windows": "Sliding Window Attention is enabled but not implemented for `sdpa`; unexpected "
    "results may be "
    "encountered.",
    "a notice on speed": "Warning: import flash_attn rms_norm fail, please install FlashAttention layer_norm to get "
    "higher efficiency",
    "a choice of backend": "DEBUG 01-20 13:03:50 [cuda.py:300] Some attention backends are not valid for cuda with "
    "AttentionSelectorConfig(head_size=64). Reasons: {FLASH_ATTN: [sink setting not supported], FLASHINFER: [compute "
    "capability not supported]}.",
    "a cast of inputs": "UserWarning: MatMul8bitLt: inputs will be cast from torch.float32 to float16",
    "an untested version": " [WARNING]  using untested triton version (3.0.0), only 1.0.0 is known to be compatible",
    "a versions' list": "torch==2.3.0\ntriton==2.3.0\nflash-attn==2.5.8\ntransformers==4.41.0\nGPU 0: Tesla "
    "V100-SXM2-32GB",
}

RECIPES = shelf.bundled()
SCANNER = Scanner(Patterns(RECIPES))


@functools.cache
def scanned() -> dict[str, Scanned]:
    """Once for all GPUs."""
    return {name: SCANNER.scan("a log", [text]) for name, text in TEXTS.items()}


@pytest.mark.parametrize("gpu", [None, "7.5", "9.0", "12.0"])
def test_no_false_alarm(gpu: str | None) -> None:
    """No error and no warning, on no GPU."""
    facts = FactSet() if gpu is None else assume(FactSet(), [f"gpu.compute_capability={gpu}"])
    told = {name: explain([log], facts).diagnosis.findings for name, log in scanned().items()}

    loud = (Severity.ERROR, Severity.WARNING)
    assert [(name, one.id) for name, found in told.items() for one in found if one.severity in loud] == []


def test_the_texts_together() -> None:
    """Nor does one text lend meaning to its neighbours: all of them in one log, a blank line between."""
    # `Killed` beside a build is what a build out of memory looks like.
    texts = [text for name, text in TEXTS.items() if name != "memory: the system's"]
    told = explain_text("\n\n".join(texts), RECIPES, FactSet()).diagnosis
    loud = {one.id for one in told.findings if one.severity in (Severity.ERROR, Severity.WARNING)}

    assert loud == set()


def test_the_test_can_fail() -> None:
    """A recipe that takes too much is caught by these texts."""
    some = next(one for one in RECIPES if one.logs)
    greedy = replace(some, id="greedy", logs=(replace(some.logs[0], pattern="Error:", unless=None),))
    caught = [name for name, text in TEXTS.items() if explain_text(text, [greedy], FactSet()).diagnosis.findings]

    assert len(TEXTS) >= 80
    assert len(caught) > 40


#: What a linker says of any program; a family of ours has the word.
_LINKER = "error: undefined symbol: _ZN4moon4riseEv"
_SHOP = tuple(f"[{number}/40] Compiling shopfront v0.{number}.0" for number in range(9))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((*_SHOP, _LINKER), False),
        ((_LINKER,), True),
        ((*_SHOP, "nvcc -c rise.cu", _LINKER), True),
        ((*_SHOP, "Traceback (most recent call last):", _LINKER), True),
    ],
    ids=["another program's", "a message alone", "beside CUDA", "beside Python"],
)
def test_families_keep_to_logs_of_the_stack(lines: tuple[str, ...], told: bool) -> None:
    assert bool(explain_text("\n".join(lines), [*RECIPES, *shelf.families()], FactSet()).diagnosis.findings) is told
