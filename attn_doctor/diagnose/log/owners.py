"""The owner of a file that a frame or a C++ message names."""

from __future__ import annotations

import re
from itertools import pairwise

from attn_doctor.model.libraries import published
from attn_doctor.probe.packages.known_packages import PACKAGES
from attn_doctor.quick_patterns import when_used

#: Folders that identify a package in any path: trimmed paths and source checkouts contain no site-packages.
_PACKAGES = frozenset(
    {
        "torch", "triton", "transformers", "vllm", "vllm_flash_attn", "peft", "accelerate", "deepspeed", "mamba_ssm",
        "causal_conv1d", "bitsandbytes", "diffusers", "unsloth", "unsloth_zoo", "trl", "llamafactory", "llmtuner",
        "megatron", "apex", "x_transformers", "torchvision", "torchaudio", "flashinfer", "cutlass", "sglang", "verl",
        "axolotl", "lightning", "pytorch_lightning", "exllamav2", "auto_gptq", "awq", "timm", "ninja",
        "setuptools", "pip", "lmdeploy", "tensorrt_llm", "fairseq",
    }
) | {library.top_level for library in published()}  # fmt: skip
#: Folder into which its source is cloned -> import name.
_CHECKOUTS = {folder: library.top_level for library in published() for folder in library.checkouts}
#: Folder in which its authors compile it, as messages of its wheels name it -> import name.
_COMPILED_IN = {"nunchaku-dev": "nunchaku"}
#: Of packages that `check` does not look at; apex installs its modules beside its folder.
_PARTS_OF_OTHERS = {"libpyg": "pyg_lib"} | dict.fromkeys(
    (
        "amp_C", "apex_C", "distributed_adam_cuda", "fast_layer_norm", "fast_multihead_attn", "fmhalib",
        "focal_loss_cuda", "fused_dense_cuda", "fused_layer_norm_cuda", "fused_rotary_positional_embedding",
        "fused_weight_gradient_mlp_cuda", "generic_scaled_masked_softmax_cuda", "group_norm_cuda", "mlp_cuda",
        "scaled_masked_softmax_cuda", "scaled_softmax_cuda", "scaled_upper_triang_masked_softmax_cuda", "syncbn",
        "xentropy_cuda",
    ),
    "apex",
)  # fmt: skip
#: A compiled module or library inside a package's folder -> import name: many messages leave the folder out.
PARTS = {part: package.module for package in reversed(PACKAGES) for part in package.parts} | _PARTS_OF_OTHERS
#: An extension that is compiled when it is first used -> import name of the package that does so.
BUILT_AT_USE = {name: package.module for package in PACKAGES for name in package.built_at_use}
#: Folders with what was compiled at first use: of torch's builder one for each extension, of others one of their own.
_OF_AN_EXTENSION = when_used(r"[/\\]torch_extensions[/\\](?:py\w+[/\\])?(?!py\d+_)(?P<name>[A-Za-z]\w+)")
_CACHES = {".deep_gemm": "deep_gemm", ".tilelang": "tilelang", "tvm-ffi": "tvm_ffi"}
_COMPILED_BY_TORCH = when_used(r"[/\\](?:torchinductor_[\w.-]+|torch_compile_cache)[/\\]")
#: `flash-attn_4a21…` in pip's own folder is where it unpacked flash-attn.
_UNPACKED_BY_PIP = when_used(r"[/\\]pip-(?:install|req-build)-\w+[/\\](?P<name>[\w.+-]{2,80}?)_[0-9a-f]{16,64}[/\\]")
#: A checkout that pip copied: its own folder has no name, and what lies in it has that of the package.
_COPIED_BY_PIP = when_used(
    r"[/\\]pip-req-build-\w+[/\\](?!(?:csrc|src|include|third_party|build|kernels|ops)[/\\])"
    r"(?P<name>[a-z]\w{2,60})[/\\]"
)
_INSTALLED = when_used(r"(?:site|dist)-packages/(?P<name>[\w.-]+)")
_STANDARD_LIBRARY = when_used(r"[/\\][Ll]ib[/\\]python3\.\d{1,2}t?[/\\]")
#: An environment often has the name of a package.
_ENVIRONMENT = when_used(r"(?:envs|virtualenvs|venvs)[/\\][\w.@-]+")
#: A repository that torch.hub fetched lies in a cache called torch.
_OF_TORCH_HUB = when_used(r"torch[/\\]hub[/\\][\w.@-]+")
_EGG = when_used(r"\.egg/(?P<name>\w+)")
_EXTENSION = when_used(r"(?P<name>\w+?)(?:\.cpython-\d+[\w-]*|\.cp\d+-\w+|\.abi3)?\.(?:so|pyd)(?:[.\d]*)$")

#: Ends of names of compiled modules.
_IS_CUT = when_used(r"[a-z]\w{2,40}_(?:cuda|ext|kernels?)")


def owner(path: str) -> str:
    """The import name of the package to which the file belongs; empty when the path does not show it.

    `remote-code` is a model's own code that transformers loads, `hub-kernel` a compiled kernel of the Hugging Face hub.
    """
    if "transformers_modules/" in path:
        return "remote-code"
    if path.startswith("/build/source/"):
        return "hub-kernel"  # the path in the image in which the hub's kernels are built
    if built := compiled_at_use(path):
        return built
    if _COMPILED_BY_TORCH.search(path):
        return "torch"
    if unpacked := _UNPACKED_BY_PIP.search(path) or _COPIED_BY_PIP.search(path):
        return unpacked["name"].replace("-", "_")
    found = _EGG.search(path) or _INSTALLED.search(path)
    if found:
        name = found["name"]
        extension = _EXTENSION.match(name)
        return _whole(extension["name"]) if extension else name.partition(".")[0].partition("-")[0]
    if _STANDARD_LIBRARY.search(path):
        return ""
    parts = re.split(r"[/\\]", _OF_TORCH_HUB.sub("", _ENVIRONMENT.sub("", path)))
    for part in parts:
        if part in _PACKAGES or part in _COMPILED_IN:
            return _COMPILED_IN.get(part, part)
    for part in parts:
        if part in _CHECKOUTS:
            return _CHECKOUTS[part]
    extension = _EXTENSION.match(parts[-1])
    name = extension["name"] if extension else ""
    if name.startswith("_") and name not in PARTS:
        # `_C` in a checkout is a part of the package whose folder it is in; alone it is anybody's.
        return parts[-2] if len(parts) > 1 else ""
    if name.startswith("lib"):
        return PARTS.get(name, "")
    return _whole(name)


def whole_name(file: str, message: str) -> str:
    """A compiled file without its folder, by the name that its module has elsewhere in the message, where the file's is
    only the end of that: markdown takes underscores around a word for italics, and a site cuts the name there.
    """
    end = file.partition(".")[0]
    if not _IS_CUT.fullmatch(end):
        return file
    whole = re.search(rf"(?<![\w/.])[a-z]\w{{1,40}}_{end}(?!\w)", message)
    return whole[0] + file[len(end) :] if whole else file


def compiled_at_use(path: str) -> str:
    """The import name of the package whose kernels are compiled into this folder when they are first used; or empty."""
    found = _OF_AN_EXTENSION.search(path)
    if found:
        return BUILT_AT_USE.get(found["name"], found["name"])
    parts = re.split(r"[/\\]", _OF_TORCH_HUB.sub("", path))
    for folder, below in pairwise(parts):
        if folder == ".cache" and below in _PACKAGES:
            return below
        if folder in _CACHES:
            return _CACHES[folder]
    return ""


def _whole(extension: str) -> str:
    """The import name of the package that a compiled module belongs to, where its name tells."""
    return PARTS.get(extension, extension)
