"""What a remedy may say, over the whole shelf: whose package it installs, that torch stays, where it is possible."""

from __future__ import annotations

import re

import pytest

from attn_doctor.model.facts import FactName
from attn_doctor.model.findings import Safety
from attn_doctor.model.remedies import Action, Advise, InstallPackages, InstallWheel
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.stack_packages import as_capability, is_pinned_to_torch, stack_package
from attn_doctor.recipes.recipe import AnyOf, AtLeast, Matches, OneOf, Present, Question, Recipe, RecipeRemedy
from tests.recipes.remedies import (
    DRIVERS,
    GPUS,
    REMEDIES,
    asked,
    commands,
    facts_asked,
    faults,
    installed,
    installed_by,
    named,
    texts,
    typed,
)
from tests.recipes.test_machines_of_cures import SAYS_GPU

#: Whose package a folder of the shelf speaks of. Other folders speak of any.
OWN = {
    "flash-attn": r"flash-attn(?:-[34])?|flashattn-hopper|kernels|nvidia-cutlass-dsl[\w-]*",
    "flash-linear-attention": r"flash-linear-attention|fla-core",
    "triton": r"triton(?:-windows)?|pytorch-triton(?:-rocm)?|flash-linear-attention|fla-core|tilelang",
    "flashinfer": r"flashinfer-(?:python|cubin|jit-cache)",
    "x-transformers": r"x-transformers",
    "xformers": r"xformers",
    "timm": r"timm",
    "transformers": r"transformers|kernels",
    "torch": r"torchvision|torchaudio|triton",
    "torchao": r"torchao",
    "sageattention": r"sageattention",
    "autoawq": r"autoawq(?:-kernels)?|transformers",
    "bitsandbytes": r"bitsandbytes",
    "ctranslate2": r"ctranslate2",
    "deepspeed": r"deepspeed",
    "llama_cpp": r"llama-cpp-python",
    "lmdeploy": r"lmdeploy",
    "mamba-ssm": r"mamba-ssm|causal-conv1d",
    "platforms": r"attrs|cython|decorator|sympy|cffi|pyyaml|pathlib2|scipy|requests|absl-py|cloudpickle"
    r"|tornado|ml-dtypes",  # CANN's
    "research": r"librosa|pillow|soundfile|hydra-core|boltz|cuequivariance[\w-]*|torchdata|yapf|esm|fair-esm",
}
SUBJECT = FactName.parse("subject.package")
#: Needed by anybody's build, or the thing that everything else has to fit.
ANYBODYS = {
    "torch",
    "torchvision",
    "torchaudio",
    "packaging",
    "pip",
    "psutil",
    "ninja",
    "wheel",
    "setuptools",
    "einops",
    "libstdcxx-ng",
    "cuda-nvcc",
    "cuda-cudart-dev",
}


def loose(_: Recipe, remedy: RecipeRemedy) -> list[str]:
    """The packages pinned to torch that it installs by their metadata, without the torch that is there."""
    every = dict(installed(remedy))
    stays = "torch" in every or any('"torch==$(' in command for command in commands(remedy))
    return [name for name, alone in every.items() if is_pinned_to_torch(name) and not alone and not stays]


#: Nothing of the torch that is there is touched, or the words say that it moves.
ELSEWHERE = re.compile(
    r"\benvironment of (?:its|their|your|one's) own\b|\b(?:fresh|new|another|separate|empty) (?:virtual )?environment\b"
    r"|\bown environment\b|\btorch (?:moves|changes|comes)|\bbrings? (?:a |another |its |the )?(?:newer )?torch\b"
)


def loose_in_words(_: Recipe, remedy: RecipeRemedy) -> list[str]:
    """The same of the lines that its texts tell to type."""
    if ELSEWHERE.search("\n".join(texts(remedy))):
        return []
    return [
        line
        for line in typed(remedy)
        if "--no-deps" not in line
        and (names := list(installed_by(line)))
        and "torch" not in names
        and any(map(is_pinned_to_torch, names))
    ]


def test_nothing_that_is_bound_to_torch_brings_another_torch() -> None:
    """A package pinned to torch is installed without what its metadata asks for, or together with that torch."""
    assert faults(loose) == [], "installs these with their dependencies: add no_deps, or name torch"
    assert faults(loose_in_words) == [], "add --no-deps, name torch, or say: in an environment of its own"


PINNED = ("torch-tensorrt", "torchvision", "sglang", "lmdeploy", "vllm", "xformers", "unsloth", "torch_tensorrt")


@pytest.mark.parametrize("name", PINNED)
def test_a_package_pinned_to_torch_is_seen(name: str) -> None:
    """In a command, among requirements and in a text."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(remedy, title="Install it", actions=())

    def by(action: Advise) -> list[str]:
        return loose(recipe, replace(bare, actions=(action,)))

    def said(words: str) -> list[str]:
        return loose_in_words(recipe, replace(bare, title=words))

    line = f"pip install -U {name}"
    canonical = name.replace("_", "-")
    assert by(Advise(text="", commands=(line,))) == [canonical]
    assert by(Advise(text="", requirements=(f"{name}==1.0",))) == [canonical]
    assert by(Advise(text="", commands=(f"{line} --no-deps",))) == []
    assert by(Advise(text="", commands=(f'{line} "torch==$(python -c 1)"',))) == []
    assert by(Advise(text="", requirements=(f"{name}==1.0",), no_deps=True)) == []
    assert by(Advise(text="", commands=("pip install torch-scatter",))) == []
    assert said(f"Do it: {line}, and start again") == [line]
    assert said(f"Do it: {line}, in an environment of its own") == []
    assert said(f"Do it: pip install --no-deps {name}, and start again") == []


def others(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """What it installs of others, where no condition says that the finding is about that one."""
    own = re.compile(rf"(?:{OWN.get(recipe.library, '(?!)')})\Z")
    about = " ".join(str(question) for question in asked(recipe.when + remedy.when + remedy.unless))
    return [
        name
        for name, _ in installed(remedy)
        if name
        and name not in ANYBODYS
        and not own.match(name)
        and not re.search(rf"\b{re.escape(name)}\b", about)
        and not any(_is_about(question, name) for question in asked(remedy.when))
        and not name.startswith("nvidia-")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "poetry add xformers", "pdm add xformers", "pip3.11 install xformers", "uv pip install xformers",
        "pip install git+https://github.com/facebookresearch/xformers.git",
        "pip install 'git+https://x/xformers@v0.0.30'",
        "pip install https://x/whl/xformers-0.0.30-cp39-abi3-manylinux_2_28_x86_64.whl",
        "pip install ./xformers-0.0.30-cp39-abi3-win_amd64.whl",
    ],
)  # fmt: skip
def test_each_way_to_install_is_seen(line: str) -> None:
    """Other installers, a repository, and a wheel."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(remedy, when=(), unless=(), title="Install it", actions=(Advise(text="", commands=(line,)),))

    assert loose(recipe, bare) == ["xformers"]
    assert loose(recipe, replace(bare, actions=(Advise(text="", commands=(f"{line} --no-deps",)),))) == []
    assert loose_in_words(recipe, replace(bare, title=f"Do it: {line}", actions=()))


def test_a_remedy_installs_nobody_elses_package() -> None:
    """What is installed is the finding's own package, or a condition says that it is about that one."""
    assert faults(others) == [], "installs these, and no condition says that the finding is about that"


@pytest.mark.parametrize(
    "line", ["pip install --no-deps vllm", "uv add vllm", "poetry add vllm", "pip3.11 install vllm"]
)
def test_a_command_for_somebody_elses_package_is_seen(line: str) -> None:
    """In a command and among requirements; a condition that names it, or one that knows it, clears it."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(remedy, when=(), unless=(), title="Install it", actions=(Advise(text="", commands=(line,)),))

    assert others(recipe, bare) == ["vllm"]
    assert others(recipe, replace(bare, actions=(Advise(text="", requirements=("vllm==0.11",)),))) == ["vllm"]
    assert others(recipe, replace(bare, actions=(InstallPackages(requirements=("vllm==0.11",)),))) == ["vllm"]
    assert others(recipe, replace(bare, when=(OneOf(fact=SUBJECT, values=("vllm",)),))) == []
    assert others(recipe, replace(bare, when=(Matches(fact=SUBJECT, pattern="^vll"),))) == []
    assert others(recipe, replace(bare, when=(OneOf(fact=SUBJECT, values=("sglang",)),))) == ["vllm"]
    assert others(recipe, replace(bare, actions=(Advise(text="", commands=("pip install ninja",)),))) == []


def others_in_words(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """The packages of the stack that a line of its texts installs, and of which nothing else in the finding speaks."""
    about = [str(one) for one in asked(recipe.when + remedy.when + remedy.unless)]
    rest = "\n".join([recipe.id, recipe.title, recipe.what, *texts(remedy), *about]).lower()
    names = []
    for line in typed(remedy):
        rest = rest.replace(line.lower(), "")
        names += [name for name in installed_by(line) if name != "torch"]
    return [name for name in names if _of_the_stack(name) and not _speaks_of(rest, name)]


def _of_the_stack(name: str) -> bool:
    return name not in ANYBODYS and (is_pinned_to_torch(name) or stack_package(name) is not None)


def _speaks_of(text: str, name: str) -> bool:
    """Its name, or a part of it, as in: FlashAttention for flash-attn."""
    return any(part in text for part in name.split("-") if len(part) > 2)


def test_a_text_installs_nobody_elses_package() -> None:
    """A line for B in the text of a remedy for A: the finding, its conditions or the rest of the text names B."""
    assert faults(others_in_words) == []


def test_somebody_elses_package_is_seen() -> None:
    """In a text; what the finding or a condition is about is its own."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(remedy, when=(), unless=(), actions=(), title="Do it: pip install --no-deps vllm, and start again")

    assert others_in_words(recipe, bare) == ["vllm"]
    assert others_in_words(recipe, replace(bare, title=f"vLLM: {bare.title}")) == []
    assert others_in_words(recipe, replace(bare, when=(OneOf(fact=SUBJECT, values=("vllm",)),))) == []


def _is_about(question: Question, name: str) -> bool:
    """Whether it asks for a package by an expression that has this name."""
    return (
        isinstance(question, Matches)
        and str(question.fact).endswith("package")
        and re.search(question.pattern, name) is not None
    )


def test_a_reinstall_leaves_the_rest_alone() -> None:
    """pip's --force-reinstall takes all that a package asks for anew, in the newest release: NumPy 2 under torch 2.0.

    A remedy that means just that says so in its text.
    """

    def everything(_: Recipe, remedy: RecipeRemedy) -> list[str]:
        if any(isinstance(one, Advise) and one.text.startswith("Without --no-deps") for one in remedy.actions):
            return []
        return [one for one in commands(remedy) if "--force-reinstall" in one and "--no-deps" not in one]

    assert faults(everything) == [], "add --no-deps, or uninstall and install"


def test_no_remedy_waits_for_a_fact_to_be_absent() -> None:
    """A log that does not tell the system leaves "Linux, or none is known" open, and what needs facts is not offered:
    `unless` another one is known says it.
    """

    def waiting(_: Recipe, remedy: RecipeRemedy) -> list[str]:
        either = [one.questions for one in remedy.when if isinstance(one, AnyOf)] if remedy.only_with_facts else []
        return [
            str(absent.fact)
            for questions in either
            for absent in questions
            if isinstance(absent, Present) and not absent.present and {one.fact for one in questions} == {absent.fact}
        ]

    assert faults(waiting) == [], "waits for this fact to be absent: ask by `unless`"


def test_a_remedy_says_where_it_is_possible() -> None:
    """Its conditions name the system, the GPUs, the driver and the torch that what it asks for needs."""
    assert faults(_not_asked) == []


def _not_asked(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    names = facts_asked(recipe, remedy)
    packages = {name for name, _ in installed(remedy)}
    lines = list(commands(remedy))
    # What needs no log is judged on a node, and nodes that are examined are Linux.
    for_linux = recipe.logs and any(isinstance(action, InstallWheel) for action in remedy.actions)
    moves_torch = "torch" in packages or any("download.pytorch.org/whl/cu" in line for line in lines)
    needed = {
        "the system (node.system)": (for_linux, {"node.system"}),
        "the GPUs (gpu.compute_capability)": (
            any(map(for_some_gpus, packages)) and not says_gpu(remedy) and not _is_for_amd(remedy),
            GPUS,
        ),
        "the driver (or a release computed for it)": (moves_torch and recipe.id not in SAME_TORCH, DRIVERS),
        "the torch (torch.version)": (any(map(builds_flash_attn, remedy.actions)), {"torch.version"}),
    }
    return [what for what, (asks, facts) in needed.items() if asks and not names & facts]


def _is_for_amd(remedy: RecipeRemedy) -> bool:
    """Where it asks for a GPU of AMD's, which is no matter of compute capability."""
    return any(str(one.fact) in ("log.gfx", "log.made_for", "torch.hip") for one in asked(remedy.when))


def for_some_gpus(name: str) -> bool:
    """Whether its kernels begin above the oldest GPUs that a torch of today has code for."""
    if not (known := stack_package(name)):
        return False
    lowest = [one.at_least for one in known.gpus] + [known.tested] * (name in TESTED)
    return any(as_capability(one) >= OLDEST for one in lowest)


def says_gpu(remedy: RecipeRemedy) -> bool:
    """Whether its words say for which GPU it is; those of flash-attn ask the fact."""
    asks = any(name.startswith("flash-attn") for name, _ in installed(remedy))
    return not asks and SAYS_GPU.search("\n".join(texts(remedy))) is not None


def builds_flash_attn(action: Action) -> bool:
    """Whether it compiles a flash-attn that wants a recent torch."""
    requirements = action.requirements if isinstance(action, InstallPackages | Advise) else ()
    return any(requirement.startswith("flash-attn==2.8") for requirement in requirements)


#: From this compute capability on a lowest one leaves GPUs out that a torch of today runs on.
OLDEST = (7, 0)
#: Of these no table of kernels is kept: what their authors test is what they have code for.
TESTED = {"sageattention"}

#: The torch that is there is installed again, in its own build.
SAME_TORCH = {
    "torch-import-fails",
    "torch-import-crashes",
    "torch-import-hangs",
    "cudnn-sdpa-no-plan",
    "torch-own-library-not-found",
    "another-package-of-that-name",
}


PLACES = {
    "the system (node.system)": (
        InstallWheel(package="mamba-ssm"),
        OneOf(fact=FactName.parse("node.system"), values=("Linux",)),
    ),
    "the GPUs (gpu.compute_capability)": (
        InstallPackages(requirements=("sageattention==2.2.0",), no_deps=True),
        AtLeast(fact=FactName.parse("gpu.compute_capability"), bound="8.0"),
    ),
    "the driver (or a release computed for it)": (
        Advise(text="", commands=("pip install torch",)),
        AtLeast(fact=FactName.parse("driver.version"), bound="550"),
    ),
    "the torch (torch.version)": (
        Advise(text="", requirements=("flash-attn==2.8.3",), no_deps=True),
        AtLeast(fact=FactName.parse("torch.version"), bound="2.6"),
    ),
}


@pytest.mark.parametrize("what", PLACES)
def test_what_is_not_asked_is_seen(what: str) -> None:
    """In a remedy without conditions; one on the fact clears it."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    action, condition = PLACES[what]
    bare = replace(remedy, when=(), unless=(), title="Install it", actions=(action,))

    assert what in _not_asked(recipe, bare)
    assert what not in _not_asked(recipe, replace(bare, when=(condition,)))
    assert _not_asked(recipe, replace(bare, actions=(Advise(text="Look at it"),))) == []


@pytest.mark.parametrize(
    "name",
    [
        "flash-attn",
        "flash-attn-3",
        "sageattention",
        "xformers",
        "mamba-ssm",
        "causal-conv1d",
        "transformer-engine",
        "vllm",
    ],
)
def test_a_package_for_some_gpus_asks_for_the_gpu(name: str) -> None:
    """By a condition; but for flash-attn words do as well."""
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    bare = replace(
        remedy, when=(), unless=(), title="Install it", actions=(Advise(text="", requirements=(name,), no_deps=True),)
    )
    gpus = "the GPUs (gpu.compute_capability)"

    assert gpus in _not_asked(recipe, bare)
    said = replace(bare, title="For compute capability 8.0 and later: install it")
    assert (gpus in _not_asked(recipe, said)) == name.startswith("flash-attn")


def test_what_is_taken_without_asking_has_a_reason() -> None:
    """Same meaning, exactly undoable: said of each remedy that `--yes` takes, and that a program carries out."""
    acts = {
        f"{recipe.id}:{one.id}": one for recipe, one in REMEDIES if any(not isinstance(a, Advise) for a in one.actions)
    }
    safe = {name: one for name, one in acts.items() if one.safety is Safety.SAFE}

    assert {name for name, one in safe.items() if not one.why_this_safety} == set()
    assert {name for name, one in acts.items() if one.safe_when} == {"fp32-promoted-before-kernel:cast-back"}
    assert safe.keys() == {
        "accelerate-precision-overruled:say-bf16",
        "accelerate-precision-overruled:say-fp16",
        "deepspeed-precision-mismatch:deepspeed-auto",
        "llamafactory-fa2-without-half:attention-auto",
        "llamafactory-fa2-without-half:attention-eager",
        "x-transformers-rotary-fp32:patch-release",
    }
