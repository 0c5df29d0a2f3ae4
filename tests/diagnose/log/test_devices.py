"""On whose device a log was written, and what is ruled out by it."""

from __future__ import annotations

import re

import pytest

from attn_doctor.diagnose import possible
from attn_doctor.diagnose.log import devices
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.facts import Clues
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Matches, OneOf
from attn_doctor.recipes.where_possible import PLACES, elsewhere
from attn_doctor.workflows.explain import as_if_partly

EVERY = (*shelf.bundled(), *shelf.families())
RTX = "PyTorch version: 2.6.0+cu124, GPU 0: NVIDIA GeForce RTX 4090\n/home/me/run.py\n"
MAC = "OS: macOS 15.3 (arm64)\n/Users/me/run.py device=mps:0\n"
MI300 = "torch 2.6.0+rocm6.3 on AMD Instinct MI300X\n/home/me/run.py\n"
GAUDI = "import habana_frameworks.torch.core as htcore\n/home/me/run.py --use_habana\n"
#: A title that speaks of one maker's GPU or of one system alone.
_OF_ONE = re.compile(
    r"\bAMD GPU\b|\bROCm['’]s\b|\bfor ROCm\b|\bMac's GPU\b|\bAscend NPU|\bDirectML\b|\bZLUDA\b|\bIntel GPU \("
    r"|\bon XPU\b|\bon Windows\b|\bWindows (?:does|denies|refuses)\b|\bNVIDIA driver\b|\bcuDNN has\b|\bHopper\b"
)


def told(text: str) -> dict[str, object]:
    """The facts of the device, of these lines."""
    clues = Clues()
    for number, line in enumerate(text.splitlines(), start=1):
        clues.see(Line(number=number, text=line))
    every = {str(fact.name): getattr(fact.state, "value", None) for fact in clues.facts("a log")}
    return {name: every[name] for name in ("log.device", "log.made_for", "log.gfx") if name in every}


def device(text: str) -> object:
    """The fact, of these lines."""
    return told(text).get("log.device")


def ids(text: str) -> list[str]:
    """What is found in a text."""
    return [one.id for one in explain_text(text, EVERY, FactSet()).diagnosis.findings]


def test_each_device_has_a_place_and_a_kind() -> None:
    """A device that is read, and is of no place, would rule nothing out; one without a kind would be taken for CUDA."""
    in_places = {device for allowed, _ in PLACES.values() for device in allowed}

    assert {name.replace("_", " ") for name in devices.NAMED.groupindex} <= in_places
    assert {*possible._KINDS, "NVIDIA"} == in_places


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RTX, "NVIDIA"),
        (MAC, "Apple"),
        (MI300, "AMD"),
        (GAUDI, "Gaudi"),
        ("Using ZLUDA in C:\\SD\\.zluda\ntorch 2.3.1+cu118\nAMD Radeon RX 6700 XT", "ZLUDA"),
        ("launch.py --use-directml\nRadeon RX 6600", "DirectML"),
        ("torch 2.7.0+xpu on Intel(R) Arc(TM) A770", "Intel"),
        ("Aurora, Intel Data Center GPU Max 1550", "Intel"),
        ("torch_npu 2.1.0 on Ascend 910B", "Ascend"),
        ("torch 2.6.0+cu124", "NVIDIA"),
        ("ROCm is installed and verified\nPyTorch 2.0-ROCm", "AMD"),
        # a Mac with a Radeon computes by Metal
        ("OS: macOS 14.5 (x86_64)\nAMD Radeon Pro 5500M", "Apple"),
        ("Radeon RX Vega 64, Ubuntu", "AMD"),
        ("my MI50 in a server", "AMD"),
        ("My computer has a 9060XT", "AMD"),
        ("7900 xtx, Windows 11", "AMD"),
        ("6600 text tokens, 9060 steps", None),
        ("Intel(R) Iris(R) Xe Graphics", "Intel"),
        # what libraries look for, and the graphics of a processor, beside the GPU that computes
        ("GPU 0: NVIDIA A100-SXM4-80GB\ntransformers/utils/import_utils.py, in is_torch_npu_available", "NVIDIA"),
        ("torch 2.5.1+cu124\nUserWarning: torch_npu is not installed", "NVIDIA"),
        ("devices: 'cuda', 'npu', 'xpu'\nGPU: NVIDIA GeForce RTX 3090", "NVIDIA"),
        ("AMD Radeon 780M\nNVIDIA GeForce RTX 4070 Laptop GPU", "NVIDIA"),
        ("AMD Radeon(TM) Graphics, torch 2.5.1+cu124", "AMD"),
        ("ModuleNotFoundError: No module named 'torch_npu'", "Ascend"),
        ("fails on npu:0, works with GPU: NVIDIA A100", None),
        # two makers in one log: nobody knows which of them failed
        ("GPU 0: NVIDIA GeForce RTX 4090\nAMD Radeon RX 7900 XTX", None),
        # advice, and lists of all that there are
        ("If you have an AMD GPU, install torch from https://download.pytorch.org/whl/rocm6.3", None),
        ("I'm using an AMD GPU with torch", "AMD"),
        ("This op is not implemented on AMD GPUs", None),
        ("FP8 is not supported on AMD GPUs", None),
        ("Please make sure ROCm is installed", None),
        ("Are you using an AMD GPU?", None),
        ("Try --use-directml instead", None),
        ("supported devices: 'hpu', 'xpu'", None),
        ("AssertionError: Device compute capability 8.9 or higher required for FP8 execution.", None),
        ("ValueError: mat1 and mat2 do not fit", None),
    ],
)
def test_all_lines_have_to_agree_on_the_device(text: str, expected: str | None) -> None:
    assert device(text) == expected


def test_what_stands_beside_an_nvidia_gpu_made_nothing() -> None:
    beside = "GPU 0: NVIDIA GeForce RTX 4090\ncuda: yes, is_torch_npu_available: False\nAMD Radeon(TM) 780M"

    assert told(beside) == {"log.device": "NVIDIA"}
    assert told("Radeon 780M")["log.made_for"] == "AMD"


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("RX 7900 XT", ("AMD", "AMD", "gfx1100", None)),
        ("MI50", ("AMD", "AMD", "gfx906", None)),
        ("Vega 64", ("AMD", "AMD", "gfx900", None)),
        ("780M", ("AMD", "AMD", "gfx1103", None)),
        ("Ascend 910B", ("Ascend", "Ascend", None, None)),
        ("Intel Arc A770", ("Intel", "Intel", None, None)),
        ("Iris Xe", ("Intel", "Intel", None, None)),
        ("Apple M2", ("Apple", None, None, "macOS")),
        ("M3 Max", ("Apple", None, None, "macOS")),
        ("Gaudi 2", ("Gaudi", None, None, None)),
        ("GTX 780M", ("NVIDIA", None, None, None)),
        ("NVIDIA RTX A6000", ("NVIDIA", None, None, None)),
        ("two of them", (None, None, None, None)),
    ],
)
def test_a_gpu_that_a_person_names_tells_its_maker(gpu: str, expected: tuple[str | None, ...]) -> None:
    facts = as_if_partly(FactSet(), None, (f"gpu.name={gpu}",))

    assert tuple(map(facts.text, ("log.device", "log.made_for", "log.gfx", "node.system"))) == expected


def test_the_gpu_that_is_named_counts_before_what_a_library_looks_for() -> None:
    log = "UserWarning: torch_npu is not installed\nAssertionError: Torch not compiled with CUDA enabled"

    def first(gpu: str) -> str:
        base = as_if_partly(FactSet(), None, (f"gpu.name={gpu}",))
        return explain_text(log, EVERY, base).diagnosis.findings[0].remedies[0].title

    assert "Ascend" in first("Ascend 910B")
    assert "CUDA" in first("RTX 4090")
    assert "ROCm" in first("RX 7900 XT")


@pytest.mark.parametrize(
    ("error", "there", "elsewhere_"),
    [
        ("RuntimeError: The GPU device instance has been suspended. Use GetDeviceRemovedReason", "", RTX),
        ("RuntimeError: Invalid buffer size: 32.00 GB", MAC, RTX),
        ("triton.compiler.errors.CompilationError: at 8:11: tl.load(x)", RTX, MAC),
        ("HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond", MI300, GAUDI),
    ],
)
def test_what_is_possible_elsewhere_alone_is_not_told(error: str, there: str, elsewhere_: str) -> None:
    """The same words are an answer where it is possible, and none on another maker's device."""
    found = ids(there + error)
    assert found
    assert found[0] not in ids(elsewhere_ + error)


def test_a_confirming_text_is_ruled_out_as_well() -> None:
    """fp8e4nv is refused before compute capability 8.9; on a MI300 it is another format that is missing."""
    error = "ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5',)"
    assert ids(error)[0] == "fp8-e4m3-before-ada"
    assert "fp8-e4m3-before-ada" not in ids("GPU: NVIDIA H100 80GB HBM3\n" + error)
    assert "fp8-e4m3-before-ada" not in ids(MI300 + error)


def test_systems_and_devices_are_asked_for_each_by_itself() -> None:
    """A device brings its system along only where no other is named."""
    asked = {str(one.fact): one.pattern for one in elsewhere(["NVIDIA", "Linux"])}
    assert asked == {"log.device": "^(?!(?:NVIDIA)$)", "node.system": "^(?!(?:Linux)$)"}
    assert [str(one.fact) for one in elsewhere(["AMD", "DirectML"])] == ["log.device"]
    assert [str(one.fact) for one in elsewhere(["Apple"])] == ["log.device", "node.system"]
    assert list(elsewhere([])) == []
    assert all(devices or systems for devices, systems in PLACES.values())


def test_what_speaks_of_one_maker_says_where_it_is_possible() -> None:
    without = [one.id for one in EVERY if one.logs and not one.unless and not one.when and _OF_ONE.search(one.title)]
    assert without == []


def test_no_remedy_is_for_a_device_that_rules_its_recipe_out() -> None:
    """What a remedy asks for (`log.made_for`) is a place where its recipe is possible."""
    shut_out = []
    for recipe in EVERY:
        devices = [one.pattern for one in recipe.unless if isinstance(one, Matches) and str(one.fact) == "log.device"]
        for remedy in recipe.remedies:
            for one in remedy.when:
                if isinstance(one, OneOf) and str(one.fact) == "log.made_for":
                    shut_out += [
                        f"{recipe.id}:{remedy.id}"
                        for maker in one.values
                        if any(re.search(pattern, str(maker)) for pattern in devices)
                    ]
    assert shut_out == []


def test_an_image_of_rocm_is_of_amd() -> None:
    assert told("rocm/pytorch:latest, pip install --upgrade torch was run by requirements.txt")["log.made_for"] == "AMD"
    assert "log.made_for" not in told("cd /opt/x/rocm/pytorch/setup")
