"""Decides whether a remedy is possible where it is wanted, from what its actions need.

No recipe has to say this: an action that takes a CUDA wheel needs CUDA, one with apt-get needs Linux. Facts refute it:
a system, a maker of GPUs or a board that is known. What is unknown refutes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.binding import Binding, Bound, bound_fact
from attn_doctor.diagnose.conditions import answer, answer_all
from attn_doctor.model.facts import FactName, FactSet, Known
from attn_doctor.model.findings import Verdict
from attn_doctor.model.install_request import name_of
from attn_doctor.model.libraries import libraries
from attn_doctor.model.remedies import Advise, InstallPackages, InstallWheel, SetEnvironment
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.data.stack_packages import stack_package
from attn_doctor.recipes.recipe import AnyOf, OneOf, Present, Recipe, RecipeRemedy

_OF_CUDA = when_used(
    r"download\.pytorch\.org/whl/(?:cu\d|\{)|\bnvidia-(?:smi|ctk|container)|\bnvcc\b|/usr/local/cuda|\blibcuda\b|\bncu\b"
)
#: In a title: it is done with CUDA's toolkit, driver or builds.
_DONE_WITH_CUDA = when_used(
    r"\bCUDA (?:\{|toolkit|build|compiler|release|runtime)|\bnvcc\b|\bNVIDIA\b|\bnvidia-smi\b"
    r"|(?<!GPU )(?<!graphics )\bdriver\b|for CUDA\b"
)
#: In a title: whose driver or build is meant in its place.
_OF_ANOTHER_MAKER = when_used(
    r"\bROCm\b|\bAMD\b|\bamdgpu\b|\bIntel\b|\bXPU\b|\bAscend\b|\bNPU\b|\bCANN\b|\bMUSA\b|\bGaudi\b|\bTPU\b"
)
_OF_ROCM = when_used(r"/whl/(?:\w+/)?rocm\d|\bHSA_OVERRIDE_GFX_VERSION\b|\btorch for ROCm\b|\brocm-smi\b|\brocminfo\b")
#: In a title: FlashAttention 2 alone is what shall run, and no other is named beside it.
_RUNS_FLASH = when_used(
    r"^(?:[\w.-]{1,30}: )?(?:[Uu]se|[Ll]oad|[Tt]ake|[Aa]sk for|[Ss]et attention to|[Ss]et|[Ww]rite|[Cc]hoose)\b"
    r"[^.;:,]{0,40}?(?:\bFlash ?Attention(?:[- ]?2)?\b(?! ?[134])|flash_attention_2)"
    r"(?![\s\S]*(?:\bor\b|\bSDPA\b|\bsdpa\b|\beager\b))"
)
#: Its name in transformers.
_FLASH = "flash_attention_2"
#: A first generation, which served older GPUs than any that the table tells of; and what is compiled for the GPU here.
_OF_ANOTHER_TIME = when_used(r"flash[-_]attn ?(?:==1|<2(?!\.))|_FORCE_BUILD=|ARCH_LIST=|--no-binary")
#: Whose device it is -> the kind of it, where torch's own version need not say so.
_KINDS = {
    "AMD": "rocm",
    "Intel": "xpu",
    "Ascend": "npu",
    "Apple": "mps",
    "Gaudi": "hpu",
    "TPU": "tpu",
    "Neuron": "neuron",
    "Moore Threads": "musa",
    "ZLUDA": "zluda",
    "DirectML": "directml",
}
#: A torch for ROCm is no cure there.
_WITHOUT_ROCM = frozenset({"zluda", "hpu", "npu", "xpu", "musa", "tpu", "mps"})
_OF_LINUX = when_used(
    r"\b(?:apt-get|apt install|ldconfig|systemctl|dmesg|lsmod|dkms|modprobe|yum|dnf)\b"
    r"|(?<!whl)/(?:usr|etc|proc|dev/shm)/"
    r"|\bLD_(?:LIBRARY_PATH|PRELOAD)\b|^strings |\bln -s\b|\bsudo\b|^export [^\n]*[$:/]"
)
_NAMED = {"Windows": when_used(r"\bWindows\b|win_amd64"), "macOS": when_used(r"\bmacOS\b|\bMacs?\b|\bMPS\b")}
_INDEX = when_used(r"download\.pytorch\.org|\binstall\b[^\n]*[ '\"]torch(?:[=<>'\" ]|$)")
#: Where NVIDIA and its Jetson AI Lab keep the torch of these boards.
_OF_JETSON = when_used(r"\bjetson-ai-lab\.|/compute/redist/jp/")


def is_possible(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    """False where what the remedy needs is known to be missing."""
    device, system = _device(facts), facts.text("node.system")
    if not _gpus_take_it(written, facts, bound):
        return False
    jetson = facts.text("log.board") == "Jetson"
    if device == "cuda" and system in (None, "Linux") and not jetson:
        return True
    if device != "cuda" and not _is_written_for(written, facts, bound):
        if _takes_cuda(written, facts, bound) or (device in _WITHOUT_ROCM and _takes_rocm(written)):
            return False
        rows = (stack_package(name) for name in _installed(written, facts, bound))
        if any(row is not None and row.devices and device not in row.devices for row in rows):
            return False
    if system in _NAMED and _is_of_linux(written) and not _NAMED[system].search(_texts(written)):
        return False
    return not (jetson and _takes_a_published_torch(written))


def is_ruled_out(recipe: Recipe, facts: FactSet) -> bool:
    """True where a fact is known under which the recipe's trouble cannot be: another device or system than it is of.

    Of several GPUs each one has to say so.
    """
    return any(
        all(answer_all((one,), facts, bound) is Verdict.HOLDS for bound in Binding().choices((one,), facts))
        for one in recipe.unless
    )


def _device(facts: FactSet) -> str:
    """The kind of GPU that torch is for: cuda unless something else is known."""
    named = _KINDS.get(facts.text("log.device") or "")
    if named is not None:
        return named
    version = facts.text("torch.version") or ""
    if "+xpu" in version or facts.text("log.made_for") == "Intel":
        return "xpu"
    if "+rocm" in version or facts.text("torch.hip") or facts.text("log.made_for") == "AMD":
        return "rocm"
    if facts.text("log.made_for") == "Ascend":
        return "npu"
    return "mps" if facts.text("node.system") == "macOS" else "cuda"


def _gpus_take_it(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    """False where it installs or takes a package of which no release is for any GPU that is known."""
    gpus = [facts.text(FactName("gpu", one, "compute_capability")) for one in facts.subjects("gpu")]
    if not gpus or None in gpus or any(map(_OF_ANOTHER_TIME.search, _commands(written))):
        return True
    names = list(_installed(written, facts, bound))
    if _RUNS_FLASH.search(written.title):
        names += [name for one in libraries() if one.attn_implementation == _FLASH for name in one.distributions]
    rows = [row for name in names if (row := stack_package(name)) and row.gpus]
    return all(any(of.takes(str(gpu)) for of in row.gpus for gpu in gpus) for row in rows)


def _takes_rocm(written: RecipeRemedy) -> bool:
    return any(map(_OF_ROCM.search, (written.title, *_commands(written))))


def _is_written_for(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    """True where one of its own conditions asks for the maker of the GPU, or for a Mac, and holds: what it says of
    CUDA is then said of others.
    """
    asked = [one for of in written.when for one in (of.questions if isinstance(of, AnyOf) else (of,))]
    return any(
        (str(one.fact) in ("log.made_for", "torch.hip") or (isinstance(one, OneOf) and "macOS" in one.values))
        and not (isinstance(one, Present) and not one.present)
        and answer(one, facts, bound) is Verdict.HOLDS
        for one in asked
    )


def _takes_cuda(written: RecipeRemedy, facts: FactSet, bound: Bound) -> bool:
    title = written.title
    if _DONE_WITH_CUDA.search(title) and ("NVIDIA" in title or not _OF_ANOTHER_MAKER.search(title)):
        return True
    return any(
        isinstance(one, InstallWheel)
        or (isinstance(one, InstallPackages | Advise) and _is_cuda_build(one.torch_backend or "", facts, bound))
        or (isinstance(one, SetEnvironment) and one.name.startswith(("CUDA", "TORCH_CUDA")))
        for one in written.actions
    ) or any(map(_OF_CUDA.search, _commands(written)))


def _is_cuda_build(backend: str, facts: FactSet, bound: Bound) -> bool:
    """True for the name of such a build, and for one that facts would name and do not."""
    placeholder = TEMPLATE.fullmatch(backend)
    if placeholder is not None:
        known = bound_fact(FactName.parse(placeholder[1]), facts, bound).state
        backend = str(known.value) if isinstance(known, Known) else "auto"
    return backend.startswith("cu") or backend == "auto"


def _is_of_linux(written: RecipeRemedy) -> bool:
    wheel = any(isinstance(one, InstallWheel) for one in written.actions)
    return wheel or any(map(_OF_LINUX.search, (written.title, *_commands(written))))


def _takes_a_published_torch(written: RecipeRemedy) -> bool:
    """From torch's index, or a wheel made for one from there."""
    asked = [one for one in written.actions if isinstance(one, InstallPackages | Advise)]
    return (
        any(isinstance(one, InstallWheel) or "pytorch.org" in one.advice for one in written.actions)
        or any(one.torch_backend or "torch" in map(name_of, one.requirements) for one in asked)
        or any(_INDEX.search(one) and not _OF_JETSON.search(one) for one in _commands(written))
    )


def _installed(written: RecipeRemedy, facts: FactSet, bound: Bound) -> Iterator[str]:
    """Canonical names of the packages that it installs, as far as they are known."""
    for one in written.actions:
        if isinstance(one, InstallWheel):
            yield one.package
        elif isinstance(one, InstallPackages | Advise):
            texts = [*one.requirements, *_words_of_installs(one)]
            for text in texts:
                name = TEMPLATE.match(text)
                if name is None:
                    yield name_of(text)
                elif name[1].endswith("package"):
                    known = bound_fact(FactName.parse(name[1]), facts, bound)
                    yield str(getattr(known.state, "value", ""))


def _words_of_installs(action: InstallPackages | Advise) -> Iterator[str]:
    for command in getattr(action, "commands", ()):
        if " install " in command:
            yield from re.findall(
                r"(?<=[\s'\"])(?:\{[\w.*-]+\}|[A-Za-z][\w.-]*)(?=[\s'\"=<>\[]|$)",
                f" {command.partition(' install ')[2]}",
            )


def _commands(written: RecipeRemedy) -> Iterator[str]:
    for one in written.actions:
        yield from getattr(one, "commands", ())


def _texts(written: RecipeRemedy) -> str:
    return "\n".join([written.title, *(one.advice for one in written.actions)])
