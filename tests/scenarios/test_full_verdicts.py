"""A full examination on one node is known to every other that looks at files of the same environment alone."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.fleet.hooks import Hook, Places, written
from attn_doctor.formats import full_verdict_v1
from attn_doctor.model.full_verdict import FullFinding, FullVerdict
from attn_doctor.probe.packages.content_key import content_key
from attn_doctor.workflows import full_verdicts
from tests.conftest import CHECKOUT, Doctor, Environment, clean_environment, command, make_environment

ILL = (FullFinding(id="x-transformers-rotary-fp32", severity="error", title="the rotary embedding is in fp32"),)


@pytest.fixture
def patient(tmp_path: Path) -> Environment:
    """An environment in which files show nothing wrong."""
    made = make_environment(tmp_path / "train")
    made.metadata("torch", "2.13.0")
    return made


def kept(folder: Path, env: Environment, *findings: FullFinding, gpus: tuple[str, ...] = ()) -> Path:
    """A verdict of a full examination on node17."""
    folder.mkdir(parents=True, exist_ok=True)
    verdict = FullVerdict(
        content=content_key(env.folder), node="node17", created="2026-11-21T05:00:00+00:00", prefix=str(env.folder),
        compute_capability=gpus, exit_status=int(bool(findings)), findings=findings, doctor_version="1",
    )  # fmt: skip
    file = folder / full_verdicts.file_name(verdict)
    file.write_text(full_verdict_v1.dumps(verdict))
    file.chmod(0o644)
    return file


def test_an_ill_environment_is_known_from_files_alone(doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
    """check --quick, status and merge say what node17 found, and gate by it; before, they say that nobody looked."""
    reports = tmp_path / "reports"
    quick = ("check", "--quick", "--python", patient.python, "--output", f"{reports}/", "--format", "text")
    before = doctor(*quick)
    assert (before.status, "no full examination of it is known" in before.stdout) == (0, True)
    kept(reports / "verdicts", patient, *ILL)
    after = doctor(*quick)
    assert after.status == 1
    assert "examined in full on node17 on 2026-11-21: error x-transformers-rotary-fp32" in " ".join(
        after.stdout.split()
    )
    status = doctor("status", "--from", reports)
    assert status.status == 1
    assert "examined in full on node17" in status.stdout
    merged = json.loads(doctor("fleet", "merge", reports, "--json").stdout)
    assert [(one["id"], one["gates"]) for one in merged["findings"]] == [("x-transformers-rotary-fp32", True)]


def test_a_healthy_verdict(doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
    """It is said, and nothing gates; status answers of the environment alone."""
    kept(tmp_path / "verdicts", patient)
    run = doctor("status", "--python", patient.folder, "--verdicts", tmp_path / "verdicts")
    assert (run.status, "examined in full on node17 on 2026-11-21: no error" in run.stdout) == (0, True)
    other = doctor("status", "--python", patient.python, env={"ATTN_DOCTOR_VERDICTS": str(tmp_path / "verdicts")})
    assert other.status == 0


def test_whatever_is_installed_since_needs_a_new_one(doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
    """The verdict is that of the content: another package, another version, a package less."""
    kept(tmp_path / "verdicts", patient)
    patient.metadata("einops", "0.8.1")
    run = doctor("status", "--python", patient.folder, "--verdicts", tmp_path / "verdicts")

    assert run.status == 3
    assert "no full examination of it is known" in run.stdout


@pytest.mark.parametrize("spoiled", ["file", "folder", "content", "link"])
def test_only_what_nobody_else_can_write_counts(
    doctor: Doctor, patient: Environment, tmp_path: Path, spoiled: str
) -> None:
    """A verdict that somebody may have planted says nothing, neither ill nor healthy."""
    folder = tmp_path / "verdicts"
    file = kept(folder, patient)
    if spoiled == "file":
        file.chmod(0o666)
    elif spoiled == "folder":
        folder.chmod(0o777)
    elif spoiled == "content":
        file.write_text(file.read_text().replace('"content":"', '"content":"0'))
    else:
        there = tmp_path / "elsewhere"
        there.mkdir()
        file.rename(there / "x.json")
        file.symlink_to(there / "x.json")
    run = doctor("status", "--python", patient.folder, "--verdicts", folder)

    assert run.status == 3


def test_other_gpus_are_another_question(patient: Environment, tmp_path: Path) -> None:
    """A verdict counts for nodes with GPUs like those that it was made with; who does not know takes the worse."""
    folder = tmp_path / "verdicts"
    kept(folder, patient, gpus=("9.0",))
    kept(folder, patient, *ILL, gpus=("10.0",))

    def ill(here: tuple[str, ...] | None) -> bool | str:
        known = full_verdicts.find(folder, patient.folder, here)
        return known.verdict.ill if known.verdict is not None else known.why

    assert (ill(("9.0",)), ill(("10.0",)), ill(None)) == (False, True, True)
    assert "with other GPUs" in str(ill(("8.0",)))


def test_the_key_costs_milliseconds(tmp_path: Path) -> None:
    """300 distributions within 50 ms; the same content gives the same key, and each change another."""
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    for number in range(300):
        info = site / f"package_{number}-1.{number}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text("x" * number)
    times, keys = [], set()
    for _ in range(5):
        begun = time.process_time()
        keys.add(content_key(tmp_path / "env"))
        times.append(time.process_time() - begun)

    assert min(times) < 0.05
    assert len(keys) == 1
    (site / "package_7-1.7.dist-info" / "RECORD").write_text("another")
    (site / "new.pth").write_text("/x")
    assert content_key(tmp_path / "env") not in keys
    assert content_key(tmp_path / "nothing") == ""


def test_a_full_check_keeps_it(doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
    """Of what is there: not of assumptions, of a part, or of files alone."""
    folder = tmp_path / "verdicts"
    full = ("check", "--python", patient.python, "--verdicts", folder)
    for partial in (("--quick",), ("--gpu", "h100"), ("--only", "torch"), ("--no-samples",)):
        doctor(*full, *partial)
        assert not folder.exists() or not list(folder.iterdir())
    run = doctor(*full)
    (file,) = folder.iterdir()
    stored = full_verdict_v1.loads(file.read_text())
    assert (stored.content, bool(stored.errors)) == (content_key(patient.folder), run.status == 1)


def prolog(tmp_path: Path, patient: Environment, verdicts: object, **env: str) -> tuple[Any, float]:
    """The task prolog with GATE=yes, and its seconds."""
    places = Places(version="1", doctor=tuple(command()), python="", verdicts=str(verdicts))
    text = written(Hook.SLURM_TASKPROLOG, places)["slurm-taskprolog.sh"].replace("GATE=no", "GATE=yes")
    script = tmp_path / "prolog.sh"
    script.write_text(text)
    begun = time.monotonic()
    done = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, timeout=60, cwd=CHECKOUT,
        env=clean_environment(VIRTUAL_ENV=str(patient.folder), **env),
    )  # fmt: skip
    return done, time.monotonic() - begun


def test_a_task_prolog_reads_it(patient: Environment, tmp_path: Path) -> None:
    """An ill environment's task is stopped with the reason, a healthy one's runs; nothing is examined for it."""
    folder = tmp_path / "verdicts"
    file = kept(folder, patient, *ILL)
    done, _ = prolog(tmp_path, patient, folder)
    assert done.returncode == 1
    assert "print [user_problem] attn-doctor " in done.stdout
    assert "node17" in done.stdout
    file.unlink()
    kept(folder, patient)
    done, _ = prolog(tmp_path, patient, folder)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_share_that_is_dead_lets_the_job_run(patient: Environment, tmp_path: Path) -> None:
    """Two seconds, and the task runs: a doctor that cannot read has nothing against it."""
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    places = Places(version="1", doctor=(str(hangs),), python=str(patient.folder), verdicts="/dead/share")
    script = tmp_path / "prolog.sh"
    script.write_text(written(Hook.SLURM_TASKPROLOG, places)["slurm-taskprolog.sh"].replace("GATE=no", "GATE=yes"))
    begun = time.monotonic()
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (0, "")
    assert time.monotonic() - begun < 5
