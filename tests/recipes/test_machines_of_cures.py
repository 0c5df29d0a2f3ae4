"""A text that sends its reader to another torch, toolkit, driver or kernel asks for the machine, or says for which."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from attn_doctor.diagnose.binding import Binding, bind
from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.possible import is_possible
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin, Value
from attn_doctor.model.findings import Verdict
from attn_doctor.model.remedies import Advise
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import AtLeast, Below, Condition, Recipe, RecipeRemedy
from tests.recipes.remedies import DRIVERS, Law, asked, facts_asked, faults, named, texts

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
#: How a text says for which machine that is: a clause on the driver is one on what it runs.
SAYS_DRIVER = re.compile(
    r"\bdrivers?\b[^.;:\n]*(?:CUDA|build|torch|\bruns?\b|\btakes?\b)|(?:CUDA|build|torch)\b[^.;:\n]*\bdrivers?\b"
    r"|\bROCm\b|\bCPUs?\b|\bMac\b|\bmacOS\b|\bMPS\b|\bmps\b|\bOpenVINO\b|\bXPU\b"
)
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


#: What stands beside what a title says: a word on the driver there.
ASIDE = re.compile(
    r"(?<=[.;]) ?(?:That|Its|Their|The|A|In|Any|It)\b[^.;]*\b(?<!-)(?:driver|nvidia-smi)\b[^.;]*[.;]?$"
    r"|,? (?:in|as|by) (?:a|the|its) build[^,.;:()]*\b(?:driver|nvidia-smi)\b[^,.;:()]*"
    r"| ?\([^()]*\b(?<!-)(?:driver|nvidia-smi)\b[^()]*\)"
)


def _machine(**told: Value) -> FactSet:
    return FactSet(
        Fact(name=FactName.parse(name.replace("__", ".")), state=Known(value), how="line 1", origin=Origin.DERIVED)
        for name, value in told.items()
    )


#: A board for which none of the kernels is, and a GPU that came after the old torches, with its driver.
OLD = _machine(
    gpu__0__compute_capability="6.2",
    call__0__compute_capability="6.2",
    gpu__0__bf16_native=False,
    node__bf16_native=False,
)
NEW = _machine(gpu__0__compute_capability="12.0", driver__cuda="12.8", driver__version="570.0")
ELSEWHERE = {
    "macOS": _machine(node__system="macOS", log__device="Apple"),
    "AMD": _machine(node__system="Linux", log__made_for="AMD", log__device="AMD"),
    "Intel": _machine(node__system="Linux", log__made_for="Intel", log__device="Intel"),
    "Ascend": _machine(node__system="Linux", log__made_for="Ascend", log__device="Ascend"),
}


def is_shut_out(recipe: Recipe, remedy: RecipeRemedy, machine: FactSet) -> bool:
    """True where a condition keeps the remedy from that machine; a recipe's own only where no log offers it without."""

    def all_are(condition: Condition, verdict: Verdict) -> bool:
        choices = list(Binding().choices((condition,), machine))
        return bool(choices) and all(answer_all((condition,), machine, bound) is verdict for bound in choices)

    needed = remedy.when if recipe.logs else (*remedy.when, *recipe.when)
    return any(all_are(one, Verdict.FAILS) for one in needed) or any(
        all_are(one, Verdict.HOLDS) for one in (*remedy.unless, *recipe.unless)
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
    if is_shut_out(recipe, remedy, NEW) or SAYS_GPU.search(_said(remedy)):
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
    if is_shut_out(recipe, remedy, OLD) or SAYS_GPU.search(_said(remedy)):
        return []
    return [one[0].strip() for one in KERNEL.finditer(_said(remedy)) if not ELSE.search(one[0])]


def aside_that_hides(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """A title that names nothing of CUDA but a word on the driver beside it, and is taken for CUDA's by that."""
    plain = replace(remedy, title=ASIDE.sub("", remedy.title))
    if plain.title == remedy.title:
        return []
    return [
        where
        for where, facts in ELSEWHERE.items()
        if is_possible(plain, facts, bind(facts, None, None).bound)
        and not is_possible(remedy, facts, bind(facts, None, None).bound)
        and not is_shut_out(recipe, remedy, facts)
    ]


def _facts(recipe: Recipe, remedy: RecipeRemedy) -> set[str]:
    return facts_asked(recipe, remedy) | {re.sub(r"\.\*\.", ".", str(one.fact)) for one in asked(recipe.unless)}


LAWS = (torch_for_no_driver, torch_for_no_gpu, toolkit_for_no_torch, driver_for_no_cuda, kernel_for_no_gpu)


def test_a_word_on_the_driver_hides_nothing_on_another_makers_machine() -> None:
    """Say it without the driver's name (the GPU driver, a build that this machine runs), or ask the fact."""
    assert faults(aside_that_hides) == []


@pytest.mark.parametrize(
    ("title", "hides"),
    [
        ("Install torch 2.6. Its CUDA has to be one that the driver takes (nvidia-smi names the newest).", True),
        ("Install torch 2.6, in a build that the driver runs", True),
        ("End other processes (nvidia-smi)", True),
        ("Install torch 2.6, in a build that the GPU driver of this machine runs", False),
        ("Install the driver (nvidia-smi)", False),
        ("Take a driver of NVIDIA's", False),
    ],
)
def test_a_word_that_hides_is_seen(title: str, hides: bool) -> None:
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(remedy, when=(), unless=(), actions=(), title=title)
    assert aside_that_hides(replace(recipe, unless=()), bare) == (list(ELSEWHERE) if hides else [])


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_text_says_for_which_machine_it_is(law: Law) -> None:
    """Add a condition on the driver, torch's CUDA or the GPU, or say in the text for which it is."""
    assert faults(law) == []


def test_each_exception_is_needed() -> None:
    """One that no law is against any more goes out."""
    for called in NOT_OF_TORCH:
        _, remedy = named(called)
        assert TOOLKIT.search(_said(remedy)), called


PLANTED: dict[Law, tuple[list[str], list[str], list[str], tuple[Condition, Condition]]] = {
    torch_for_no_driver: (
        ["Install torch 2.7 or later", "Take it, then use torch 2.6", "Upgrade to torch 2.9.1; restart the driver"],
        ["Install torch 2.7 or later, in a build that the driver runs", "On a CPU take torch 2.6 or later"],
        ["torch 2.6 has it", "Install the Triton that torch asks for (torch 2.6: 3.2)"],
        (AtLeast(fact=FactName.parse("driver.cuda"), bound="12.8"),) * 2,
    ),
    torch_for_no_gpu: (
        ["Install torch 1.12", "Use torch 2.4 at most", "Go back to torch 2.1"],
        ["Install torch 1.12, for GPUs up to compute capability 8.6"],
        ["Install torch 2.6 or later", "Install torch 2.9"],
        (
            Below(fact=FactName.parse("gpu.compute_capability"), bound="9.0"),
            AtLeast(fact=FactName.parse("gpu.compute_capability"), bound="10.0"),
        ),
    ),
    toolkit_for_no_torch: (
        ["Install CUDA 12.8", "Compile it, nvcc of CUDA 12.4", "Build it with CUDA 11.8"],
        ["Install CUDA 12.8, of torch's CUDA major"],
        ["CUDA 12.8 has it"],
        (AtLeast(fact=FactName.parse("torch.cuda"), bound="12.0"),) * 2,
    ),
    driver_for_no_cuda: (
        ["Install a newer driver, 550 or later", "Update the driver to 580"],
        ["Update the driver to 580, for CUDA 13"],
        ["The driver is 550"],
        (AtLeast(fact=FactName.parse("driver.version"), bound="550"),) * 2,
    ),
    kernel_for_no_gpu: (
        ["Take FlashAttention 2", "Use attn_implementation=flash_attention_2 there", "Train in bf16"],
        ["Take FlashAttention 2, for compute capability 8.0 and later", "Take FlashAttention 2 (Ampere and later)"],
        ["Take FlashAttention 2 or SDPA", "FlashAttention 2 refuses it"],
        (
            AtLeast(fact=FactName.parse("gpu.compute_capability"), bound="8.0"),
            Below(fact=FactName.parse("gpu.compute_capability"), bound="8.0"),
        ),
    ),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_is_for_no_machine_is_seen(law: Law) -> None:
    """Without a condition; one that shuts the machine out clears it, and so do words."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    wrong, says, other, (asked_for, shut) = PLANTED[law]
    bare = replace(remedy, when=(), unless=(), actions=(), title="So")

    for text in wrong:
        assert law(recipe, replace(bare, title=text)), text
        advised = replace(bare, actions=(Advise(text=text),))
        assert law(recipe, advised), text
        assert not law(recipe, replace(advised, when=(asked_for,))), text
        assert not law(recipe, replace(advised, unless=(shut,))), text
        if law in (torch_for_no_gpu, kernel_for_no_gpu):  # turned round, it lets that machine in
            assert law(recipe, replace(advised, when=(shut,))), text
            assert law(recipe, replace(advised, unless=(asked_for,))), text
    for text in (*says, *other):
        assert not law(recipe, replace(bare, title=text)), text
