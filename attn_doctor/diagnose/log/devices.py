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
