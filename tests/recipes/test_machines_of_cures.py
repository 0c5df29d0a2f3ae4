"""A text that sends its reader to another torch, toolkit, driver or kernel asks for the machine, or says for which."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from attn_doctor.model.facts import FactName
from attn_doctor.model.remedies import Advise
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import AtLeast, Below, Recipe, RecipeRemedy
from tests.recipes.remedies import DRIVERS, GPUS, Law, asked, facts_asked, faults, named, texts

CUDA = {*DRIVERS, "torch.cuda", "cuda.nvcc", "log.cuda_needed", "log.cuda_stated"}

_GET = r"(?:[Ii]nstall|[Tt]ake|[Uu]pdate|[Uu]pgrade|[Mm]ove to|[Gg]o back to|[Uu]se|[Rr]einstall)\b"
_KERNEL = (
    r"(?:Flash ?Attention(?:[- ]?[234])?|FA[234]|flash[-_]attn(?:[-_][34])?|flash_attention_[23]|FlashMLA|SageAttention"
    r"|sageattention|Transformer Engine|transformer-engine|mamba-ssm|causal-conv1d|[Nn]unchaku|bfloat16|bf16)(?![\w-])"
)
#: A release of torch, of a toolkit or of the driver, and a kernel for some GPUs, each to be had.
TORCH = re.compile(_GET + r"[^.;:,(]{0,40}?\b(?<!before )torch (?:to )?(?:at most )?\d\.\d+")
TOOLKIT = re.compile(rf"(?:{_GET}|\bnvcc\b|\b[Bb]uild\b)[^.;:]{{0,40}}?\b(?:CUDA|nvcc)(?: toolkit)? 1\d\.\d")
DRIVER = re.compile(r"(?:[Ii]nstall|[Uu]pdate|[Uu]pgrade)\b[^.;:]{0,40}\bdriver\b[^.;:]{0,40}\b[45]\d\d\b")
KERNEL = re.compile(
    r"(?:^|[.;:] |\bthen )(?:[Ii]nstall|[Tt]ake|[Uu]se|[Ss]witch (?:to|on)|[Ss]et attention to|[Aa]sk for|[Cc]hoose"
    rf"|[Bb]uild|[Cc]ompile|[Ll]oad|[Rr]un|[Tt]rain)\b[^.;:,(]{{0,40}}?\b(?<!made for ){_KERNEL}[^.;:]{{0,80}}",
    re.MULTILINE,
)
#: How a text says for which machine that is.
SAYS_DRIVER = re.compile(r"\bdrivers?\b|\bROCm\b|\bCPUs?\b|\bMac\b|\bmacOS\b|\bMPS\b|\bmps\b|\bOpenVINO\b|\bXPU\b")
SAYS_CUDA = re.compile(r"\bdrivers?\b|torch's CUDA|torch\.version\.cuda|\bCUDA of torch\b")
SAYS_GPU = re.compile(
    r"compute capabilit|\bAmpere\b|\bHopper\b|\bBlackwell\b|\bTuring\b|\bRTX \d|\b[ABHLV]\d{2,3}\b|\bT4\b|\bRadeons?\b"
    r"|\bMI\d|\bROCm\b|\bMac\b|\bCPU\b"
)
#: Something else stands beside the kernel, for the GPUs that it is not for.
ELSE = re.compile(r"\bor\b|\bSDPA\b|\bsdpa\b|\beager\b|\bin place of\b|\bfloat(?:16|32)\b|\bfp16\b| out\b|\bwithout\b")
#: A release before 2.7 has no code for what came after it.
OLD_TORCH = re.compile(
    _GET + r"[^.;:,(]{0,40}?\btorch (?:at most )?(?:1\.\d+|2\.[0-6])\b(?!(?:\.\d)? or (?:later|newer))"
)
#: Nothing here is built for torch, or for its CUDA.
NOT_OF_TORCH = MappingProxyType(
    {
        "paddle-build-and-gpu-differ:check-3": "PaddlePaddle names its CUDA by itself",
        "onnxruntime-without-cuda:check-7": "ONNX Runtime names its CUDA by itself",
    }
)


def _said(remedy: RecipeRemedy) -> str:
    return "\n".join(texts(remedy))


def torch_for_no_driver(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """Another torch, of whose CUDA the driver has to be."""
    if _facts(recipe, remedy) & DRIVERS or SAYS_DRIVER.search(_said(remedy)):
        return []
    return [one[0] for one in TORCH.finditer(_said(remedy))]


def torch_for_no_gpu(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """A torch of another time, which has no code for later GPUs."""
    if _facts(recipe, remedy) & {*GPUS, *DRIVERS} or SAYS_GPU.search(_said(remedy)):
        return []
    return [one[0] for one in OLD_TORCH.finditer(_said(remedy))]


def toolkit_for_no_torch(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """A toolkit, of whose major release torch has to be."""
    if f"{recipe.id}:{remedy.id}" in NOT_OF_TORCH:
        return []
    if _facts(recipe, remedy) & CUDA or SAYS_CUDA.search(_said(remedy)):
        return []
    return [one[0] for one in TOOLKIT.finditer(_said(remedy))]


def driver_for_no_cuda(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """A driver, which may be there or newer."""
    if _facts(recipe, remedy) & DRIVERS:
        return []
    return [one[0] for one in DRIVER.finditer(_said(remedy)) if not re.search(r"CUDA \d", one.string)]


def kernel_for_no_gpu(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """A kernel that is for some GPUs alone, and nothing beside it."""
    if _facts(recipe, remedy) & GPUS or SAYS_GPU.search(_said(remedy)):
        return []
    return [one[0].strip() for one in KERNEL.finditer(_said(remedy)) if not ELSE.search(one[0])]


def _facts(recipe: Recipe, remedy: RecipeRemedy) -> set[str]:
    return facts_asked(recipe, remedy) | {re.sub(r"\.\*\.", ".", str(one.fact)) for one in asked(recipe.unless)}


LAWS = (torch_for_no_driver, torch_for_no_gpu, toolkit_for_no_torch, driver_for_no_cuda, kernel_for_no_gpu)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_text_says_for_which_machine_it_is(law: Law) -> None:
    """Add a condition on the driver, torch's CUDA or the GPU, or say in the text for which it is."""
    assert faults(law) == []


def test_each_exception_is_needed() -> None:
    """One that no law is against any more goes out."""
    for called in NOT_OF_TORCH:
        _, remedy = named(called)
        assert TOOLKIT.search(_said(remedy)), called


PLANTED = {
    torch_for_no_driver: (
        ["Install torch 2.7 or later", "Take it, then use torch 2.6", "Upgrade to torch 2.9.1"],
        ["Install torch 2.7 or later, in a build that the driver runs", "On a CPU take torch 2.6 or later"],
        ["torch 2.6 has it", "Install the Triton that torch asks for (torch 2.6: 3.2)"],
        AtLeast(fact=FactName.parse("driver.cuda"), bound="12.8"),
    ),
    torch_for_no_gpu: (
        ["Install torch 1.12", "Use torch 2.4 at most", "Go back to torch 2.1"],
        ["Install torch 1.12, for GPUs up to compute capability 8.6"],
        ["Install torch 2.6 or later", "Install torch 2.9"],
        Below(fact=FactName.parse("gpu.compute_capability"), bound="9.0"),
    ),
    toolkit_for_no_torch: (
        ["Install CUDA 12.8", "Compile it, nvcc of CUDA 12.4", "Build it with CUDA 11.8"],
        ["Install CUDA 12.8, of torch's CUDA major"],
        ["CUDA 12.8 has it"],
        AtLeast(fact=FactName.parse("torch.cuda"), bound="12.0"),
    ),
    driver_for_no_cuda: (
        ["Install a newer driver, 550 or later", "Update the driver to 580"],
        ["Update the driver to 580, for CUDA 13"],
        ["The driver is 550"],
        AtLeast(fact=FactName.parse("driver.version"), bound="550"),
    ),
    kernel_for_no_gpu: (
        ["Take FlashAttention 2", "Use attn_implementation=flash_attention_2 there", "Train in bf16"],
        ["Take FlashAttention 2, for compute capability 8.0 and later", "Take FlashAttention 2 (Ampere and later)"],
        ["Take FlashAttention 2 or SDPA", "FlashAttention 2 refuses it"],
        AtLeast(fact=FactName.parse("gpu.compute_capability"), bound="8.0"),
    ),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_is_for_no_machine_is_seen(law: Law) -> None:
    """Without a condition; one on the fact clears it, and so do words."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    wrong, says, other, condition = PLANTED[law]
    bare = replace(remedy, when=(), unless=(), actions=(), title="So")

    for text in wrong:
        assert law(recipe, replace(bare, title=text)), text
        advised = replace(bare, actions=(Advise(text=text),))
        assert law(recipe, advised), text
        assert not law(recipe, replace(advised, when=(condition,))), text
        assert not law(recipe, replace(advised, unless=(condition,))), text
    for text in (*says, *other):
        assert not law(recipe, replace(bare, title=text)), text
