"""The distributions that make up an attention stack, and what they are imported as.

Attention libraries are described in their own files (patient/libraries/); here is what stands around them. A
distribution's name, its import name and its compiled modules differ: nvidia-cutlass-dsl is `cutlass`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from attn_doctor.model.libraries import published


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One distribution."""

    name: str
    """Canonical distribution name."""
    module: str
    """Top-level name it is imported as."""
    imports: tuple[str, ...] = ()
    """What `check` imports to see that it works; empty for frameworks that are only read about."""
    extensions: tuple[str, ...] = ()
    """Compiled modules that lie outside its own folder."""
    kernels_in: tuple[str, ...] = ()
    """Compiled modules that hold its kernels."""
    nested: bool = False
    """It lies in the namespace of another: the name alone does not tell that it is there."""


def _package(name: str, module: str, *imports: str, extensions: tuple[str, ...] = ()) -> Package:
    return Package(name=name, module=module, imports=imports, extensions=extensions)


PACKAGES: tuple[Package, ...] = (
    _package("torch", "torch", "torch"),
    _package("triton", "triton", "triton"),
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
        )
        for library in published()
        for name in library.distributions
    ),
    _package("transformers", "transformers", "transformers"),
    _package("x-transformers", "x_transformers", "x_transformers"),
    _package("torchvision", "torchvision", "torchvision"),
    _package("torchaudio", "torchaudio", "torchaudio"),
    _package("causal-conv1d", "causal_conv1d", "causal_conv1d", extensions=("causal_conv1d_cuda",)),
    _package("mamba-ssm", "mamba_ssm", "mamba_ssm", extensions=("selective_scan_cuda",)),
    _package("bitsandbytes", "bitsandbytes", "bitsandbytes"),
    _package("nvidia-cutlass-dsl", "cutlass", "cutlass"),
    _package("deepspeed", "deepspeed", "deepspeed"),
    _package("vllm", "vllm"),
    _package("sglang", "sglang"),
    # Its metadata names no torch, and its files are compiled against one.
    _package("sgl-kernel", "sgl_kernel"),
    _package("sglang-kernel", "sgl_kernel"),
    _package("llamafactory", "llamafactory"),
    _package("accelerate", "accelerate"),
    _package("peft", "peft"),
    _package("trl", "trl"),
    _package("kernels", "kernels"),
    _package("tilelang", "tilelang"),
    _package("flashinfer-python", "flashinfer"),
    _package("einops", "einops"),
    _package("nvidia-nccl-cu12", "nvidia"),
    _package("nvidia-nccl-cu13", "nvidia"),
    _package("nvidia-cudnn-cu12", "nvidia"),
    _package("nvidia-cudnn-cu13", "nvidia"),
)

BY_NAME = {package.name: package for package in PACKAGES}

#: Of several that share a module the first: it stands for the library where a distribution bears a name of its own.
BY_MODULE = {package.module: package for package in reversed(PACKAGES)}

#: Other packages have these import names too: a module that is called so need not be the library.
AMBIGUOUS = frozenset({"cutlass", "kernels", "nvidia"})


def distribution_of(module: str, installed: Collection[str] = ()) -> str:
    """The distribution that a module is of, by its import name or that of an extension.

    Where several share a name, one that is installed.
    """
    top = module.partition(".")[0]
    owners = [package.name for package in PACKAGES if top == package.module or top in package.extensions]
    exact = [package.name for package in PACKAGES if module in package.imports and module != package.module]
    every = [*exact, *owners]
    return next((one for one in every if one in installed), next(iter(every), top.replace("_", "-")))
