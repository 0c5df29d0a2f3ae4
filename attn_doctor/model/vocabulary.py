"""The vocabulary of facts: each fact's name, type, unit, meaning, and the probe that finds it.

A recipe that uses any other name is refused when it is loaded. Knowledge that recipe conditions cannot express becomes
a new fact here, found by a probe or computed in diagnose/derived.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from attn_doctor.model.facts import FactName, Value
from attn_doctor.model.kinds import KINDS, PLURAL
from attn_doctor.quick_dataclasses import dataclass


class ValueType(str, Enum):
    """The type of a value: how it is parsed and compared."""

    TEXT = "text"
    TEXTS = "texts"  # several; a condition holds when it holds for one of them
    VERSION = "version"
    CAPABILITY = "compute capability"  # "9.0"
    INTEGER = "integer"
    NUMBER = "number"
    YES_NO = "yes or no"


@dataclass(frozen=True, slots=True)
class Term:
    """One entry of the vocabulary; in `name`, `*` stands for the subject."""

    name: str
    kind: ValueType
    meaning: str
    probe: str
    unit: str = ""


def _terms(probe: str, *rows: tuple[str, ValueType, str] | tuple[str, ValueType, str, str]) -> Iterator[Term]:
    for kind in KINDS:
        if kind.probe == probe:
            yield Term(f"listed.{kind.name}", ValueType.INTEGER, kind.listing or kind.heading, probe)
    for row in rows:
        yield Term(row[0], row[1], row[2], probe, row[3] if len(row) == 4 else "")


_T, _TS, _V, _C, _I, _N, _B = (
    ValueType.TEXT, ValueType.TEXTS, ValueType.VERSION, ValueType.CAPABILITY, ValueType.INTEGER, ValueType.NUMBER,
    ValueType.YES_NO,
)  # fmt: skip

TERMS: tuple[Term, ...] = (
    *_terms(
        "probe/host/node.py",
        ("node.hostname", _T, "the node's name: SLURMD_NODENAME inside a Slurm job, else the host name"),
        ("node.system", _T, "sort of operating system: Linux; of a log also Windows or macOS"),
        ("node.os", _T, "operating system, as /etc/os-release names it"),
        ("node.kernel", _T, "kernel release"),
        ("node.machine", _T, "processor architecture, as uname says"),
        ("node.container", _T, "container runtime the doctor runs in"),
        ("node.slurm_job", _T, "Slurm job the doctor runs in"),
        ("node.cpus", _I, "processors this process may use"),
        ("node.memory_mib", _I, "memory of the node", "MiB"),
        ("node.gpu_hint", _T, "a sign of a GPU other than NVML: a device node, a kernel module, a PCI display device"),
        ("rocm.version", _V, "ROCm on this node"),
        ("env.*", _T, "an environment variable that matters to attention kernels; absent when unset"),
    ),
    *_terms(
        "probe/host/nvcc.py",
        ("cuda.home", _T, "CUDA toolkit folder: CUDA_HOME, CUDA_PATH, nvcc's parent or /usr/local/cuda"),
        ("cuda.nvcc", _V, "version of the nvcc that would be used to build extensions"),
        ("cuda.nvcc_path", _T, "that nvcc"),
    ),
    *_terms(
        "probe/host/gpus.py",
        ("driver.version", _V, "NVIDIA driver"),
        ("driver.cuda", _V, "newest CUDA that the driver speaks"),
        ("driver.answers", _B, "the driver's management library or nvidia-smi answered in time"),
        ("gpu.*.name", _T, "marketing name; for people only, never judged"),
        ("gpu.*.uuid", _T, "UUID"),
        ("gpu.*.compute_capability", _C, "compute capability"),
        ("gpu.*.memory_mib", _I, "memory", "MiB"),
        ("gpu.*.mig", _T, "MIG mode, where the GPU has one"),
        ("gpu.*.visible", _B, "CUDA_VISIBLE_DEVICES lets a program see it"),
        ("gpu.*.shared_memory_bytes", _I, "shared memory that one block may opt in to", "bytes"),
        ("gpu.*.pcie_width", _I, "PCIe lanes in use"),
        ("gpu.*.pcie_max_width", _I, "PCIe lanes that it has"),
        ("gpu.*.pcie_generation", _I, "newest PCIe generation that it and its slot speak; idle GPUs use a lower one"),
        ("gpu.*.persistence", _B, "persistence mode: the driver stays loaded when nothing uses it"),
        ("gpu.*.ecc", _B, "ECC mode; absent without such memory"),
        ("gpu.*.ecc_errors", _I, "uncorrected memory errors since the driver was loaded"),
        ("gpu.*.remapped_rows", _I, "rows of its memory that were remapped"),
        ("gpu.*.row_remapping", _T, "good; pending: at the next reset; failed: the GPU has to be replaced"),
        ("gpu.*.nvlinks", _I, "NVLinks that it has"),
        ("gpu.*.nvlinks_up", _I, "NVLinks that are up"),
    ),
    *_terms(
        "probe/host/host_facts.py",
        ("node.iommu", _T, "off, or the IOMMU's domains of GPUs and adapters: identity (passes through), DMA, DMA-FQ"),
        ("node.acs_bridges", _I, "PCI bridges above GPUs and adapters that turn traffic between peers back (ACS)"),
        ("node.hugepages", _T, "huge pages set aside, by size, or none"),
        ("node.transparent_hugepages", _T, "always, madvise or never"),
        ("node.clock_synchronized", _B, "something keeps the clock right, as the kernel says"),
        ("node.clock_error_ms", _N, "largest error of the clock by the kernel's own account", "ms"),
        ("nic.*.model", _T, "PCI vendor and device: 15b3:1021"),
        ("nic.*.driver", _T, "kernel driver bound to it"),
        ("nic.*.firmware", _T, "version of its firmware"),
        ("nic.*.interface", _T, "network interface, the first where it has several"),
        ("nic.*.link", _T, "up or down"),
        ("nic.*.mbps", _I, "rate of its link; absent without one", "Mb/s"),
        ("nic.*.pcie_width", _I, "PCIe lanes in use"),
        ("nic.*.pcie_max_width", _I, "PCIe lanes that it has"),
        ("nic.*.pcie_speed", _T, "PCIe rate in use: 32.0 GT/s"),
        ("nic.*.pcie_max_speed", _T, "PCIe rate that it has"),
        ("rdma.*.model", _T, "type and board of the device"),
        ("rdma.*.firmware", _T, "version of its firmware"),
        ("rdma.*.state", _T, "ACTIVE, ARMED, INIT or DOWN"),
        ("rdma.*.physical_state", _T, "LinkUp, Polling, Disabled"),
        ("rdma.*.rate", _T, "rate of the link: 400 Gb/sec (4X NDR)"),
        ("rdma.*.link_layer", _T, "InfiniBand or Ethernet"),
        ("kernel_module.*.loaded", _B, "it is loaded"),
        ("kernel_module.*.version", _T, "its version, where it says one"),
        ("limit.*.soft", _T, "limit in force: bytes of memlock and stack, numbers of nofile and nproc, or unlimited"),
        ("limit.*.hard", _T, "up to which it may be raised"),
    ),
    *_terms(
        "probe/live/interpreter.py",
        ("python.version", _V, "version of the interpreter examined"),
        ("python.executable", _T, "the interpreter examined"),
        ("python.prefix", _T, "its environment's folder"),
        ("python.environment", _T, "venv, conda, uv or system; of a log also poetry, portable (ComfyUI's) or notebook"),
        ("python.has_pip", _B, "pip can be imported in it"),
        ("python.uv", _T, "uv that can install into it: `uv` where that is on PATH, else the one beside it"),
        (
            "python.startup_code",
            _TS,
            "files whose code runs at each of its starts: .pth files with import lines, sitecustomize, usercustomize",
        ),
        ("python.owner", _I, "user, by number, that owns the environment's folder"),
        ("python.examined_as", _I, "user, by number, that attn-doctor runs as"),
        ("python.writable", _B, "this user may write in its site-packages"),
        ("libc.version", _V, "glibc of the node"),
    ),
    *_terms(
        "probe/packages/packages.py",
        ("package.*.version", _V, "version, from the distribution's metadata"),
        ("package.*.distribution", _T, "the distribution's own name, where it is not the library's (a fork, a vendor)"),
        ("package.*.path", _T, "folder that holds it"),
        ("package.*.wheel_tag", _T, "tag of the wheel it came from"),
        ("package.*.variant", _T, "label of the wheel variant it came from, by its variant.json"),
        ("package.*.editable", _B, "an editable install"),
        ("package.*.source", _T, "URL or path it was installed from, when the metadata says so"),
        ("package.*.duplicates", _TS, "other folders of the path that hold the same distribution: the first one wins"),
        ("package.*.shadowed_by", _T, "file earlier in the path that takes its import name"),
        ("package.*.metadata_error", _T, "what is wrong with its metadata"),
        ("package.*.overlaps", _T, "it and another distribution whose RECORD lists the same files with other hashes"),
        ("environment.leftovers", _TS, "what has a name that begins with ~: pip was ended while it uninstalled"),
        ("environment.leftovers_in", _T, "the folder that holds the first of them"),
        ("environment.uninstalled", _TS, "the packages that they are left of and that are gone, as requirements"),
        ("package.*.requires_torch", _T, "the torch that its metadata asks for"),
        ("torch.triton_requirement", _T, "the triton that this torch's metadata asks for"),
    ),
    *_terms(
        "probe/packages/requirements.py",
        ("requirement.*.specifier", _T, "what the first asks for of the second (vllm.torch: ==2.14.0), or any"),
        ("requirement.*.installed", _V, "the version of it that is there"),
        ("environment.unmet_elsewhere", _TS, "requirements outside the attention stack that are not met, in words"),
        ("environment.unmet_elsewhere_count", _I, "how many these are"),
    ),
    *_terms(
        "probe/packages/patches.py",
        ("patch.*.path", _T, "the file"),
        ("patch.*.package", _T, "distribution it belongs to"),
        ("patch.*.version", _V, "version of that distribution"),
        ("patch.*.finding", _T, "the finding that the patch fixes"),
        (
            "source.gsa_states_in_fp32",
            _B,
            "flash-linear-attention's gated slot attention recomputes its states in float32 going backward",
        ),
        ("source.transposed_tile", _T, "file:line where its kernels use a transposed tile outside of tl.dot"),
    ),
    *_terms(
        "probe/packages/torch_files.py",
        ("torch.version", _V, "torch's own version, read from torch/version.py"),
        ("torch.cuda", _V, "CUDA that torch was built for; absent in a CPU or ROCm build"),
        ("torch.hip", _V, "ROCm that torch was built for"),
        ("torch.git_version", _T, "commit that torch was built from"),
        ("torch.path", _T, "the torch package's folder"),
    ),
    *_terms(
        "probe/binaries/extensions.py",
        ("libstdcxx.version", _V, "newest GLIBCXX that the libstdc++ offers which the interpreter would load"),
        ("libstdcxx.path", _T, "that libstdc++"),
        ("torch.cxx11_abi", _B, "torch was built with the new std::string (cxx11 ABI)"),
        ("torch.arch_list", _TS, "GPU code in torch: sm_90 (machine code), compute_90 (PTX)"),
        ("extension.*.path", _T, "the file"),
        ("extension.*.package", _T, "distribution it belongs to"),
        ("extension.*.needed_libraries", _TS, "libraries it asks the loader for"),
        ("extension.*.missing_libraries", _TS, "those of them that the loader would not find"),
        ("extension.*.missing_symbols", _TS, "torch symbols it needs that the installed torch does not export"),
        ("extension.*.missing_other_symbols", _TS, "symbols of other libraries that it needs and nothing exports"),
        ("extension.*.needs_cuda_torch", _B, "it needs libraries of a CUDA build of torch, and this torch is none"),
        ("extension.*.cxx11_abi", _B, "it was built with the new std::string; absent when it shows neither"),
        ("extension.*.cudart_major", _I, "major version of the libcudart it needs"),
        ("extension.*.glibc_needed", _V, "newest GLIBC it needs"),
        ("extension.*.glibcxx_needed", _V, "newest GLIBCXX it needs"),
        ("extension.*.gpu_code", _TS, "GPU code in it: sm_90 (machine code), compute_90 (PTX)"),
        ("extension.*.build_id", _T, "ELF build id"),
        ("extension.*.identity", _T, "its build id and size, or a SHA-256 where it has no build id"),
        ("extension.*.other_python", _TS, "builds of it for other Pythons that lie where this one's should"),
    ),
    *_terms(
        "probe/binaries/cuda_libraries.py",
        ("library.*.path", _T, "the file that the loader would take"),
        ("library.*.identity", _T, "its build id and size, or a SHA-256 where it has no build id"),
    ),
    *_terms(
        "probe/binaries/torch_libraries.py",
        ("torch.cudnn", _V, "cuDNN that torch loads; by its wheel's metadata, or as torch itself says once imported"),
        ("torch.missing_libraries", _TS, "libraries that `import torch` needs and the loader would not find"),
    ),
    *_terms(
        "probe/live/imports_and_torch.py",
        ("import.*.outcome", _T, "imported, failed, crashed or hung"),
        ("import.*.version", _V, "__version__"),
        ("import.*.path", _T, "__file__"),
        ("import.*.error", _T, "last lines of the error"),
        ("import.*.error_type", _T, "class of the innermost error"),
        ("import.*.undefined_symbol", _T, "the symbol that the loader missed"),
        ("import.*.missing_library", _T, "the library that the loader missed"),
        ("import.*.missing_module", _T, "the module that was not found"),
        ("import.*.signal", _T, "signal that ended the child"),
        ("import.*.where", _T, "file:line that was running when it crashed or hung"),
        ("import.*.seconds", _N, "how long it took", "s"),
        ("torch.cuda_available", _B, "torch.cuda.is_available()"),
        ("torch.cuda_error", _T, "why torch cannot use a GPU, in its own words"),
        ("torch.device_count", _I, "GPUs that torch sees"),
        ("sample.*.outcome", _T, "ran, raised, crashed or hung"),
        ("sample.*.device", _T, "where it ran"),
        ("sample.*.rules", _T, "whose dtype rules held: the GPU's own, or CUDA's without a GPU"),
        ("sample.*.handed_dtypes", _TS, "dtypes of q, k, v as the model handed them to attention"),
        ("sample.*.kernel_dtypes", _TS, "dtypes of q, k, v that reached the kernel"),
        ("sample.*.kernel", _T, "the operator that ran"),
        ("sample.*.finite", _B, "output and gradients are finite"),
        ("sample.*.error", _T, "last line of the error"),
        ("sample.*.seconds", _N, "how long it took", "s"),
    ),
    *_terms(
        "probe/live/loaded_libraries.py",
        ("loaded.*.library", _T, "cuDNN, cuBLAS, NVRTC or NCCL"),
        ("loaded.*.path", _T, "the file that torch's sample had mapped; the library itself, not one of its parts"),
        ("loaded.*.version", _V, "what the library itself says of its version, or its file's name"),
        (
            "loaded.*.source",
            _T,
            "LD_PRELOAD, LD_LIBRARY_PATH, nvidia wheel, torch's own folder, the environment's lib, the system, or else",
        ),
        ("loaded.*.folders", _TS, "folders that its files were mapped from"),
        ("loaded.*.copies", _I, "how many copies of it, or of its parts, are in the process; 1 is as it should be"),
        ("loaded.*.declared", _T, "what torch's metadata asks for"),
        ("loaded.*.wheel_path", _T, "the copy that an nvidia-* package brought; absent where none did"),
        ("loaded.*.wheel_version", _V, "version of that package"),
        ("loaded.*.differs", _B, "another file is loaded than the package's, of another version"),
        ("loaded.*.others", _TS, "further copies that the loader could have come to"),
    ),
    *_terms(
        "probe/live/library_samples.py",
        ("sample.*.library", _T, "import name of the library whose sample it is; absent for the plain attention block"),
        ("sample.*.verdict", _T, "gravest of its attention calls, in the words of trace.verdict"),
        ("sample.*.where", _T, "file:line at which it ended early"),
        ("sample.*.stand_in", _T, "what stood in for the library's kernel"),
        ("promotion.*.sample", _T, "the sample in which it was seen; absent in a traced run"),
        ("attention.*.sample", _T, "the sample in which it was seen; absent in a traced run"),
        ("triton.canary", _T, "a kernel that stores a transposed bf16 tile: compiled, refused, aborted, hung"),
        ("triton.canary_gpu", _C, "compute capability it was compiled for"),
        ("triton.canary_message", _T, "what the compiler says to it"),
        ("triton.bf16_becomes_i16", _B, "it is refused as Triton 2.1 to 2.3 refuse it: bf16 handled as i16"),
    ),
    *_terms(
        "probe/packages/ptxas.py",
        ("triton.ptxas", _V, "the ptxas that Triton would assemble its kernels with, as its file says"),
        ("triton.ptxas_path", _T, "that file: Triton's own, or the one that TRITON_PTXAS_PATH names"),
    ),
    *_terms(
        "probe/configs/configs.py",
        ("config.*.framework", _T, "whose: llamafactory, axolotl, accelerate, deepspeed, transformers"),
        ("config.*.model", _T, "the model it names"),
        ("config.*.model_type", _T, "the model's architecture, as transformers calls it"),
        ("config.*.stage", _T, "training stage"),
        ("config.*.attention", _T, "the attention asked for, as written"),
        ("config.*.attention_line", _I, "line of that key"),
        ("config.*.attention_place", _T, "file:line of that key"),
        ("config.*.effective_attention", _T, "the attention that the framework makes of it"),
        (
            "config.*.half_precision",
            _T,
            "bf16, fp16, pure_bf16, fp8, none, auto (trainer or GPU decide) or checkpoint (the model's files decide)",
        ),
        ("config.*.precision_place", _T, "file:line of the key that decides that"),
        ("config.*.precision_conflicts", _TS, "both halves; DeepSpeed or accelerate against another named file"),
        ("config.*.precision_conflict", _T, "the contradiction in words"),
        ("config.*.both_halves", _T, "precisions that one file switches on at once"),
        ("config.*.precision_wanted", _T, "the precision that the other file asks for"),
        ("config.*.trains", _B, "it is for training"),
        ("config.*.packs", _B, "samples are packed, which needs an attention that keeps them apart"),
    ),
    *_terms(
        "probe/trace/call_facts.py",
        ("call.*.name", _T, "the attention function"),
        ("call.*.library", _T, "top-level module it is of; torch for torch's own"),
        ("call.*.place", _T, "file:line of the call"),
        ("call.*.backend", _T, "what torch's SDPA takes for it: flash, efficient, cudnn or math"),
        ("call.*.dtype", _T, "dtype of q as the kernel gets it"),
        ("call.*.mask_dtype", _T, "dtype of the mask; absent without one"),
        ("call.*.mask_wraps_at", _I, "first row of the mask whose place, row times stride, passes 2^32"),
        ("call.*.mask_cost", _T, "bytes of the mask beside those of q, k, v and output; absent where it is small"),
        ("call.*.trial", _T, "the failed trials of --kernels that made it"),
        ("call.*.situation", _T, "the situation of that trial (kernels.md)"),
        ("call.*.head_dim", _I, "head dimension of q and k"),
        ("call.*.head_dim_v", _I, "head dimension of v"),
        ("call.*.batch", _I, "rows of the batch"),
        ("call.*.q_length", _I, "queries"),
        ("call.*.kv_length", _I, "keys"),
        ("call.*.kv_over_tile", _I, "keys modulo 32"),
        ("call.*.causal", _B, "is_causal or causal is given"),
        ("call.*.fewer_queries", _B, "fewer queries than keys"),
        ("call.*.packed", _B, "sequences are packed (cu_seqlens)"),
        ("call.*.trains", _B, "with gradients"),
        ("call.*.q_layout", _T, "contiguous, permuted, expanded (stride 0) or columns (last stride not 1)"),
        ("call.*.k_layout", _T, "the same of k"),
        ("call.*.v_layout", _T, "the same of v"),
        ("call.*.compute_capability", _C, "GPU for which the call is judged"),
    ),
    *_terms(
        "probe/trace/trace_facts.py",
        ("trace.verdict", _T, "gravest of all attention calls: raises, silently mixed, promoted then repaired, clean"),
        ("trace.rules", _T, "whose dtype rules held in the traced run"),
        ("trace.error_kind", _T, "what ended the traced run early"),
        ("trace.error", _T, "the same in a sentence"),
        ("trace.slow_paths", _TS, "functions that run as loops of torch operations, each with the missing library"),
        ("trace.traceback", _T, "the traceback of a traced model that raised"),
        ("trace.failed_call", _T, "a call outside attention that raised over its operands' dtypes"),
        ("trace.failed_place", _T, "file:line of that call"),
        ("trace.failed_dtypes", _TS, "dtypes that it was given"),
        ("promotion.*.call", _T, "the call"),
        ("promotion.*.place", _T, "its file:line"),
        ("promotion.*.function", _T, "the function it stands in"),
        ("promotion.*.source", _T, "its source line"),
        ("promotion.*.kind", _T, "mixed operands, autocast policy, cast, dtype argument, a buffer's or op's own"),
        ("promotion.*.dtype_in", _T, "dtype of the data before"),
        ("promotion.*.dtype_out", _T, "dtype of the data after"),
        ("promotion.*.operand", _T, "the wide operand: its name, or what it is"),
        ("promotion.*.born", _T, "where the wide operand comes from"),
        ("promotion.*.roles", _TS, "q, k, v, mask: what it reached"),
        ("promotion.*.widens_all", _B, "it reached q, k and v alike"),
        ("promotion.*.module", _T, "module it stands in"),
        ("promotion.*.calls", _I, "how many layers repeat it"),
        ("promotion.*.latent", _B, "it only shows once the first culprit is mended"),
        ("promotion.*.cast_back", _T, "file:line where its result should have been cast back, if that is another line"),
        ("promotion.*.kernel", _T, "the attention function that it reached"),
        ("promotion.*.verdict", _T, "what became of that call"),
        ("attention.*.name", _T, "the attention function"),
        ("attention.*.library", _T, "whose it is"),
        ("attention.*.verdict", _T, "raises, silently mixed, promoted then repaired, clean"),
        ("attention.*.place", _T, "file:line of the call"),
        ("attention.*.q_dtype", _T, "dtype of q"),
        ("attention.*.k_dtype", _T, "dtype of k"),
        ("attention.*.v_dtype", _T, "dtype of v"),
        ("attention.*.mask_dtype", _T, "dtype of the mask"),
        ("attention.*.head_dim", _I, "head dimension"),
        ("attention.*.autocast", _T, "dtype that autocast casts to around the call"),
        ("attention.*.all_along", _B, "the blamed operands had their dtype since their projection"),
        ("attention.*.began_place", _T, "file:line of the call that made the first of them, where none promoted it"),
        ("attention.*.broken", _TS, "what the kernel demands and the call does not meet, each after `not met: `"),
        ("attention.*.error", _T, "what the kernel says to it"),
        ("attention.*.stand_in", _T, "what stood in for the kernel"),
        ("attention.*.trial", _T, "the kernel of --kernels that refused it for its head dimension; absent elsewhere"),
        ("attention.*.calls", _I, "how many calls are alike"),
        ("attention.*.backend", _T, "what torch's SDPA would run there: flash, efficient, cudnn or math"),
        ("attention.*.backend_refused", _TS, "backends that cannot take the call, each with torch's reason"),
        ("attention.*.math_cost", _T, "what SDPA's math costs the call; absent where it costs next to nothing"),
        ("attention.*.math_ways", _TS, "what to change in the call to get a fused backend, which stands in brackets"),
        ("attention.*.backend_warnings", _TS, "what the backend taken is known to do wrong with such a call"),
        ("attention.*.nonfinite", _T, "rows of outputs that are not finite though q, k and v are (a guard's steps)"),
        ("attention.*.spoiled", _T, "calls whose q, k or v are not finite themselves (a guard's steps)"),
        ("attention.*.nan_gradient", _T, "where its backward pass turned numbers into NaN (a guard's steps)"),
        ("attention.*.wrong_rows", _T, "sampled rows that are not those of float64 (a guard's steps)"),
        ("kernel.*.outcome", _T, "compiles, refuses, exceeds shared memory, aborted, hung"),
        ("kernel.*.gpu", _T, "GPU it was compiled for"),
        ("kernel.*.message", _T, "what the compiler says"),
        ("kernel.*.place", _T, "file:line of the launch"),
        ("kernel.*.required_bytes", _I, "shared memory it needs", "bytes"),
        ("kernel.*.limit_bytes", _I, "shared memory a block of that GPU can have", "bytes"),
    ),
    *_terms(
        "probe/trace/semantics.py",
        ("semantics.*.name", _T, "causality, packing, gradient, padding, window, cache, batch rows: what is broken"),
        ("semantics.*.whose", _T, "who breaks the library's contract: the model, or the call"),
        ("semantics.*.subject", _T, "class of the model, with its attention implementation"),
        ("semantics.*.words", _T, "what was seen"),
        ("semantics.*.forms", _TS, "call forms in which packed documents reach each other"),
        ("semantics.*.safe", _TS, "call forms that kept packed documents apart in the same run"),
        ("semantics.*.refused", _TS, "call forms that the model refuses, each with what it says"),
        ("semantics.*.trainers", _TS, "what the configuration of each trainer must say for packed documents"),
        ("semantics.*.modules", _TS, "modules where it begins, each with its class"),
        ("semantics.*.layers", _TS, "numbers of their layers"),
        ("semantics.*.place", _T, "file:line in the first of them where tokens mix"),
        ("semantics.*.mask", _T, "the mask that the first of them was given"),
        ("semantics.*.mask_place", _T, "file:line in the model that asked for that mask"),
    ),
    *_terms(
        "probe/trace/compiled_regions.py",
        ("region.*.outcome", _T, "wrong, or raises under torch.compile alone"),
        ("region.*.name", _T, "the module, with its class"),
        ("region.*.subject", _T, "the model, its attention, and torch's version"),
        ("region.*.layouts", _TS, "ways to call it in which that happens, each with what was seen"),
        ("region.*.place", _T, "file:line of its forward"),
        ("region.*.stage", _T, "first backend of torch.compile that is wrong: eager, aot_eager, inductor"),
        ("region.*.fused", _B, "it is right without Inductor's pattern matcher"),
        ("region.*.script", _T, "a program of a few lines that shows it"),
    ),
    *_terms(
        "probe/trace/compiled_kernels.py",
        ("compiled.*.outcome", _T, "refuses, exceeds shared memory, aborted, hung"),
        ("compiled.*.title", _T, "the kernel, in words"),
        ("compiled.*.gpu", _T, "GPU it was compiled for"),
        ("compiled.*.calls", _T, "dtypes, head dimensions and forms with which it does not compile"),
        ("compiled.*.message", _T, "what the compiler says"),
        ("compiled.*.place", _T, "file:line of the launch"),
        ("compiled.*.mended_by", _T, "arguments with which it was seen to compile"),
    ),
    *_terms(
        "probe/kernels/trials.py",
        ("cell.*.outcome", _T, "wrong, not finite, refused, crashed, hung"),
        ("cell.*.backend", _T, "the kernel, by its name in --backend"),
        ("cell.*.title", _T, "the kernel, in words"),
        ("cell.*.form", _T, "dense, causal, gqa, varlen, bool-mask, half-mask, fp32-mask, window, softcap"),
        ("cell.*.situation", _T, "the layout, values or way to call in which it fails; absent for the usual one"),
        ("cell.*.condition", _T, "when it happens: dtypes, head dims, form, direction, GPU"),
        ("cell.*.gpu", _I, "index of the GPU, as torch counts"),
        ("cell.*.trials", _I, "how many trials met it"),
        ("cell.*.everyday", _B, "any training with this backend meets it: half precision, an ordinary form"),
        ("cell.*.error", _T, "how far off, or the kernel's own last words"),
        ("cell.*.chosen", _TS, "what torch picked there by itself of SDPA's backends, xformers of its operators"),
        ("cell.*.xids", _TS, "Xid numbers that the GPU told while it ran, with their meaning"),
        ("speed.*.index", _T, "index of the GPU, as torch counts"),
        ("speed.*.gpu", _T, "the GPU's name; for people only"),
        ("speed.*.matmul_tflops", _N, "a large matrix product in half precision", "TFLOP/s"),
        ("speed.*.copy_gbs", _N, "a large copy on the GPU", "GB/s"),
        ("speed.*.of_fastest_sibling", _N, "its worse measurement by that of the best GPU of its kind", "%"),
        ("speed.*.slower_than", _T, "that GPU"),
        ("speed.*.state", _T, "how the GPU was meanwhile: clock, power, what holds it down, memory errors, Xids"),
        ("speed.*.clock", _T, "clock of the multiprocessors under load, and the highest"),
        ("speed.*.throttle_reasons", _TS, "why the driver holds the clock down, in NVML's words"),
        ("speed.*.power", _T, "power drawn under load, and the limit"),
        ("speed.*.ecc_errors", _I, "uncorrected memory errors since the driver was loaded"),
        ("speed.*.remapped_rows", _T, "memory rows that were remapped, as NVML tells"),
        ("speed.*.busy", _T, "what else used the GPU when it was measured"),
    ),
    *_terms(
        "probe/kernels/kernel_shares.py",
        ("share.*.of_lowest_elsewhere", _N, "its share of a matrix product by the lowest seen elsewhere", "%"),
        ("share.*.of_matmul", _N, "what it reached of a matrix product on the same GPU", "%"),
        ("share.*.title", _T, "the kernel, in words"),
        ("share.*.gpu", _T, "index of the GPU, as torch counts"),
        ("share.*.way", _T, "forward, or forward and backward"),
        ("share.*.elsewhere", _T, "the shares that it reached elsewhere"),
        ("share.*.measured_on", _T, "the GPU and the versions of that"),
        ("share.*.state", _T, "how the GPU was meanwhile: clock, power, what holds it down, memory errors, Xids"),
        ("share.*.busy", _T, "what else used the GPU when it was measured"),
    ),
    *_terms(
        "probe/host/xids.py",
        ("xid.*.gpu", _T, "index of the GPU, as torch counts"),
        ("xid.*.number", _I, "the number"),
        ("xid.*.times", _I, "how often it was told"),
        ("xid.*.meaning", _T, "NVIDIA's name for it"),
        ("xid.*.blames", _T, "what it speaks of: program, hardware, driver, or nothing by itself"),
        ("xid.*.keep_out", _B, "no further work should go to the GPU before somebody has acted"),
        ("xid.*.action", _T, "what NVIDIA says to do first"),
    ),
    *_terms(
        "diagnose/log/subjects.py",
        (
            "subject.package",
            _T,
            "distribution that a finding is about: of its extension, import or sample, or of a log's message",
        ),
    ),
    *_terms(
        "diagnose/log/message_facts.py",
        ("log.fp32_operands", _TS, "which of q, k, v a log's message says is float32; empty when none is"),
        ("log.owners", _TS, "import names of the packages whose files its frames and paths name, outermost first"),
        ("log.innermost_owner", _T, "that of the innermost frame, or of the C++ file that complains"),
        ("log.symbol", _T, "the undefined symbol it names, mangled"),
        ("log.library", _T, "the shared library that the loader did not find"),
        ("log.releases_wanted", _T, "the releases of a package that a message accepts, as a specifier"),
        ("log.oldest_wanted", _V, "the oldest release of a package that a message accepts"),
        ("log.head_dim", _I, "the head dimension that a message names as the one it was given"),
        ("log.dtypes", _TS, "dtypes that a message names, as torch spells them: bfloat16, uint8"),
        ("log.cuda_needed", _V, "the CUDA that a message asks for"),
        ("log.model", _T, "the model's class that a message names"),
        ("log.made_for", _T, "AMD or Intel, where what was built or ran is for ROCm or for XPU"),
        ("log.board", _T, "Jetson, where the log was written on one: NVIDIA has a torch of its own for these"),
        ("log.advice", _T, "what a message tells its reader to set, or to take in place"),
        ("log.importer", _T, "the module whose own import failed, where a message names it"),
        ("log.went_on", _B, "the message says that the program took something else, or goes on without"),
        ("log.cuda_home_meant", _T, "the first folder of a CUDA_HOME that begins with a colon or holds a list"),
        ("log.cuda_stated", _V, "the CUDA that a report says it has: of torch, of the toolkit or of the driver"),
        ("log.uv_command", _T, "pip or project: uv as an installer, or with a pyproject.toml of its own"),
        ("log.device_wanted", _T, "cpu, where the log's writer asks for it"),
        ("log.header", _T, "the header that a compiler did not find"),
        ("log.newest_gcc", _T, "the newest gcc that nvcc says it accepts"),
        ("log.module", _T, "the module that an import did not find"),
        ("log.built_at_use", _T, "the distribution whose kernels were compiled at first use while the log was written"),
        ("log.program", _T, "the application in whose log the message stands (recipes/programs.toml)"),
        ("log.plugin", _T, "what was added to that application, a node or an extension: the message ends in its code"),
        ("log.plugin_folder", _T, "the folder of that, as the log names it"),
        ("log.switch_precision", _T, "the application's own switch for one precision of everything"),
        ("log.switch_attention", _T, "the application's own switch for torch's attention"),
        ("log.reasons", _TS, "reasons that a message, or the lines around it, enumerate, each with whose it is"),
    ),
    *_terms(
        "diagnose/derived.py",
        ("node.gpus", _T, "how many GPUs, and whether they were seen or assumed"),
        ("node.bf16_native", _B, "every GPU of the node has bf16 in hardware"),
        ("gpu.*.bf16_native", _B, "compute capability 8.0 or later: bf16 in hardware, not emulated"),
        ("gpu.*.torch_has_code", _B, "torch carries machine code or PTX that this GPU runs"),
        ("gpu.*.needs_driver", _T, "the drivers that know this GPU, where it was named and the node's does not"),
        ("driver.too_old", _B, "the driver is older than torch's CUDA needs"),
        ("package.*.fits_torch", _B, "triton: torch's metadata asks for it; else: its own accepts this torch"),
        ("import.*.missing_requirement", _T, "the requirement of some metadata that would bring the missing module"),
        ("package.*.newest_checked", _V, "newest release of it that the recipes were looked through for"),
        ("package.*.newer_than_checked", _B, "it is newer than that"),
        ("package.*.made_for_torch", _V, "the only torch it is made for, which is not and will not be there"),
        ("package.*.name", _T, "its name, where that is so"),
        ("package.*.wheel_named_apart", _T, "the torch, CUDA or C++ ABI in its wheel's name that are not those there"),
        ("package.*.wheel_of", _T, "its name, where that is so"),
        ("package.*.release_for_torch", _V, "its release that is made for the torch that is, or is to be, there"),
        ("package.*.backend_for_torch", _T, "the build of torch's own index, such as cu130, that it has to come from"),
        ("extension.*.release_for_torch", _V, "release of its package for the torch that is, or is to be, there"),
        ("extension.*.backend_for_torch", _T, "the build of torch's own index that its package has to come from"),
        ("torch.own_backend", _T, "the build of torch's own index that the installed torch is: cu130, cpu"),
        ("torch.flash_attn_3_build", _T, "the build of torch's own index that holds flash-attn-3 for torch's CUDA"),
        ("torch.lacks_gpu_code", _B, "yes where it has no code for a GPU of the node, else absent"),
        ("torch.gpu_release", _V, "release of torch with a CUDA build that this node's driver and GPUs run"),
        ("torch.asked_by", _TS, "packages that are made for one torch, which is not there and can be"),
        ("torch.changes_with_asked", _TS, "those, and those of which they ask for another release than is there"),
        ("torch.asked_words", _TS, "what each of them asks for"),
        ("torch.asked_release", _V, "that torch"),
        ("torch.asked_requirement", _T, "what an installer is asked for to bring it"),
        ("torch.asked_backend", _T, "the build of torch's own index that it has to come from"),
        ("torch.release_to_be", _V, "that release, or the one that stays"),
        ("torch.version_to_be", _V, "the same with the build, as the metadata of the one that stays spells it"),
        ("torch.backend_to_be", _T, "the build of torch's own index that it comes from"),
        ("torch.release_to_come", _V, "release of torch that cures here bring; absent where torch stays"),
        ("torch.gpu_backend", _T, "that build, as torch's own index calls it: cu130"),
        ("requirement.*.met", _B, "what is there is what is asked for"),
        ("environment.unmet_in_stack", _TS, "requirements of the attention stack that are not met, in words"),
        ("environment.unmet_with_cpu_torch", _TS, "those that a GPU build of torch in place of a CPU build would meet"),
        ("environment.unmet_to_install", _TS, "what to ask an installer for so that they are met, torch apart"),
        ("package.*.promotes", _TS, "functions of its own that changed a dtype on the way to a broken attention call"),
        ("promotion.*.package", _T, "the known package that its line belongs to; absent for a project's own line"),
        ("extension.*.abi_differs", _B, "it and torch disagree on std::string"),
        ("extension.*.cudart_differs", _B, "it needs another CUDA runtime major than torch's"),
        ("extension.*.glibc_too_old", _B, "it needs a newer glibc than the node has"),
        ("extension.*.libstdcxx_too_old", _B, "it needs a newer libstdc++ than would be loaded"),
        ("extension.*.gpus_without_code", _TS, "compute capabilities of this node's GPUs that it has no code for"),
        ("extension.*.lacks_gpu_code", _B, "it has no code for at least one GPU of the node"),
        ("extension.*.gpus_package_lacks", _TS, "those of them that no other extension of its package serves"),
        ("extension.*.gpus_served_elsewhere", _TS, "those of them that another extension of its package has code for"),
        ("import.*.package", _T, "distribution that the module is of"),
        ("sample.*.package", _T, "distribution that the sample is of"),
    ),
)  # fmt: skip

_BY_NAME = {term.name: term for term in TERMS}


def term_of(name: FactName) -> Term | None:
    """The entry that describes this name, or None when there is no such fact."""
    if name.kind == "env":
        return _BY_NAME["env.*"]
    if name.kind in PLURAL:
        return _BY_NAME.get(f"{name.kind}.*.{name.attribute}")
    return _BY_NAME.get(f"{name.kind}.{name.attribute}")


def close_names(text: str, *, most: int = 3) -> tuple[str, ...]:
    """Names of facts that resemble the text, for suggestions in error messages."""
    import difflib

    spelled = [term.name.replace(".*.", ".") for term in TERMS]
    return tuple(difflib.get_close_matches(text, spelled, n=most, cutoff=0.6))


def value_fault(kind: ValueType, value: Value) -> str | None:
    """What is wrong with a value for a fact of this type, or None."""
    if kind is ValueType.TEXTS:
        good = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        return None if good else "wants a list of strings"
    if kind is ValueType.YES_NO:
        return None if isinstance(value, bool) else "wants true or false"
    if kind in (ValueType.INTEGER, ValueType.NUMBER):
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        return None if good else "wants a number"
    if not isinstance(value, str):
        return "wants a string"
    if kind is ValueType.CAPABILITY and not re.fullmatch(r"\d+\.\d", value):
        return 'wants a compute capability such as "9.0"'
    return None
