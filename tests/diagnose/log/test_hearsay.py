"""What a log's writer denies, asks or tells of others is no fact of the machine at hand."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log import gpu_words, systems
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.cuda_stated import torch_said
from attn_doctor.diagnose.log.surroundings import Surroundings
from attn_doctor.diagnose.log.tried import tried_in
from attn_doctor.diagnose.log.versions_said import versions_in
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf

EVERY = (*shelf.bundled(), *shelf.families())


@pytest.mark.parametrize(
    ("line", "build"),
    [
        ("I have not tried the cu128 nightly of torch yet", None),
        ("Has anyone already tried torch with cu130?", None),
        ("Nobody tried torch cu126", None),
        ("I tried torch cu118, cu121 and cu128", None),
        ("It is already known that torch for cu128 lacks it", None),
        ("I switched from torch cu121 to cu128", "128"),
        ("I use torch cu128. Any ideas?", "128"),
        ("已经安装了cu128的torch", "128"),
    ],
)
def test_the_build_of_torch(line: str, build: str | None) -> None:
    assert torch_said(line) == build


@pytest.mark.parametrize(
    ("line", "tried"),
    [
        ("I have not tried transformers 4.52.4 yet", []),
        ("Has anyone tried transformers 4.52.4 with this", []),
        ("Nobody has tried flash-attn 2.8.0", []),
        ("I am still waiting for the latest flash-attn", []),
        ("upgraded transformers to 4.52.4 and it works without flash-attn", []),
        ("I upgraded transformers to 4.52 without success", ["transformers 4.52"]),
        ("tried transformers v4.45.0, v4.46.1", ["transformers 4.45.0", "transformers 4.46.1"]),
        ("No luck, I tried transformers 4.45.0", ["transformers 4.45.0"]),
    ],
)
def test_what_was_tried(line: str, tried: list[str]) -> None:
    assert [*tried_in(line)] == tried


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("I am not using wsl here, plain server", False),
        ("bare Ubuntu, no WSL involved", False),
        ("I run it on WSL2", True),
        ("it does not work in wsl", True),
    ],
)
def test_wsl(line: str, told: bool) -> None:
    assert (("node.kernel", "WSL2") in [*Surroundings().told(line)]) is told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("No problem on Colab. Here:", False),
        ("Everything is ok in colab, on my own server it fails", False),
        ("Everything runs perfectly on Colab", False),
        ("I run it on Colab", True),
        ("It does not work on Colab", True),
    ],
)
def test_colab(line: str, told: bool) -> None:
    assert (("python.environment", "notebook") in [*Surroundings().told(line)]) is told


def test_the_machine_from_which_one_comes() -> None:
    assert [*systems.said_in("I ssh from my MacBook Pro 2019 into the server")] == []
    assert [*systems.said_in("It happens on my MacBook Pro 2019")] == ["macOS"]


@pytest.mark.parametrize(
    "line",
    [
        "The recommended torch version is 2.3.1",
        "minimum torch version is 2.4.0",
        "the latest vllm version is 0.8.5",
        "推荐transformers版本4.45.0",
        "最高支持torch版本是2.6.0",
    ],
)
def test_a_release_that_is_named_and_not_there(line: str) -> None:
    assert [*versions_in(line)] == []


def test_a_release_that_is_there() -> None:
    assert [*versions_in("my torch version is 2.3.1")] == [("torch", "2.3.1")]
    assert [*versions_in("using the latest torch version 2.7.0")] == [("torch", "2.7.0")]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("The authors trained with 8 A100s, I have something else", None),
        ("3 H100 GPU-days in the paper", None),
        ("I have 8 A100s", "8.0"),
        ("trained with 8 A100s", "8.0"),
    ],
)
def test_the_gpus_of_others(line: str, named: str | None) -> None:
    assert gpu_words.named_as_there(line, lambda text: "8.0") == named


@pytest.mark.parametrize("machine", ["AMD MI300X, torch 2.8.0+rocm6.4", "MacBook Pro M3", "Tesla T4"])
def test_a_notice_takes_no_package_out(machine: str) -> None:
    """What is left where a machine cannot run a package is for a failure, not for a warning that was survived."""
    notice = "You are attempting to use Flash Attention 2.0 without specifying a torch dtype"
    found = explain_text(f"GPU: {machine}\n{notice}\n{{'loss': 1.2}}", EVERY, FactSet()).diagnosis.findings

    assert not [one for finding in found for one in finding.remedies if one.id.startswith("without-flash-attn")]


@pytest.mark.parametrize(
    "line",
    [
        "I run the paper's code on an RTX 5090",
        "I am fine-tuning a pretrained Llama model on an RTX 5090",
        "They gave us a machine with RTX 5090",
        "使用作者的代码在 RTX 5090 上运行",
    ],
)
def test_what_is_of_others_runs_on_this_gpu(line: str) -> None:
    assert gpu_words.named_as_there(line, lambda text: "12.0") == "12.0"


@pytest.mark.parametrize("line", ["Kaggle 2xT4, vllm", "I run it on T4x2", "trained on 2*T4 of Kaggle"])
def test_gpus_that_are_counted_without_a_blank(line: str) -> None:
    assert gpu_words.named_as_there(line, lambda text: "7.5" if " T4" in text else None) == "7.5"


@pytest.mark.parametrize("line", ["I edited the bat on Windows 11", "I log in as admin on Windows 11"])
def test_what_is_done_on_this_machine(line: str) -> None:
    assert [*systems.said_in(line)] == ["Windows"]


@pytest.mark.parametrize(
    "line",
    [
        "It does not work even after upgrading vllm to 0.9.0",
        "I have no GPU problem and I upgraded vllm to 0.9.0 in vain",
    ],
)
def test_a_denial_of_another_clause(line: str) -> None:
    assert [*tried_in(line)] == ["vllm 0.9.0"]


def test_a_laptop_with_two_makers_gpus_is_nvidias() -> None:
    assert [*Surroundings().told("Laptop with Intel GPU and NVIDIA RTX 4060")] == []
