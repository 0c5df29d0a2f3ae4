"""Where an installer took a package from, and what a failed build of such a folder is told to do."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.installed_from import installed_from
from attn_doctor.model.facts import FactSet
from attn_doctor.workflows.explain import ExplainRequest, explain

FAILED = """Processing {folder}
  Preparing metadata (setup.py) ... done
Building wheels for collected packages: {name}
  Building wheel for {name} (setup.py) ... error
Failed to build {name}
ERROR: Could not build wheels for {name}, which is required to install pyproject.toml-based projects"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Processing ./kernels/rows", [("log.source_folder", "./kernels/rows")]),
        (r"Processing c:\users\me\repositories\rows", [("log.source_folder", r"c:\users\me\repositories\rows")]),
        ("Obtaining file:///home/me/rows", [("log.source_folder", "/home/me/rows")]),
        ("Processing /tmp/rows-1.0-py3-none-any.whl", []),
        (
            "pip install git+https://github.com/me/rows/#subdirectory=bindings/torch",
            [("log.fetched_from", "git+https://github.com/me/rows/#subdirectory=bindings/torch")],
        ),
        (
            "Collecting git+https://github.com/me/rows.git@v1#egg=rows",
            [("log.fetched_from", "git+https://github.com/me/rows.git@v1")],
        ),
        ("Processing dependencies for rows==1.0", []),
        ("Obtaining file:///C:/Users/me/rows", [("log.source_folder", "C:/Users/me/rows")]),
        ("Obtaining file:///w/rows#egg=rows", [("log.source_folder", "/w/rows")]),
        ("Processing /w/rows.gz_x", [("log.source_folder", "/w/rows.gz_x")]),
        ("Processing /home/u/rows-1.0.tgz", []),
        ("Processing /home/u/rows-1.0.tar.xz", []),
        ("Processing /data/images/1.png ...", []),
        ("Processing /a/b: 100%|####| 3/3", []),
        ("Processing /workspace/data/sample.json", []),
        (
            "  Successfully uninstalled torch-2.8.0a0+5228986c39.nv25.6",
            [("log.vendors_torch_gone", "2.8.0a0+5228986c39.nv25.6")],
        ),
        (
            "      Successfully uninstalled torch-2.6.0+cu124",
            [("log.torch_gone", "2.6.0"), ("log.torch_gone_build", "cu124")],
        ),
        ("      Successfully uninstalled torch-2.6.0", []),
        ("/w/.venv/bin/python: No module named pip", [("log.without_pip", "python")]),
        ("ModuleNotFoundError: No module named pip_audit", []),
        (
            "Collecting git+https://github.com/lab/rows.git",
            [("log.fetched_from", "git+https://github.com/lab/rows.git")],
        ),
    ],
)
def test_a_folder_and_a_repository(line: str, told: list[tuple[str, str]]) -> None:
    assert list(installed_from(line)) == told


def _commands(text: str) -> list[str]:
    (first, *_) = explain(ExplainRequest(texts=(text,))).diagnosis.findings
    return [command for one in first.remedies for action in one.actions for command in action.commands]


def test_a_folder_s_package_is_built_from_the_folder_and_not_fetched_by_its_name() -> None:
    """What a registry has under that name may be anything."""
    commands = _commands("torch 2.1.0+cu121\n" + FAILED.format(folder="./kernels/quant_rows", name="quant-rows-cuda"))

    assert any(command.endswith("--no-deps . 2>&1 | tee build.log") for command in commands)
    assert not any("quant" in command for command in commands)


def test_a_second_folder_changes_nothing_of_it() -> None:
    """Its package is fetched by no name either."""
    commands = _commands("torch 2.1.0+cu121\nProcessing ./rows-a\n" + FAILED.format(folder="./rows-b", name="rows-b"))

    assert any(command.endswith("--no-deps . 2>&1 | tee build.log") for command in commands)
    assert not any("rows" in command for command in commands)


def test_a_folder_built_without_torch_is_installed_from_the_folder() -> None:
    commands = _commands(
        "Obtaining file:///home/u/moon\n  Preparing metadata (pyproject.toml) ... error\n"
        "  ModuleNotFoundError: No module named 'torch'\nerror: metadata-generation-failed"
    )

    assert "python -m pip install --no-build-isolation --no-deps ." in commands
    assert not any(command.endswith("moon") for command in commands)


def test_a_package_that_the_folder_asks_for_is_fetched_by_its_name() -> None:
    commands = _commands(FAILED.format(folder="./LLaVA", name="flash-attn"))

    assert any("flash-attn" in command for command in commands)


FETCHED = """Processing c:/ComfyUI/my%20project/diff-gaussian-rasterization
Collecting numpy
  Preparing metadata (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error"""
FOLDERS_OWN = """Collecting numpy
  Downloading numpy-2.2.0-cp312-cp312-win_amd64.whl
Processing c:/ComfyUI/my%20project/diff-gaussian-rasterization
  Preparing metadata (setup.py): finished with status 'error'
      ModuleNotFoundError: No module named 'torch'"""
BUILT = """Processing ./rows
Collecting numpy
Building wheels for collected packages: rows
  Building wheel for rows (setup.py): finished with status 'error'"""


@pytest.mark.parametrize(
    ("log", "folder"),
    [
        (FETCHED, None),
        (FOLDERS_OWN, "c:/ComfyUI/my project/diff-gaussian-rasterization"),
        (BUILT, "./rows"),
    ],
    ids=["fetched", "the folder's own", "built"],
)
def test_whose_step_failed(log: str, folder: str | None) -> None:
    """A package that pip fetched for the folder's sake may be the one that fails."""
    assert explain_text(log, (), FactSet()).facts.value("log.source_folder") == folder
