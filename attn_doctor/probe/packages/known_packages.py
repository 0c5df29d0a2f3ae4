"""The distributions of an attention stack, and their import names.

Attention libraries are described in their own files (patient/libraries/); this file has the packages around them. The
names of a distribution, its import and its compiled modules differ: nvidia-cutlass-dsl is imported as `cutlass`.
"""

from __future__ import annotations

from collections.abc import Collection

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
    # Its metadata does not require torch, but its files are compiled against it.
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

#: Of several with one module, the first: it represents the library when a distribution has a name of its own.
BY_MODULE = {package.module: package for package in reversed(PACKAGES)}

#: Other packages use these import names too: a module of that name need not be the library.
AMBIGUOUS = frozenset({"cutlass", "kernels", "nvidia"})


def distribution_of(module: str, installed: Collection[str] = ()) -> str:
    """The distribution of a module, by its import name or that of an extension.

    When several share the name, one that is installed.
    """
    top = module.partition(".")[0]
    owners = [package.name for package in PACKAGES if top == package.module or top in package.extensions]
    exact = [package.name for package in PACKAGES if module in package.imports and module != package.module]
    every = [*exact, *owners]
    return next((one for one in every if one in installed), next(iter(every), top.replace("_", "-")))
