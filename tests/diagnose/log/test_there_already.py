"""What a log says is there already."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.said_installed import installed_in, said_installed_in
from attn_doctor.diagnose.log.there_already import changes_nothing
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Finding, ProposedAction, Remedy, Safety
from attn_doctor.model.remedies import Advise
from attn_doctor.recipes import shelf

EVERY = (*shelf.bundled(), *shelf.families())


def first(text: str) -> Finding:
    """The finding that leads."""
    return explain_text(text, EVERY, FactSet()).diagnosis.findings[0]


def asks_for(command: str) -> Remedy:
    action = Advise(text="", commands=(command,))
    return Remedy(
        id="one", title="", safety=Safety.UNSAFE, actions=(ProposedAction(action=action, commands=(command,)),)
    )


@pytest.mark.parametrize(
    ("command", "nothing"),
    [
        ("python -m pip install 'transformers<4.56'", True),
        ("python -m pip install 'transformers>=4.36' 'accelerate>=1'", True),
        ("python -m pip install --no-deps transformers==4.46.2", True),
        ("python -m pip install -c constraints.txt 'transformers<5'", True),
        ("python -m pip install 'transformers>=4.48'", False),
        ("python -m pip install --upgrade transformers", False),
        ("python -m pip install -U 'transformers<4.56'", False),
        ("python -m pip install --force-reinstall transformers==4.46.2", False),
        ("python -m pip install 'transformers<4.56' tokenizers", False),  # of which nothing is known
        ("python -m pip install git+https://github.com/huggingface/transformers", False),
        ("python -m pip install transformers", False),  # whatever release: it may be another build that is meant
        ("uv pip install 'transformers<5' --torch-backend=auto", False),
        ("python -m pip show transformers", False),
    ],
)
def test_a_request_that_is_met_changes_nothing(command: str, nothing: bool) -> None:
    facts = FactSet(
        Fact(name=FactName("package", name, "version"), state=Known(version), how="line 1", origin=Origin.DERIVED)
        for name, version in (("transformers", "4.46.2"), ("accelerate", "1.1.0"))
    )
    assert changes_nothing(asks_for(command), facts) is nothing


def test_what_is_met_comes_last() -> None:
    error = "RuntimeError: Numpy is not available"
    asked = [action.commands for action in first(error).remedies[0].actions]
    assert asked == [('python -m pip install "numpy<2"',)]
    there = first("numpy 1.26.4\n" + error).remedies[0]
    assert all("numpy<2" not in command for action in there.actions for command in action.commands)


@pytest.mark.parametrize(
    ("log", "package"),
    [
        ("flash_attn   2.5.8\nImportError: the package flash_attn seems to be not installed.", "flash-attn 2.5.8"),
        ("Successfully installed xformers-0.0.27\nModuleNotFoundError: No module named 'xformers'", "xformers 0.0.27"),
        ("triton 2.3.1\nModuleNotFoundError: No module named 'triton.language.extra'", ""),  # a part of what is there
        ("ModuleNotFoundError: No module named 'xformers'", ""),
        ("I installed flash-attn.\nImportError: Please install flash-attn to use this", "flash-attn"),
        ("I already have flash attention installed\nImportError: Flash Attention V2 is not installed.", "flash-attn"),
        (
            "flash_attn 2.7.4.post1 is installed\nImportError: the package flash_attn seems to be not installed.",
            "flash-attn",
        ),
        (
            (
                "Requirement already satisfied: flash-attn in /v\n"
                "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: "
                "Flash Attention 2 is not available. Please refer to the docs"
            ),
            "flash-attn",
        ),
        ("Requirement already satisfied: einops in /v\nModuleNotFoundError: No module named 'einops'", "einops"),
        (
            "pip list shows flash_attn_3 3.0\nModuleNotFoundError: No module named 'flash_attn_interface'",
            "flash-attn-3",
        ),
        ("我已经安装了 xformers\nModuleNotFoundError: No module named 'xformers'", "xformers"),
        ("flash-attn is installed\nImportError: dropout_layer_norm is not installed", ""),  # which is a package apart
        ("I installed flash-attn\nModuleNotFoundError: No module named 'xformers'", ""),
        ("I have installed flash attention\nModuleNotFoundError: No module named 'flash_attn_2_cuda'", ""),  # its part
        ("Getting requirements to build wheel ... error\nNo module named 'torch'\nbut torch 2.6.0 is installed!", ""),
        ("Make sure xformers is installed\nModuleNotFoundError: No module named 'xformers'", ""),
        ("triton is not installed, it is required\nERROR: No matching distribution found for triton==2.3.0", ""),
    ],
)
def test_what_is_installed_and_missing_is_in_another_python(log: str, package: str) -> None:
    leads = first(log).remedies[0]
    assert (leads.id == "in-the-python-that-runs") == bool(package)
    assert package in leads.title
    assert not package or "does not load" in first(log).title


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "Successfully installed torch-2.6.0+cu124 flash-attn-2.7.4.post1",
            ["torch 2.6.0+cu124", "flash-attn 2.7.4.post1"],
        ),
        ("Requirement already satisfied: ninja in ./v/lib/site-packages (1.11.1)", ["ninja 1.11.1"]),
        (
            "Requirement already satisfied: torch>=2.0 in /v/lib/site-packages (from flash-attn) (2.6.0)",
            ["torch 2.6.0"],
        ),
        ("Successfully uninstalled torch-2.6.0", []),
        ("I successfully installed flash-attn", []),
    ],
)
def test_an_installer_says_what_is_there(line: str, told: list[str]) -> None:
    assert [" ".join(one) for one in installed_in(line)] == told


def test_an_isolated_build_sees_nothing_of_what_is_installed() -> None:
    """torch is there, and setup.py, which pip runs as <string>, does not find it."""
    finding = first(
        "torch             2.0.1\nCollecting xformers\n  Installing build dependencies ... done\n"
        "  Getting requirements to build wheel ... error\n  error: subprocess-exited-with-error\n"
        '        File "<string>", line 23, in <module>\n'
        "      ModuleNotFoundError: No module named 'torch'\n      [end of output]"
    )

    assert finding.id == "build-isolation-no-torch"
    assert "another one" not in finding.remedies[0].title


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('There `python -c "import flash_attn; print(flash_attn.__version__)"` prints 2.7.3', ["flash-attn"]),
        ("`pip show flash-attn` says Version: 2.6.3, in the same environment", ["flash-attn"]),
        ("If import flash_attn works, all is well", []),
        ("import flash_attn fails", []),
        ("I've already installed both xformers and flash-attn, but torch fails", ["flash-attn", "xformers"]),
        ("I installed vLLM, flashinfer is missing", ["vllm"]),
        ("even after installing sageattention 2.2.0 it says not", ["sageattention"]),
        ("I already have Flash Attention installed", ["flash-attn"]),
        ("pip install flash-attn succeeded", ["flash-attn"]),
        ("flash_attn has been installed successfully", ["flash-attn"]),
        ("Requirement already satisfied: flash-attn in /opt/v", ["flash-attn"]),
        ("我用pip安装了flash_attn==2.5.8", ["flash-attn"]),
        ("flash-attn已经装好了，还是报错", ["flash-attn"]),
        ("Make sure you have correctly installed flash-attn", []),
        ("How do I know whether I have installed flash_attn?", []),
        ("I need to have xformers installed", []),
        ("Is flash-attn installed?", []),
        ("I have installed all requirements except xformers", []),
        ("flash-attn was installed but it failed to build", []),
        ("it works without flash-attn installed", []),
        ("xformers is not installed", []),
        ("flash_attn is installed: False", []),
        ("没有安装 flash-attn", []),
        ("请确保已安装 flash-attn", []),
        ("xformers安装失败", []),
        ("明明pip install flash-attn成功了", ["flash-attn"]),
        ("pip list里面有flash-attn 2.7.3", ["flash-attn"]),
        ("import flash_attn in the notebook works", ["flash-attn"]),
        ("flash-attn ist bereits installiert, trotzdem", ["flash-attn"]),
        ("Ich habe flash-attn erfolgreich installiert", ["flash-attn"]),
        ("flash_attn est bien installé", ["flash-attn"]),
        ("J'ai déjà installé xformers", ["xformers"]),
        ("flash-attn está instalado", ["flash-attn"]),
        ("flash-attn はインストール済みです", ["flash-attn"]),
        ("flash_attn을 설치했는데", ["flash-attn"]),
        ("xformers уже установлен", ["xformers"]),
        ("flash-attn ist nicht installiert", []),
        ("wenn flash-attn installiert ist", []),
        ("flash_attn n'est pas installé", []),
        ("flash-attn はインストールされていません", []),
        ("flash-attn は設定でインストールされていますか", []),
        ("flash-attn 설치되어 있지 않습니다", []),
        ("xformers не установлен", []),
        ("pip list里面没有flash-attn", []),
        ("import flash_attn never works", []),
    ],
)
def test_who_wrote_it_says_what_is_there(line: str, told: list[str]) -> None:
    assert sorted({*said_installed_in(line)}) == told


def test_one_sentence_has_the_error_and_what_is_there() -> None:
    said = 'installed with !pip install, "Successfully installed flash-attn-2.7.4.post1", kernel restarted, still '
    found = first(said + "\"ModuleNotFoundError: No module named 'flash_attn'\"")

    assert found.id == "flash-attn-not-installed"
    assert "another one" in found.remedies[0].title


def test_what_the_message_itself_asks_for_is_not_there() -> None:
    found = first("ImportError: No module named 'flash_attn', please install flash-attn 2.7.4")

    assert "another one" not in found.remedies[0].title
