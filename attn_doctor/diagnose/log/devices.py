"""Tells on what a log's program computes: whose GPU or accelerator it is, as far as all lines agree.

Recipes that are possible on one kind of device alone (`only_on`) are ruled out by it. So a line that only suggests
another device, or lists all that there are, does not count, and two kinds in one log give no fact: the words of such a
recipe are often a witness of its device themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log import amd_targets
from attn_doctor.quick_patterns import when_used

DEVICE, MADE_FOR_ONE = "log.device", "log.made_for"
#: Under these names, of what stands beside other makers' GPUs as well: facts where none of these is shown.
BESIDE, _DEVICE_BESIDE = "said.made_for", "said.device"

#: A line that names a device in use.
NAMED = when_used(
    r"(?P<ZLUDA>\bZLUDA\b|\b[Zz]luda\b|--use-zluda\b)"
    r"|(?P<DirectML>\btorch[-_]directml\b|\bprivateuseone:\d|--(?:use-)?directml\b|stable-diffusion-webui-directml\b)"
    r"|(?P<Gaudi>\bhabana_frameworks\b|\bhpu:\d|'hpu'|\boptimum[-_.]habana\b"
    r"|\bIntel Gaudi|\bGaudi ?[23]\b|\bHL-2\d\d\b)"
    r"|(?P<TPU>\blibtpu\b|\bPJRT_DEVICE=TPU\b|\bxla:\d|\bTpuDevice\(|\bTPU v\d|\btpu_driver\b)"
    r"|(?P<Neuron>\btorch_neuronx?\b|\bneuronx-cc\b|\bInferentia|\bTrainium)"
    r"|(?P<Moore_Threads>\btorch_musa\b|\bmusa:\d|\bMTT S\d)"
)
#: A line of a program, library or GPU of another maker than NVIDIA.
MADE_FOR = when_used(
    r"(?P<AMD>__HIP_PLATFORM_AMD__|--offload-arch=gfx|USE_ROCM=1|\bhipcc\b|/opt/rocm|\+rocm\d|/whl/(?:\w+/)?rocm\d|TritonAMDGPU"
    r"|libbitsandbytes_(?:rocm|hip)|ROCm Setup failed|\btransformers/hip/|ZLUDA|[Zz]luda"
    r"|\bHIP (?:error|out of|GPUs are)|\bTriton Error \[HIP\]|/dev/kfd\b|\bMIOpen\(HIP\)|\bROCm-capable\b"
    r"|\.hip:\d|\bgfx(?:9\d\w|1[0-2]\d\d)\b|\bAMD Instinct|\bMI[23]\d{2}X?\b|\bRadeon\b|\b(?:RX )?Vega ?(?:56|64)\b"
    r"|\b(?:[Oo]n|[Ww]ith|[Uu]sing|[Hh]ave|[Mm]y|[Aa]n?|GPUs?:?|\d ?x|Instinct) MI(?:25|50|60|100)\b"
    r"|\b(?:RX|rx) ?(?:4[678]0|5[5-9]0|5[3567]00|6[3-9][05]0|7[6-9][05]0|90[67]0)(?!\d)|\bAMD [679]\d[05]0 ?[Xx][Tt]"
    r"|\b(?:6[5-9][05]0|7[6-9][05]0|90[67]0) ?(?:XTX?|xtx?)\b"
    r"|stable-diffusion-webui-(?:directml|amdgpu)\b|^\W{0,4}ROC[Mm] is installed\b"
    r"|\bPy[Tt]orch[- ]?[\d.-]{0,8}[- ]ROC[Mm]\b|(?<![\w/])rocm/(?:pytorch|vllm|jax|megatron|sgl)"
    r"|\b(?:I|[Ww]e)(?: have|'ve(?: got)?| use|(?: am|'m| are|'re) (?:using|on)) (?:an? |my )?AMD (?:GPU|card)s?\b"
    r"|\b(?:on|with|using) my AMD (?:GPU|card)\b)"
    r"|(?P<Intel>\+xpu\b|\bXPU out of memory|\bIntel(?:\(R\)|®)? (?:Arc|Data Center GPU)\b"
    r"|(?<![\w/])/lus/flare/|\bPonte Vecchio\b"
    r"|(?:\b[Oo]n (?:the )?|\()Intel GPUs\b(?![^\n]*(?:RTX|GTX|GeForce|NVIDIA))|'xpu'|\bxpu:\d"
    r"|\bArc (?:Pro )?[AB]\d{2,3}\b|\barc [ab]\d{3}\b|\bIris(?:\(R\))? Xe\b)"
    r"|(?P<Ascend>\btorch[_-]npu\b|\b910(?:B[1-4]?|_?93)\b|\bnpu:\d|'npu'|\bnpu device\b"
    r"|\bAscend (?:NPU|910|310)|\bAscend910|\bAscendSpeed\b|昇腾)"
)
#: The graphics of a processor, and words of libraries that look for every maker's device.
_BESIDE_OTHERS = when_used(
    r"(?:\bAMD )?\bRadeon(?:\(TM\)|™)? (?:[678]\d0M\b|Graphics\b|Vega \d{1,2}\b)"
    r"|\bIntel(?:\(R\)|®)? Iris\b|\bIris(?:\(R\)|®)? Xe\b"
    r"|\b(?:is_)?torch[_-]npu(?:_available)?\b(?![ =:]{1,3}\d)|'(?:npu|xpu)'"
)
#: A GPU as a person names it, alone: NVIDIA's come first, of whose names some hold others'.
_GPU_NAMED = when_used(
    r"(?P<NVIDIA>(?i:\bnvidia\b|\bgeforce\b|\b[rg]tx|\bquadro\b|\btesla\b|\btitan\b|\bjetson\b))"
    r"|(?P<AMD>(?i:\bamd\b|\bradeon\b|\brx ?\d{3,4}|\bvega\b|\binstinct\b|^mi ?\d{2,3}[ax]?\b|\bfirepro\b|\bryzen\b"
    r"|\bstrix\b|^[678][4-9]0m\b|^80[56]0s\b))"
    r"|(?P<Gaudi>(?i:\bgaudi|\bhpu\b))"
    r"|(?P<Intel>(?i:\bintel\b|\barc\b|\biris\b|\buhd\b))"
    r"|(?P<Ascend>(?i:\bascend|\b910b|\b310p)|昇腾)"
    r"|(?P<Apple>(?i:\bapple\b|^m[1-5](?: (?:pro|max|ultra))?\b|\bmps\b))"
    r"|(?P<TPU>(?i:\btpu\b))"
)
#: Texts of which one stands in every line that names such a device.
SIGNS = (
    *("luda", "LUDA", "irectml", "privateuseone", "habana", "hpu", "Gaudi", "HL-2", "TPU", "Tpu", "tpu", "xla:"),
    *("neuron", "Inferentia", "Trainium", "musa", "MTT S"),
)
#: Such a line names devices of others: it advises, lists what is served, or says what would be needed.
_OF_OTHERS = when_used(
    r"\b(?:[Ii]f you|[Ff]or (?:AMD|Intel|NVIDIA|Nvidia|Apple|other)|[Cc]onsider|[Tt]ry|[Ss]upport(?:s|ed)?|[Rr]equires?"
    r"|[Ee]xpected one of|[Oo]ne of|such as|e\.g\.|available (?:backends|devices|options)|[Uu]ninstall|instead of)\b"
)
#: Who runs CUDA's or torch's calls on another maker's GPU, and what else such a log names.
_UNDER = {"ZLUDA": {"AMD", "NVIDIA", "DirectML"}, "DirectML": {"AMD", "Intel"}}
#: Targets of what is in a processor: a card of another maker may stand beside it.
_OF_A_PROCESSOR = frozenset({"gfx1035", "gfx1036", "gfx1103", "gfx1150"})
_CUDA_BUILD = re.compile(r"\+cu\d{3}$")


def of_gpu(name: str) -> Iterator[tuple[str, str | None]]:
    """What a GPU's name alone tells: its maker and, where that is known, its target or system. None for no value."""
    found = _GPU_NAMED.search(name) or MADE_FOR.search(name)
    found = found or NAMED.search(name)
    if found is None:
        return
    maker = str(found.lastgroup).replace("_", " ")
    yield DEVICE, maker
    yield MADE_FOR_ONE, maker if maker in MADE_FOR.groupindex else None
    if maker == "Apple":
        yield "node.system", "macOS"
    if maker == "AMD" and (target := amd_targets.target_in(name)):
        yield "log.gfx", target


def made_in(text: str) -> tuple[str, bool] | None:
    """The maker for whose GPU a line's program, library or GPU is; and whether it may stand beside another's GPU."""
    found = MADE_FOR.search(text, 0, 2000)
    if found is None:
        return None
    surely = MADE_FOR.search(_BESIDE_OTHERS.sub(".", text[:2000]))
    return str((surely or found).lastgroup), surely is None


def told_in(text: str, made_for: str | None, beside: bool = False) -> Iterator[tuple[str, str]]:
    """The device that a line shows in use; `made_for` is what surroundings.py read in it."""
    found = NAMED.search(text, 0, 1000)
    if (found or made_for) and not _OF_OTHERS.search(text, 0, 1000):
        name = DEVICE if found or not beside else _DEVICE_BESIDE
        yield name, str(found.lastgroup).replace("_", " ") if found else str(made_for)


def settle(told: dict[str, dict[str, int]]) -> None:
    """Makes of what all lines tell the facts of the device: one, unless they disagree. Nothing where no line tells."""
    named, made_for = dict(told.pop(DEVICE, {})), dict(told.pop(MADE_FOR_ONE, {}))
    device_beside, beside = told.pop(_DEVICE_BESIDE, {}), told.pop(BESIDE, {})
    shown = {**told.get("gpu.0.compute_capability", {}), **told.get("log.board", {})}
    torch = told.get("package.torch.version", {})
    of_cuda = bool(torch) and all(map(_CUDA_BUILD.search, torch))
    if shown and _OF_A_PROCESSOR.issuperset(told.get("log.gfx", {})):
        told.pop("log.gfx", None)
    elif not shown:
        # Libraries look for an NPU beside a torch for CUDA; the processor's graphics may be all that there is.
        made_for = {**{one: line for one, line in beside.items() if one == "AMD" or not of_cuda}, **made_for}
        named = {**{one: line for one, line in device_beside.items() if one in made_for}, **named}
    if target := told.get("log.gfx"):
        named.setdefault("AMD", min(target.values()))
    if shown:
        named["NVIDIA"] = min(shown.values())
    elif not named and not made_for and of_cuda:
        named = {"NVIDIA": min(torch.values())}
    system = told.get("node.system", {})
    if set(system) == {"macOS"} and not set(named) - {"AMD", "Apple"}:  # a Mac's own GPU may be a Radeon
        named = {"Apple": system["macOS"]}
    for above, below in _UNDER.items():
        if above in named and not set(named) - {above} - below:
            named = {above: named[above]}
    told.update({name: values for name, values in ((DEVICE, named), (MADE_FOR_ONE, made_for)) if values})
