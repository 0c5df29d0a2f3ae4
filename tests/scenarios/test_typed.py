"""Commands that are printed for a person are typed here as they stand, in another folder and in a bare shell."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, clean_environment

Make = Callable[..., Environment]

#: LLaMA-Factory's two halves at once; its cure is safe.
CONFIG = "model_name_or_path: x\nstage: sft\nfinetuning_type: lora\nbf16: true\nfp16: true\n"
ASKED = ("--unsafe-fixes", "--assume", "gpu.compute_capability=9.0", "--only", "precision-both-halves")


def printed(text: str) -> list[str]:
    """Commands of ours between backticks, after `$ `, and at the end of a sentence."""
    own = rf"(?:\S*attn-doctor|{re.escape(sys.executable)} -m attn_doctor) [a-z].*?"
    return re.findall(rf"(?:`|\$ |: )({own})(?=`|$)", text, re.MULTILINE)


def type_(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """As in a shell of somebody who has changed the folder meanwhile."""
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path / "elsewhere",
        env=clean_environment(PATH="/usr/bin:/bin"),
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration in a project of its own."""
    project = tmp_path / "my project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    file = project / "train.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def patient(environment: Make) -> Environment:
    """The environment that is examined."""
    return environment()


@pytest.fixture
def mended(doctor: Doctor, patient: Environment, config: Path) -> str:
    """What a run of `fix` printed."""
    run = doctor("fix", "--quick", "--yes", "--python", patient.python, "--config", config, *ASKED)
    assert run.status == 0, run.stdout + run.stderr
    assert config.read_text() != CONFIG
    return run.stdout


def test_undo_of_a_run(mended: str, config: Path, tmp_path: Path) -> None:
    """With the interpreter that was named, and a file of the project that keeps the journal."""
    (command,) = printed(mended)
    done = type_(command, tmp_path)

    assert (done.returncode, config.read_text()) == (0, CONFIG), done.stdout + done.stderr


def test_undo_of_what_somebody_changed_since(mended: str, config: Path, tmp_path: Path) -> None:
    """The refusal prints what does it all the same."""
    config.write_text(config.read_text() + "# mine\n")
    refused = type_(printed(mended)[0], tmp_path)
    assert refused.returncode == 3
    (command,) = printed(refused.stderr)

    assert " --force " in command
    assert type_(command, tmp_path).returncode == 0
    assert config.read_text() == CONFIG


@pytest.mark.parametrize("which", ["--resume", "undo"])
def test_both_ways_out_of_a_run_that_was_cut_off(
    mended: str, which: str, config: Path, tmp_path: Path, doctor: Doctor, patient: Environment
) -> None:
    """The next fix prints them."""
    (journal,) = (config.parent / ".attn-doctor" / "runs").glob("*/journal.jsonl")
    kept = [line for line in journal.read_text().splitlines(keepends=True) if '"verified"' not in line]
    journal.write_text("".join(kept))
    other = config.with_name("other.yaml")
    other.write_text(CONFIG)
    refused = doctor("fix", "--quick", "--yes", "--python", patient.python, "--config", other, *ASKED)
    assert refused.status == 3, refused.stdout + refused.stderr
    (command,) = [one for one in printed(refused.stderr) if which in one]
    done = type_(command, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No run was cut off" not in done.stdout
    assert (config.read_text() == CONFIG) is (which == "undo")


def test_cures_of_an_environment_without_pip(doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
    """uv where it is on PATH; without it pip comes first, from the interpreter itself."""
    patient.package("x-transformers", "1.30.1")
    tools = tmp_path / "tools"
    tools.mkdir()
    asked = ("check", "--quick", "--python", patient.python)
    plain = doctor(*asked, env={"PATH": "/usr/bin:/bin"}).stdout
    assert "uv pip" not in plain
    assert f"$ {patient.python} -m ensurepip\n" in plain
    (tools / "uv").write_text('#!/bin/sh\necho "uv $*"\n')
    (tools / "uv").chmod(0o755)
    with_uv = doctor(*asked, env={"PATH": f"{tools}:/usr/bin:/bin"}).stdout

    assert f"$ uv pip install --python {patient.python} --no-deps x-transformers==1.30.2\n" in with_uv
    assert "ensurepip" not in with_uv


@pytest.mark.parametrize("spelled", ["train.yaml", "../my project/train.yaml", "link.yaml"])
def test_a_plan_is_carried_out_from_another_folder(
    patient: Environment, config: Path, tmp_path: Path, spelled: str
) -> None:
    """Relative when it was made, absolute in the plan; a link is the file that it leads to."""
    (config.parent / "link.yaml").symlink_to("train.yaml")
    (config.parent / "env").symlink_to(patient.folder)
    doctor_ = f"{sys.executable} -m attn_doctor fix --quick --unsafe-fixes"
    asked = shlex.join([*ASKED[1:], "--config", spelled, "--python", "env", "--save-plan", "plan.json"])
    saved = type_(f"cd {shlex.quote(str(config.parent))} && {doctor_} {asked}", tmp_path)
    assert (config.parent / "plan.json").is_file(), saved.stderr
    assumed = shlex.join(ASKED[1:3])
    done = type_(f"{doctor_} --yes {assumed} --plan {shlex.quote(str(config.parent / 'plan.json'))}", tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert config.read_text() != CONFIG
