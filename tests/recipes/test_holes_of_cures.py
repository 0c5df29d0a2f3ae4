"""No remedy leaves a word to be filled in, nor a release of its own, where a fact has the value."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from attn_doctor.model.remedies import Advise, InstallPackages
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy
from bench.printed_commands import OF_THE_READER, PLACEHOLDERS
from tests.recipes.remedies import REMEDIES, commands, facts_asked, faults, named, texts

#: The release of a CUDA toolkit, written out in a path, a package's name, a label or a toolset.
OF_ONE_TOOLKIT = re.compile(
    r"\bcuda-1\d[.-]\d\b|\bcuda-[a-z][a-z-]*-1\d-\d\b|\bCUDA[\\/]+v?1\d\.\d|\blabel/cuda-1\d|\bcuda=1\d\.\d"
    r"|\bcudatoolkit=+1\d|\bcuda-(?:toolkit|nvcc)=+1\d|\bcuda/1\d\.\d|-cuda-1\d\.\d"
)
#: Nothing here is built for torch, whose CUDA therefore has no say.
NOT_OF_TORCH = MappingProxyType(
    {
        "llama-cpp-not-built:toolkit-that-knows-the-gpu": "llama.cpp needs no torch",
        "tensorflow-without-cuda-libraries:check-1": "TensorFlow's own table says which CUDA a release is built for",
        "tensorflow-without-cuda-libraries:check-4": "TensorFlow's own table says which CUDA a release is built for",
        "tensorflow-without-cuda-libraries:check-5": "TensorFlow's own table says which CUDA a release is built for",
    }
)


def holes(_: Recipe, remedy: RecipeRemedy) -> list[str]:
    """The words to be filled in, of its texts and of what is typed."""
    found = [one[0] for text in texts(remedy) for one in PLACEHOLDERS.finditer(text)]
    for line in (*commands(remedy), *_requirements(remedy)):
        found += [one[0] for law in (PLACEHOLDERS, OF_THE_READER) for one in law.finditer(line)]
    return found


def _requirements(remedy: RecipeRemedy) -> list[str]:
    return [
        requirement
        for action in remedy.actions
        if isinstance(action, InstallPackages | Advise)
        for requirement in action.requirements
    ]


def one_toolkit(recipe: Recipe, remedy: RecipeRemedy) -> list[str]:
    """The toolkit that it writes out, whatever torch's CUDA is; one that asks for torch's CUDA means another."""
    if "torch.cuda" in facts_asked(recipe, remedy) or f"{recipe.id}:{remedy.id}" in NOT_OF_TORCH:
        return []
    return _toolkits(remedy)


def _toolkits(remedy: RecipeRemedy) -> list[str]:
    return [one[0] for text in (*texts(remedy), *commands(remedy)) for one in OF_ONE_TOOLKIT.finditer(text)]


def test_no_word_is_left_to_fill_in() -> None:
    """A fact stands there ({torch.cuda}), or the text says how the value is found."""
    assert faults(holes) == []


def test_the_toolkit_is_that_of_torch() -> None:
    """{torch.cuda} where torch's CUDA is known, and a text without a release where it is not."""
    assert faults(one_toolkit) == []


def test_each_exception_is_needed() -> None:
    """One that writes out no toolkit any more goes out."""
    writing = {f"{recipe.id}:{remedy.id}" for recipe, remedy in REMEDIES if _toolkits(remedy)}

    assert NOT_OF_TORCH.keys() <= writing


def _planted(text: str = "", command: str = "", requirement: str = "") -> tuple[Recipe, RecipeRemedy]:
    recipe, remedy = named("torch-index-in-place-of-the-registry:check-1")
    action = Advise(text=text, commands=(command,), requirements=(requirement,))
    return recipe, replace(remedy, title="Install it", actions=(action,))


SPELLINGS = (
    "torch==VERSION", "torch==TORCH_VERSION", "torch==RELEASE", "torch==X.Y", "torch X.Y.Z", "torch==<version>",
    "xformers==X", "xformers==?", "xformers==\u2026", "spconv-cuXXX", "whl/cuXYZ", "whl/cuXXX", "whl/cu???",
    "whl/cuxxx", "cpXX-cpXX", "sm_NN", "cuda-toolkit-X-Y", "/usr/local/cuda-X.Y", "/usr/local/cuda-VERSION",
    "cd /path/to/checkout", "path/to/model", "YOUR_PATH/lib", "MY_TOKEN", "<your-python>",
    "<path>", "import PACKAGE", "pip install WHEEL", "python3.X", "PATH_TO_PYTHON -m pip",
    "--python PATH_TO_ITS_PYTHON", "whl/rocmX.Y", "rocmX.Y", "manylinux_2_XX", "torch==2.X", "torch~=2.X.0",
    "whl/cu1XX", "/usr/local/cuda-1X.Y", "torch==$VERSION", "torch-${TORCH_VERSION}.whl", "flash-attn of FLASH_VERSION",
)  # fmt: skip


@pytest.mark.parametrize("hole", SPELLINGS)
def test_a_hole_is_seen_in_any_spelling(hole: str) -> None:
    """In a text, in a command and in a requirement."""
    assert holes(*_planted(text=f"Do this: {hole}, and start again"))
    assert holes(*_planted(command=f"run {hole}"))
    assert holes(*_planted(requirement=hole))


@pytest.mark.parametrize(
    "hole", ["ls -l FILE", "hf download MODEL", "nc -zv HOST PORT", "head MODEL.gguf", "cd ./NAME"]
)
def test_what_the_reader_alone_knows_is_no_command(hole: str) -> None:
    """A text may speak of it."""
    assert holes(*_planted(command=hole))
    assert not holes(*_planted(text=f"Look at it by {hole}"))


WHOLE = (
    "export HSA_OVERRIDE_GFX_VERSION=10.3.0", "export VLLM_VERSION=0.11.0", "BNB_CUDA_VERSION unset", "echo $USER",
    "rm -rf /tmp/inductor-$USER", "TORCH_CUDA_ARCH_LIST=8.0", "torch=={torch.version}", "torch 2.x", "whl/cu128",
    "rocm6.4", "manylinux_2_28", "torch==2.9", "XFORMERS_IGNORE_FLASH_VERSION_CHECK=1", "echo $PATH",
    "sm_90", "CUDA_HOME=/usr/local/cuda-{torch.cuda}", "{log.symbol}.so", "#include <cfloat>",
)  # fmt: skip


@pytest.mark.parametrize("whole", WHOLE)
def test_what_is_whole_is_let_be(whole: str) -> None:
    """Variables and their values, facts, and headers."""
    assert not holes(*_planted(text=whole, command=whole))


TOOLKITS = (
    "CUDA_HOME=/usr/local/cuda-12.8", "apt-get install cuda-toolkit-12-8", "cuda-nvcc-11-8", "CUDA\\v12.8",
    "nvidia/label/cuda-12.1.1", "cmake -T cuda=12.8", "conda install cudatoolkit=11.8", "module load cuda/12.4",
)  # fmt: skip


@pytest.mark.parametrize("toolkit", TOOLKITS)
def test_a_toolkit_written_out_is_seen(toolkit: str) -> None:
    """In a text and in a command; that of torch is none."""
    assert one_toolkit(*_planted(text=toolkit))
    assert one_toolkit(*_planted(command=toolkit))
    assert not one_toolkit(
        *_planted(command="export CUDA_HOME=/usr/local/cuda-{torch.cuda}", text="of CUDA 12.8 or later")
    )
