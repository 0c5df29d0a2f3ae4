"""The distributions of an attention stack, and their import names.

Attention libraries are described in their own files (patient/libraries/); this file has the packages around them. The
names of a distribution, its import and its compiled modules differ: nvidia-cutlass-dsl is imported as `cutlass`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from attn_doctor.model.libraries import published
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One distribution."""

    name: str
    """Canonical distribution name."""
    module: str
    """Top-level import name."""
    imports: tuple[str, ...] = ()
    """Modules that `check` imports as a test; empty for frameworks of which only metadata is read."""
    extensions: tuple[str, ...] = ()
    """Compiled modules outside its own folder."""
    kernels_in: tuple[str, ...] = ()
    """Compiled modules that contain its kernels."""
    nested: bool = False
    """It is in the namespace of another package: the top-level name alone does not prove that it is installed."""
    in_messages: tuple[str, ...] = ()
    """Patterns of its name as sentences of messages spell it."""
    of_its_own: tuple[str, ...] = ()
    """Patterns of names in its own code that hold another package's: vLLM's class FlashAttentionImpl is none of
    flash-attn's."""
    around: bool = False
    """It calls the kernels of others: a message that names one of those as well is about that one."""
    operators: tuple[str, ...] = ()
    """Patterns of its operators' names, which name it where a message names no package."""
    parts: tuple[str, ...] = ()
    """Compiled modules inside its folder whose names are its alone."""
    sources: tuple[str, ...] = ()
    """Folders with the setup.py from which it is built, where they have other names."""
    built_at_use: tuple[str, ...] = ()
    """Extensions that it compiles at first use."""
    copies: tuple[str, ...] = ()
    """Distributions of whose kernels it has copies of its own: installing those changes nothing for it."""


def _package(name: str, module: str, *imports: str, **more: Any) -> Package:
    return Package(name=name, module=module, imports=imports, **more)


def _named(name: str, module: str, *imports: str, called: str, **more: Any) -> Package:
    return Package(name=name, module=module, imports=imports, in_messages=(called,), **more)


#: Operators that DeepSpeed compiles at first use (op_builder/).
_DEEPSPEED = (
    "cpu_adam", "cpu_adagrad", "cpu_lion", "fused_adam", "fused_lamb", "fused_lion", "async_io", "utils",
    "transformer_inference", "ragged_device_ops", "inference_core_ops", "inference_cutlass_builder",
    "evoformer_attn", "sparse_attn", "random_ltd", "spatial_inference", "quantizer", "transformer",
    "stochastic_transformer", "fp_quantizer", "gds",
)  # fmt: skip


#: What serving engines have copies of (the libraries whose modules are called so), or never load.
_COPIED = (
    "kernels",
    *(name for library in published() if library.module.startswith("flash_") for name in library.distributions),
)

PACKAGES: tuple[Package, ...] = (
    _package("torch", "torch", "torch", operators=(r"\benhancement request to PyTorch\b",)),
    _package("triton", "triton", "triton", operators=(r"\b[Tt]riton\b",)),
    _package("pytorch-triton", "triton", "triton"),
    _package("pytorch-triton-rocm", "triton", "triton"),
    *(
        Package(
            name=name,
            module=library.top_level,
            imports=(library.imports or library.module,),
            extensions=library.extensions,
            kernels_in=library.kernels_in,
            nested="." in library.module,
            in_messages=library.in_messages if name == library.distributions[0] else (),
            operators=library.operators if name == library.distributions[0] else (),
            parts=library.parts,
            sources=(*library.checkouts, *library.sources),
        )
        for library in published()
        for name in library.distributions
    ),
    _package(
        "transformers",
        "transformers",
        "transformers",
        of_its_own=(
            r"\b[A-Z]\w+(?:FlashAttention2|SdpaAttention)\b|\b_flash_attention_forward\b|\b_flash_supports_\w+",
        ),
    ),
    _package("x-transformers", "x_transformers", "x_transformers"),
    _named(
        "torchvision", "torchvision", "torchvision", called=r"\btorchvision\b", around=True, parts=("libtorchvision",)
    ),
    _named("torchaudio", "torchaudio", "torchaudio", called=r"\btorchaudio\b", around=True, parts=("libtorchaudio",)),
    _named(
        "causal-conv1d",
        "causal_conv1d",
        "causal_conv1d",
        called=r"causal[-_]conv1d",
        extensions=("causal_conv1d_cuda",),
    ),
    _named(
        "mamba-ssm",
        "mamba_ssm",
        "mamba_ssm",
        called=r"\bmamba[-_]ssm\b|selective_scan",
        extensions=("selective_scan_cuda",),
        sources=("mamba", "selective_scan"),
    ),
    _named(
        "bitsandbytes",
        "bitsandbytes",
        "bitsandbytes",
        called=r"\bbitsandbytes\b|in file /src/csrc/ops\.cu\b",
        around=True,
    ),
    _package("nvidia-cutlass-dsl", "cutlass", "cutlass"),
    _named(
        "deepspeed",
        "deepspeed",
        "deepspeed",
        called=r"\bdeep_?speed\b|\bDeepSpeed\b",
        around=True,
        sources=("DeepSpeed",),
        built_at_use=_DEEPSPEED,
    ),
    _named(
        "vllm",
        "vllm",
        called=r"\bvLLM\b|\bvllm\b|\bVLLM_[A-Z]|\bVllm\w|\bAttentionBackendEnum\b|\bMLACommon|\bPagedAttention\b"
        r"|\bSelected backend |\bWorker failed with error"
        r"|\b(?:FlashAttn|FlashInfer|FlashMLA|TritonAttn|Mamba)\w*Backend\b",
        around=True,
        of_its_own=(
            r"\b_?vllm_(?:flash_\w+|fa\d_C)\b",
            r"\bCannot use \w[\w -]{2,40} backend",
            r"\bHead size \d+ is not supported by",
            r"\b(?:Flash(?:Attention|Attn|Infer|MLA)|Triton\w{0,20}|X[Ff]ormers|TorchSDPA)(?:Impl|Metadata\w{0,20})\b",
        ),
        parts=("_vllm_fa2_C", "_vllm_fa3_C", "_vllm_fa4_C", "vllm_flash_attn"),
        copies=_COPIED,
    ),
    _named(
        "sglang",
        "sglang",
        called=r"\bSGLang\b|\bsglang\b",
        around=True,
        of_its_own=(r"\bsgl[-_]kernel\b",),
        copies=_COPIED,
    ),
    _named(
        "lmdeploy",
        "lmdeploy",
        called=r"\b[Ll][Mm][Dd]eploy\b|\[TM\]\[(?:FATAL|ERROR|WARNING)\]|\bturbomind\b|\bTurbo[Mm]ind\b",
        around=True,
    ),
    _package(
        "text-generation-server",
        "text_generation_server",
        of_its_own=(r"\btext_generation_(?:launcher|server)\b|\bFlash Attention enabled models\b",),
        copies=_COPIED,
    ),
    _package(
        "autoawq-kernels", "awq_ext", parts=("awq_ext", "awq_v2_ext", "awq_inference_engine", "exl_ext", "exlv2_ext")
    ),
    _package(
        "auto-gptq",
        "auto_gptq",
        extensions=("exllama_kernels", "exllamav2_kernels"),
        parts=("autogptq_cuda_64", "autogptq_cuda_256", "autogptq_marlin_cuda"),
    ),
    _package("exllamav2", "exllamav2", extensions=("exllamav2_ext",)),
    # Its metadata does not require torch, but its files are compiled against it.
    _package("sgl-kernel", "sgl_kernel", parts=("common_ops",)),
    _package("sglang-kernel", "sgl_kernel"),
    _package("llamafactory", "llamafactory"),
    _package("accelerate", "accelerate"),
    _package("peft", "peft"),
    _package("trl", "trl"),
    _package("kernels", "kernels"),
    _named("tilelang", "tilelang", called=r"\b[Tt]ile[Ll]ang\b"),
    _package("apache-tvm-ffi", "tvm_ffi"),
    _package("spas-sage-attn", "spas_sage_attn"),
    _named("natten", "natten", called=r"\bnatten\b|\bNATTEN\b", extensions=("libnatten",)),
    _named(
        "flashinfer-python",
        "flashinfer",
        called=r"\b[Ff]lash[Ii]nfer\b|\bBatch(?:Prefill|Decode)With(?:Paged|Ragged)KVCache|\bTopKTopPSampling",
        sources=("flashinfer",),
    ),
    _package("einops", "einops"),
    _package("nvidia-nccl-cu12", "nvidia"),
    _package("nvidia-nccl-cu13", "nvidia"),
    _package("nvidia-cudnn-cu12", "nvidia"),
    _package("nvidia-cudnn-cu13", "nvidia"),
)

BY_NAME = {package.name: package for package in PACKAGES}

#: Of several with one module, the first: it represents the library when a distribution has a name of its own.
BY_MODULE = {package.module: package for package in reversed(PACKAGES)}

#: Other packages use these import names too: a module of that name need not be the library.
AMBIGUOUS = frozenset({"cutlass", "kernels", "nvidia"})


#: Import names of packages that are on no list, and are called otherwise where they are installed from.
_CALLED_OTHERWISE = {
    "PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "skimage": "scikit-image", "yaml": "pyyaml",
    "pkg_resources": "setuptools", "attr": "attrs", "dateutil": "python-dateutil", "Crypto": "pycryptodome",
    "_XLAC": "torch-xla",
}  # fmt: skip

#: How compiled modules are called after their package.
_COMPILED = re.compile(r"(?<=\w)(?:_\d)?_(?:cuda|ext|cpp|hip|kernels|C)$")


def distribution_of(module: str, installed: Collection[str] = ()) -> str:
    """The distribution of a module, by its import name or that of an extension.

    When several share the name, one that is installed.
    """
    top = module.partition(".")[0]
    owners = [package.name for package in PACKAGES if top == package.module or top in package.extensions]
    exact = [package.name for package in PACKAGES if module in package.imports and module != package.module]
    every = [*exact, *owners]
    return next((one for one in every if one in installed), next(iter(every), _guessed(top)))


def _guessed(module: str) -> str:
    """The name of a distribution that is on no list: `flex_head_fa_2_cuda` is a compiled part of flex-head-fa."""
    return _CALLED_OTHERWISE.get(module) or _COMPILED.sub("", module).replace("_", "-").strip("-") or module
