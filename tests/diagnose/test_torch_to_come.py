"""Which torch packages are made for, which one comes, and that no cure of a report speaks against a graver one."""

from __future__ import annotations

import shlex

import pytest

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.findings import Diagnosis, Finding
from attn_doctor.model.install_request import name_of
from attn_doctor.recipes.shelf import bundled
from tests.diagnose.test_derived import facts

TORCH = {
    "python__executable": "/env/bin/python",
    "python__has_pip": True,
    "torch__version": "2.12.1+cu130",
    "torch__cuda": "13.0",
    "torch__hip": None,
    "torch__cxx11_abi": True,
    "driver__version": None,
    "package__torch__version": "2.12.1",
    "listed__requirement": 3,
    "listed__package": 3,
}
NO_TORCH = {"torch__version": None, "torch__cuda": None, "package__torch__version": None}


def misses(module: str) -> dict[str, object]:
    """A compiled file that misses a symbol of the torch that is there."""
    own = f"extension__{module}__"
    return {
        own + "package": module.partition(".")[0],
        own + "missing_symbols": ("_ZN3c1010ValueErrorC1ENS_14SourceLocationE",),
        own + "needs_cuda_torch": False,
        own + "cxx11_abi": True,
    }


def box(asks: dict[str, str], **more: object) -> FactSet:
    """An environment whose packages (name and version) ask for that torch."""
    known: dict[str, object] = {**TORCH, **more}
    for package, specifier in asks.items():
        name, _, version = package.partition(" ")
        known[f"package__{name}__version"] = version
        known[f"package__{name}__requires_torch"] = specifier
        known[f"requirement__{name}.torch__specifier"] = specifier
    return derive(facts(**{name: Absent("not there") if value is None else value for name, value in known.items()}))


def judged(asks: dict[str, str], **more: object) -> Diagnosis:
    return judge(box(asks, **more), bundled())


def commands(finding: Finding) -> list[str]:
    """Of the first cure, without the installer's own words."""
    return [
        one.partition(" install ")[2]
        for action in finding.remedies[0].actions
        for one in action.commands
        if " install " in one
    ]


def of(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {one.id: one for one in diagnosis.findings}


@pytest.mark.parametrize(
    ("asks", "more", "typed"),
    [
        ({"vllm 0.28.0": "==2.13.0"}, {}, "torch==2.13.0"),
        ({"vllm 0.28.0": "==2.13.0", "accelerate 1.15.0": ">=2.0.0"}, {}, "torch==2.13.0"),
        ({"vllm 0.28.0": "==2.13.0", "torchvision 0.27.1": "==2.12.1"}, {}, "torch==2.13.0 torchvision"),
        # From where torch came, as long as that build serves.
        (
            {"vllm 0.28.0": "==2.13.0"},
            {"package__torch__version": "2.12.1+cu126"},
            "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu126",
        ),
        # A Volta runs no build of CUDA 13, and a Hopper the registry's.
        (
            {"vllm 0.28.0": "==2.13.0"},
            {"gpu__0__compute_capability": "7.0"},
            "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu126",
        ),
        ({"vllm 0.28.0": "==2.13.0"}, {"gpu__0__compute_capability": "9.0"}, "torch==2.13.0"),
        # A driver for CUDA 12, and a compiled file that needs the runtime of CUDA 12.
        (
            {"vllm 0.28.0": "==2.13.0"},
            {"gpu__0__compute_capability": "9.0", "driver__version": "570.86.15"},
            "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu129",
        ),
        (
            {"vllm 0.28.0": "==2.13.0"},
            {"extension__vllm._C__package": "vllm", "extension__vllm._C__cudart_major": 12},
            "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu129",
        ),
        ({"vllm 0.28.0": "==2.13.0+cu129"}, {}, "torch==2.13.0 --index-url https://download.pytorch.org/whl/cu129"),
    ],
)
def test_the_torch_that_a_package_pins_is_what_an_expert_types(
    asks: dict[str, str], more: dict[str, object], typed: str
) -> None:
    """No word is left to fill in, and what goes with torch goes along."""
    finding = of(judged(asks, **more))["torch-not-the-one-asked-for"]

    assert commands(finding) == [typed]


@pytest.mark.parametrize(
    "asks",
    [
        {"vllm 0.28.0": "==2.13.0", "sglang 0.5.23": "==2.14.1"},  # two others
        {"vllm 0.28.0": "==2.13.0", "sglang 0.5.20": "==2.12.1"},  # one for this one
        {"torchaudio 2.9.1": "==2.9.1"},  # which is released for every torch
        {"accelerate 1.15.0": ">=2.14"},  # not made for one alone
    ],
)
def test_torch_stays(asks: dict[str, str]) -> None:
    """Where another torch would break as much as it mends."""
    assert "torch-not-the-one-asked-for" not in of(judged(asks))
    assert box(asks).value("torch.release_to_come") is None


@pytest.mark.parametrize(
    "there", [{}, NO_TORCH, {"torch__version": "2.14.1+cu130", "package__torch__version": "2.14.1"}]
)
def test_what_is_to_be_another_release_has_no_say(there: dict[str, object]) -> None:
    """A server pins torch, and another release of its kernels than the one there, which is made for another torch."""
    asks = {"sglang 0.5.18": "==2.13.0", "sglang-kernel 0.4.10": "==2.14.1"}
    more = {"requirement__sglang.sglang-kernel__specifier": "==0.4.6.post1", **misses("sglang-kernel._C")}
    found = of(judged(asks, **{**there, **more}))
    finding = found["torch-not-installed" if there is NO_TORCH else "torch-not-the-one-asked-for"]

    assert commands(finding) == ["torch==2.13.0"]
    assert "package-made-for-other-torch" not in found
    assert there is NO_TORCH or "extension-built-for-other-torch" not in found
    assert commands(found["requirements-not-met"]) == ["sglang==0.5.18 torch==2.13.0"]


def test_code_that_no_torch_brings() -> None:
    """What a package lacks for a GPU stays lacking with another torch; torchvision comes with its torch."""
    found = of(
        judged(
            {"vllm 0.31.0": "==2.13.0", "torchvision 0.27.1": "==2.12.1"},
            gpu__0__compute_capability="7.0",
            gpu__0__visible=True,
            torch__arch_list=("sm_75", "sm_80", "sm_90", "sm_100", "sm_120"),
            **{
                f"extension__{module}__{name}": value
                for module in ("vllm._C", "torchvision._C")
                for name, value in (("package", module.partition(".")[0]), ("gpu_code", ("sm_75", "sm_80", "sm_90")))
            },
        )
    )

    assert found["extension-lacks-gpu-arch"].subjects == ("extension vllm._C",)
    assert [one.subjects for one in found["torch-lacks-gpu-arch"].symptoms] == [("extension torchvision._C",)]


def test_a_container_keeps_its_torch() -> None:
    """A vendor's build is not replaced by a release."""
    found = of(judged({"vllm 0.28.0": "==2.13.0"}, torch__version="2.12.0a0+ecf3bae40a.nv26.1", torch__cuda="13.1"))

    assert "torch-not-the-one-asked-for" not in found


def test_a_gpu_that_the_asked_torch_has_no_code_for() -> None:
    """Kepler: the torch that is asked for would not run here either."""
    found = of(judged({"vllm 0.28.0": "==2.13.0"}, gpu__0__compute_capability="3.7"))

    assert "torch-not-the-one-asked-for" not in found
    assert "package-made-for-other-torch" in found


def test_one_trouble_is_one_finding() -> None:
    """The symbols that its files miss hang under the torch that it is made for; so does what follows torch."""
    found = judged(
        {"vllm 0.28.0": "==2.13.0", "torchaudio 2.9.1": "==2.9.1", "torchvision 0.24.1": "==2.9.1"},
        **misses("vllm._C"),
        **misses("torchaudio.lib.libtorchaudio"),
    )

    assert [one.id for one in found.findings if one.severity.value != "info"] == ["torch-not-the-one-asked-for"]
    (finding,) = [one for one in found.findings if one.severity.value != "info"]
    assert finding.severity.value == "error"
    assert finding.certainty == "seen"


def test_torchaudio_is_told_once() -> None:
    """That its files do not fit is a consequence of the torch that it is made for; its cure is the release for this."""
    found = judged({"torchaudio 2.9.1": "==2.9.1"}, **misses("torchaudio.lib.libtorchaudio"))
    (finding,) = found.findings

    assert finding.id == "package-made-for-other-torch"
    assert [one.id for one in finding.symptoms] == ["extension-built-for-other-torch"]
    assert commands(finding) == ["--no-deps --no-cache-dir --force-reinstall torchaudio==2.11.0"]


def test_no_torch_at_all_is_an_error() -> None:
    """What imports torch in its first line does not run: a gate has to say no."""
    finding = of(judged({"sglang 0.5.9": "==2.9.1", "peft 0.21.2": ">=1.13.0"}, **NO_TORCH))["torch-not-installed"]

    assert finding.severity.value == "error"
    assert commands(finding) == ["torch==2.9.1"]


@pytest.mark.parametrize(
    ("asks", "more", "typed"),
    [
        ({"accelerate 1.15.0": ">=2.0.0"}, {}, "torch"),
        ({"accelerate 1.15.0": ">=2.0.0,<2.9"}, {}, "'torch<2.9,>=2.0.0'"),
        ({"accelerate 1.15.0": ">=2.0.0,<2.9"}, {"gpu__0__compute_capability": "9.0"}, "torch==2.8.0"),
        (
            {"accelerate 1.15.0": ">=2.0.0"},
            {"gpu__0__compute_capability": "7.0"},
            "torch==2.15.0 --index-url https://download.pytorch.org/whl/cu126",
        ),
        ({"xformers 0.0.33.post2": "==2.9.1", "accelerate 1.15.0": ">=2.0.0"}, {}, "torch==2.9.1"),
    ],
)
def test_the_torch_that_comes_to_what_has_none(asks: dict[str, str], more: dict[str, object], typed: str) -> None:
    """As far as it is asked for, and no further."""
    finding = of(judged(asks, **{**NO_TORCH, **more}))["torch-not-installed"]

    assert commands(finding) == [typed]


def test_what_each_asks_is_told_where_no_torch_serves_all() -> None:
    """Two that pin different ones: no command for torch, and none that would bring both of them."""
    asks = {"vllm 0.19.1": "==2.10.0", "torchrl 0.14.1": ">=2.11.0"}
    found = of(judged(asks, **NO_TORCH, **{"requirement__vllm.einops__specifier": "any"}))
    finding = found["torch-not-installed"]

    assert "vllm asks for torch==2.10.0, torchrl asks for torch>=2.11.0" in finding.what
    assert [one.id for one in finding.remedies] == ["an-environment-for-each"]
    assert not [one for one in found.values() if one.remedies and commands(one)]


def test_liger_without_triton_on_a_cpu_build() -> None:
    """A GPU build brings it: one finding, and no second cure."""
    found = judged(
        {"liger-kernel 0.8.5": ">=2.1.2"},
        torch__version="2.13.0+cpu",
        torch__cuda=None,
        package__torch__version="2.13.0+cpu",
        listed__gpu=1,
        gpu__0__compute_capability="8.0",
        **{
            "requirement__liger-kernel.triton__specifier": ">=2.3.1",
            "requirement__liger-kernel.triton__installed": None,
        },
    )
    (finding,) = [one for one in found.findings if one.severity.value != "info"]

    assert finding.id == "torch-cpu-build"
    assert [one.id for one in finding.symptoms] == ["triton-comes-with-gpu-torch"]


REPORTS = {
    "vllm on another torch": (
        {"vllm 0.28.0": "==2.13.0"},
        {"requirement__vllm.einops__specifier": "any", "requirement__vllm.einops__installed": None},
    ),
    "a CPU build": (
        {"accelerate 1.15.0": ">=2.0.0"},
        {
            "torch__version": "2.13.0+cpu",
            "torch__cuda": None,
            "package__torch__version": "2.13.0+cpu",
            "listed__gpu": 1,
            "gpu__0__compute_capability": "9.0",
            "requirement__transformers.tokenizers__specifier": ">=0.22",
        },
    ),
    "a CPU build and vllm for another torch": (
        {"vllm 0.30.0": "==2.14.1", "torchvision 0.28.0": "==2.13.0"},
        {
            "torch__version": "2.13.0+cpu",
            "torch__cuda": None,
            "package__torch__version": "2.13.0+cpu",
            "listed__gpu": 1,
            "gpu__0__compute_capability": "9.0",
            "requirement__vllm.einops__specifier": "any",
        },
    ),
    "libraries missing, and vllm for another torch": (
        {"vllm 0.28.0": "==2.13.0", "torchvision 0.24.1": "==2.9.1", "xformers 0.0.33.post2": "==2.9.1"},
        {
            "torch__missing_libraries": ("libcudnn.so.9",),
            "requirement__vllm.einops__specifier": "any",
            "requirement__vllm.einops__installed": None,
        },
    ),
    "no code for this GPU": (
        {"xformers 0.0.30": "==2.7.0"},
        {
            "torch__arch_list": ("sm_75", "sm_80", "sm_90"),
            "gpu__0__compute_capability": "7.0",
            "listed__gpu": 1,
            "requirement__transformers.tokenizers__specifier": ">=0.22",
        },
    ),
    "a CPU build that cannot be imported": (
        {},
        {
            "torch__version": "2.13.0+cpu",
            "torch__cuda": None,
            "package__torch__version": "2.13.0+cpu",
            "listed__gpu": 1,
            "gpu__0__compute_capability": "9.0",
            "import__torch__outcome": "failed",
            "import__torch__error_type": "ImportError",
            "import__torch__missing_module": None,
        },
    ),
    "nothing but a missing package": ({}, {"requirement__transformers.tokenizers__specifier": ">=0.22"}),
    "no torch": (
        {"sglang 0.5.9": "==2.9.1"},
        {
            **NO_TORCH,
            "requirement__sglang.einops__specifier": "any",
        },
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_no_cure_speaks_against_a_graver_one(name: str) -> None:
    """Typed from the top, the torch of one command is the torch of every other; no local version without its index."""
    asks, more = REPORTS[name]
    released: dict[str, str] = {}
    for finding in judged(asks, **more).findings:
        for command in commands(finding) if finding.remedies else []:
            words = shlex.split(command)
            for word in words:
                package, _, version = word.partition("==")
                if version and package in ("torch", "torchvision", "xformers", "triton"):
                    assert released.setdefault(package, version) == version, (finding.id, command)
                assert "+" not in word or "--index-url" in words, command
    assert released


def test_a_command_that_holds_another_torch_says_so() -> None:
    """It moves torch where it is typed alone."""
    asks, more = REPORTS["vllm on another torch"]
    finding = of(judged(asks, **more))["requirements-not-met"]

    assert commands(finding) == ["vllm==0.28.0 torch==2.13.0"]
    assert "torch is held at 2.13.0, which another cure of this report brings" in finding.remedies[0].why_this_safety


def test_torchs_libraries_come_and_torch_stays() -> None:
    """What goes with the torch that is there is not moved."""
    asks = {"torchvision 0.27.1": "==2.12.1"}
    finding = of(judged(asks, torch__missing_libraries=("libcudnn.so.9",)))["torch-libraries-missing"]

    assert commands(finding) == ["torch==2.12.1"]
    assert "torch itself stays" in finding.remedies[0].why_this_safety
    assert {name_of(word) for word in commands(finding)} == {"torch"}
