"""Commands in the form of the installer and the shell that a log shows."""

from __future__ import annotations

import pytest

from attn_doctor.fix.packages.shell_forms import formed
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin

ASKED = '"torch==$(python -c \'import torch; print(torch.__version__.split("+")[0])\')"'


def told(**facts: str) -> FactSet:
    named = {"python.executable": "python", **{name.replace("_", ".", 1): value for name, value in facts.items()}}
    return FactSet(
        Fact(name=FactName.parse(name), state=Known(value), how="line 1", origin=Origin.DERIVED)
        for name, value in named.items()
    )


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("python -m pip install x 2>&1 | tee build.log", "python -m pip install x > build.log 2>&1"),
        ("cd /a && rm -r ./b && python -m x", "cd /a; if ($?) { Remove-Item -Recurse ./b; if ($?) { python -m x } }"),
        ("MAX_JOBS=4 python -m pip install x", '$env:MAX_JOBS = "4"; python -m pip install x'),
        ("export MAX_JOBS=4 NVCC_THREADS=2", '$env:MAX_JOBS = "4"; $env:NVCC_THREADS = "2"'),
        ("python -m pip install 'transformers>=4.36,<4.48'", 'python -m pip install "transformers>=4.36,<4.48"'),
        ("python -c \"print(p / 'data' / 'x')\"", "python -c \"print(p / 'data' / 'x')\""),
    ],
)
def test_windows_gets_powershell(command: str, typed: str) -> None:
    assert formed([command], told(node_system="Windows")) == (typed,)


@pytest.mark.parametrize(
    ("asked", "facts", "build"),
    [
        ('"torch>=2.12.1"', {}, "cu126"),
        ('"torch>=2.12.1"', {"gpu_0.compute_capability": "12.0"}, "cu130"),
        ("torch==2.6.0 torchvision torchaudio", {"package_torch.version": "2.8.0+cu128"}, "cu126"),
        ("torch==2.8.0 torchvision", {"package_torch.version": "2.9.1+cu128"}, "cu128"),
    ],
)
def test_a_torch_for_windows_comes_from_its_index(asked: str, facts: dict[str, str], build: str) -> None:
    """Package registries hold the one for CPUs."""
    command = f"python -m pip install {asked}"
    index = f" --index-url https://download.pytorch.org/whl/{build}"

    assert formed([command], told(node_system="Windows", **facts)) == (command + index,)
    assert formed([command], told(node_system="Linux", **facts)) == (command,)


@pytest.mark.parametrize("rest", ["torchvision", "--index-url https://x torch", "-r requirements.txt torch"])
def test_other_requests_stay_as_they_are(rest: str) -> None:
    assert formed([f"python -m pip install {rest}"], told(node_system="Windows")) == (f"python -m pip install {rest}",)


def test_a_pin_of_the_torch_that_is_there_names_no_index() -> None:
    """torch's own index has no transformers: pip would find no release of it."""
    facts = told(node_system="Windows", **{"package_torch.version": "2.6.0+cu124"})
    command = "python -m pip install 'transformers<4.45' torch==2.6.0"
    assert formed([command], facts) == ('python -m pip install "transformers<4.45" torch==2.6.0',)


def test_beside_other_packages_torchs_index_is_an_extra_one() -> None:
    (typed,) = formed(["python -m pip install diffusers torch==2.8.0"], told(node_system="Windows"))
    assert " --extra-index-url https://download.pytorch.org/whl/" in typed


def test_torch_is_held_on_windows_without_a_command_in_a_command() -> None:
    first, then = formed([f"python -m pip install einops {ASKED}"], told(node_system="Windows"))

    assert first.endswith("> torch.txt")
    assert then == "python -m pip install einops -c torch.txt"


@pytest.mark.parametrize(
    ("installer", "typed"),
    [
        ("uv", "A=1 uv pip install --no-cache --no-deps x"),
        ("poetry", "A=1 poetry run python -m pip install --no-cache-dir --no-deps x"),
        ("notebook", "!A=1 python -m pip install --no-cache-dir --no-deps x  # then restart the runtime"),
        ("conda", "A=1 python -m pip install --no-cache-dir --no-deps x"),
    ],
)
def test_an_installer_has_its_own_way(installer: str, typed: str) -> None:
    command = "A=1 python -m pip install --no-cache-dir --no-deps x"

    assert formed([command], told(python_environment=installer)) == (typed,)


@pytest.mark.parametrize(
    ("installer", "python"),
    [
        ("portable", r"python_embeded\python.exe"),
        ("bundled", r"system\python\python.exe"),
        ("venv", r"venv\Scripts\python.exe"),
        ("dotvenv", r".venv\Scripts\python.exe"),
        ("env", r"env\Scripts\python.exe"),
        ("beside", r"python\python.exe"),
        ("installer_files", r"installer_files\env\python.exe"),
        ("runtime", r"runtime\python.exe"),
        ("standalone", r"python_standalone\python.exe"),
    ],
)
def test_a_program_has_its_own_python(installer: str, python: str) -> None:
    facts = told(node_system="Windows", python_environment=installer)

    assert formed(["python -m pip uninstall x"], facts) == (rf".\{python} -m pip uninstall x",)


def test_the_desktop_app_keeps_its_packages_where_it_proposes_to() -> None:
    """A path with a variable is called with an ampersand; on another system its folder is another one."""
    windows = told(node_system="Windows", python_environment="desktop")
    python = r'& "$HOME\Documents\ComfyUI\.venv\Scripts\python.exe"'

    assert formed(["A=1 python -m pip uninstall x"], windows) == (f'$env:A = "1"; {python} -m pip uninstall x',)
    assert formed(["python -m pip uninstall x"], told(python_environment="desktop")) == ("python -m pip uninstall x",)


def test_an_interpreter_that_is_named_keeps_its_path() -> None:
    """On a node that was examined."""
    facts = told(python_environment="uv", python_executable="/venv/bin/python")

    assert formed(["/venv/bin/python -m pip list"], facts) == ("/venv/bin/python -m pip list",)


@pytest.mark.parametrize(
    ("facts", "typed"),
    [
        ({"log_python": "/e/envs/comfy/bin/python3.12"}, "/e/envs/comfy/bin/python3.12 -m pip list"),
        (
            {"log_python": "D:/e/python_env/python.exe", "node_system": "Windows"},
            "D:\\e\\python_env\\python.exe -m pip list",
        ),
        ({"log_python": "/h/.local/share/pipx/venvs/app/bin/python"}, "pipx runpip app list"),
        ({"log_python": "/e/.venv/bin/python", "python_environment": "uv"}, "uv pip list"),
        ({"log_python": "/e/.venv/bin/python", "python_executable": "/v/python"}, "python -m pip list"),
    ],
)
def test_an_interpreter_that_the_log_names_is_taken(facts: dict[str, str], typed: str) -> None:
    assert formed(["python -m pip list"], told(**facts)) == (typed,)
