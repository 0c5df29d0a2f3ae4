"""Tells on what a log's program computes: whose GPU or accelerator it is, as far as all lines agree.

Recipes that are possible on one kind of device alone (`only_on`) are ruled out by it. So a line that only suggests
another device, or lists all that there are, does not count, and two kinds in one log give no fact: the words of such a
recipe are often a witness of its device themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attn_doctor.quick_patterns import when_used

DEVICE = "log.device"

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
    r"|\.hip:\d|\bgfx(?:9\d\w|1[0-2]\d\d)\b|\bAMD Instinct|\bMI[23]\d{2}X?\b|\bRadeon\b"
    r"|\b(?:RX|rx) ?(?:4[678]0|5[5-9]0|5[3567]00|6[3-9][05]0|7[6-9][05]0|90[67]0)(?!\d)|\bAMD [679]\d[05]0 ?[Xx][Tt]"
    r"|stable-diffusion-webui-(?:directml|amdgpu)\b|^\W{0,4}ROC[Mm] is installed\b"
    r"|\bPy[Tt]orch[- ]?[\d.-]{0,8}[- ]ROC[Mm]\b"
    r"|\b(?:I|[Ww]e)(?: have|'ve(?: got)?| use|(?: am|'m| are|'re) (?:using|on)) (?:an? |my )?AMD (?:GPU|card)s?\b"
    r"|\b(?:on|with|using) my AMD (?:GPU|card)\b)"
    r"|(?P<Intel>\+xpu\b|\bXPU out of memory|\bIntel\(R\) (?:Arc|Data Center GPU)|\bIntel Arc\b|'xpu'|\bxpu:\d"
    r"|\bArc (?:Pro )?[AB]\d{2,3}\b|\barc [ab]\d{3}\b)"
    r"|(?P<Ascend>\btorch[_-]npu\b|\b910(?:B[1-4]?|_?93)\b|\bnpu:\d|'npu'|\bnpu device\b"
    r"|\bAscend (?:NPU|910|310)|\bAscend910|\bAscendSpeed\b|昇腾)"
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
_CUDA_BUILD = re.compile(r"\+cu\d{3}$")


def maker_of(gpu: str) -> str | None:
    """AMD, Intel or Ascend, where a GPU's name is one of theirs: `AMD Radeon RX 6800 XT`."""
    found = MADE_FOR.search(gpu)
    return found.lastgroup if found else None


def told_in(text: str, made_for: str | None) -> Iterator[tuple[str, str]]:
    """The device that a line shows in use; `made_for` is what surroundings.py read in it."""
    found = NAMED.search(text, 0, 1000)
    if (found or made_for) and not _OF_OTHERS.search(text, 0, 1000):
        yield DEVICE, str(found.lastgroup).replace("_", " ") if found else str(made_for)


def agreed(told: Mapping[str, Mapping[str, int]]) -> Mapping[str, dict[str, int]]:
    """The fact with the devices of all lines: one, unless they disagree. Nothing where no line tells."""
    named = dict(told.get(DEVICE, {}))
    shown = {**told.get("gpu.0.compute_capability", {}), **told.get("log.board", {})}
    if target := told.get("log.gfx"):
        named.setdefault("AMD", min(target.values()))
    if shown:
        named["NVIDIA"] = min(shown.values())
    elif not named and not told.get("log.made_for") and (torch := told.get("package.torch.version")):
        named = {"NVIDIA": min(torch.values())} if all(map(_CUDA_BUILD.search, torch)) else {}
    system = told.get("node.system", {})
    if set(system) == {"macOS"} and not set(named) - {"AMD", "Apple"}:  # a Mac's own GPU may be a Radeon
        named = {"Apple": system["macOS"]}
    for above, below in _UNDER.items():
        if above in named and not set(named) - {above} - below:
            named = {above: named[above]}
    return {DEVICE: named} if named else {}
