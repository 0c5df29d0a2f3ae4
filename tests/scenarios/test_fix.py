"""`attn-doctor fix` and `undo` as a person uses them: whole cases, end to end, with real installers."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import (
    CHECKOUT,
    HAS_TORCH,
    Doctor,
    Environment,
    clean_environment,
    command,
    make_environment,
    run_here,
)
from tests.scenarios.test_trace import MODEL

CONFIG = (
    b"# flash_attn: fa2\r\nstage: sft\r\nfinetuning_type: lora\r\nmodel_name_or_path: Qwen/Qwen2.5-7B\r\n"
    b"flash_attn: 'fa2'  # fast\r\nnote: flash_attn fa2"
)
MENDED = CONFIG.replace(b"'fa2'", b"'auto'")
ROTARY = "x-transformers-rotary-fp32"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration in a project of its own."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    file = folder / "train.yaml"
    file.write_bytes(CONFIG)
    file.chmod(0o640)
    return file


@pytest.fixture
def patient(environment: Callable[..., Environment]) -> Environment:
    """A healthy environment."""
    return environment()


def seen(folder: Path) -> dict[str, str]:
    """Every file outside of __pycache__ and of our own folder, with mode and digest."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not {"__pycache__", ".attn-doctor"} & set(path.parts)
    }


class TestConfigurations:
    """A safe cure."""

    def test_mended_proven_and_undone(self, doctor: Doctor, patient: Environment, config: Path) -> None:
        """--yes takes it; a second time there is nothing to do; undo brings every byte and the mode back."""
        arguments = ("fix", "--quick", "--yes", "--python", patient.python, "--config", config)
        first = doctor(*arguments)

        assert (first.status, config.read_bytes()) == (0, MENDED)
        assert "Fixed, confirmed by a new check: llamafactory-fa2-without-half" in first.stdout
        assert config.stat().st_mode & 0o777 == 0o640
        again = doctor(*arguments)
        assert (again.status, config.read_bytes()) == (0, MENDED)
        assert "Nothing to change" in again.stdout
        undone = doctor("undo", "--python", patient.python, "--config", config)
        assert (undone.status, config.read_bytes()) == (0, CONFIG)
        listed = doctor("undo", "--list", "--python", patient.python, "--config", config).stdout
        assert "undone" in listed
        assert "llamafactory-fa2-without-half" in listed

    def test_a_dry_run_changes_nothing(self, doctor: Doctor, patient: Environment, config: Path) -> None:
        """It shows the very lines."""
        before = seen(config.parent), seen(patient.folder)
        run = doctor("fix", "--quick", "--dry-run", "--python", patient.python, "--config", config)

        assert run.status == 0
        assert "-flash_attn: 'fa2'  # fast" in run.stdout
        assert "+flash_attn: 'auto'  # fast" in run.stdout
        assert (seen(config.parent), seen(patient.folder)) == before
        assert not (config.parent / ".attn-doctor").exists()

    def test_nobody_to_ask(self, doctor: Doctor, patient: Environment, config: Path) -> None:
        """Without a terminal and without --yes it does not even start."""
        run = doctor("fix", "--quick", "--python", patient.python, "--config", config)

        assert (run.status, config.read_bytes()) == (2, CONFIG)
        assert "--yes" in run.stderr

    @pytest.mark.parametrize(("answer", "status", "after"), [("y", 0, MENDED), ("n", 1, CONFIG), ("", 1, CONFIG)])
    def test_a_person_is_asked(
        self, patient: Environment, config: Path, answer: str, status: int, after: bytes
    ) -> None:
        """Anything but yes declines."""
        ours, theirs = pty.openpty()
        done = subprocess.Popen(
            command("fix", "--quick", "--python", patient.python, "--config", config),
            stdin=theirs,
            stdout=subprocess.PIPE,
            cwd=CHECKOUT,
            env=clean_environment(),
        )
        os.write(ours, f"{answer}\n".encode())
        output, _ = done.communicate(timeout=120)
        os.close(ours)
        os.close(theirs)

        assert (done.returncode, config.read_bytes()) == (status, after)
        assert b"[y/N]" in output

    def test_a_plan_is_reviewed_and_carried_out_later(
        self, doctor: Doctor, patient: Environment, config: Path, tmp_path: Path
    ) -> None:
        """Twice the same bytes; carried out as it stands; refused where the file is another one by now."""
        plans = [tmp_path / "one.json", tmp_path / "two.json"]
        for plan in plans:
            saved = doctor("fix", "--quick", "--save-plan", plan, "--python", patient.python, "--config", config)
            assert (saved.status, config.read_bytes()) == (0, CONFIG)
        assert plans[0].read_bytes() == plans[1].read_bytes()

        config.write_bytes(CONFIG + b"\r\n")
        stale = doctor("fix", "--quick", "--yes", "--plan", plans[0])
        assert (stale.status, config.read_bytes()) == (3, CONFIG + b"\r\n")
        assert "changed since" in stale.stderr

        config.write_bytes(CONFIG)
        done = doctor("fix", "--quick", "--yes", "--plan", plans[0])
        assert (done.status, config.read_bytes()) == (0, MENDED)

    def test_a_plan_whose_facts_have_changed(
        self, doctor: Doctor, patient: Environment, config: Path, tmp_path: Path
    ) -> None:
        """It says which fact, and changes nothing."""
        plan = tmp_path / "plan.json"
        doctor("fix", "--quick", "--save-plan", plan, "--python", patient.python, "--config", config)
        config.write_bytes(CONFIG.replace(b"flash_attn: 'fa2'", b"flash_attn: 'fa2'\r\nbf16: true"))
        before = config.read_bytes()
        run = doctor("fix", "--quick", "--yes", "--plan", plan)

        assert (run.status, config.read_bytes()) == (3, before)
        assert "half_precision: was none, is bf16" in run.stderr

    def test_somebody_holds_the_lock(self, doctor: Doctor, patient: Environment, config: Path) -> None:
        """Who it is, and nothing changed; --wait waits."""
        doctor("fix", "--quick", "--yes", "--python", patient.python, "--config", config)
        doctor("undo", "--python", patient.python, "--config", config)
        holding = (
            "import time, pathlib, sys\nfrom attn_doctor.fix.journal.journal import held\n"
            f"with held((pathlib.Path({str(config.parent)!r}),)):\n    print('held', flush=True)\n    time.sleep(60)\n"
        )
        other = subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE, cwd=CHECKOUT)
        assert other.stdout is not None
        other.stdout.readline()
        try:
            run = doctor("fix", "--quick", "--yes", "--python", patient.python, "--config", config)
        finally:
            other.kill()
            other.wait()

        assert (run.status, config.read_bytes()) == (3, CONFIG)
        assert f"process {other.pid}" in run.stderr

    def test_killed_and_taken_up_again(self, doctor: Doctor, patient: Environment, config: Path) -> None:
        """A run that was cut off stands in the way of the next; --resume finishes it."""
        killing = (
            "import os, signal, sys\nfrom attn_doctor.fix.journal import journal\n"
            "def stop(name):\n    if name == 'after swapping':\n        os.kill(os.getpid(), signal.SIGKILL)\n"
            "journal.boundary = stop\nfrom attn_doctor.cli.main import main\n"
            "sys.exit(main(as_module=True))\n"
        )
        arguments = ["fix", "--quick", "--yes", "--python", str(patient.python), "--config", str(config)]
        killed = subprocess.run(
            [sys.executable, "-c", killing, *arguments],
            cwd=CHECKOUT,
            env=clean_environment(),
            capture_output=True,
            timeout=120,
        )
        assert killed.returncode == -signal.SIGKILL
        blocked = doctor(*arguments)
        assert (blocked.status, config.read_bytes()) == (3, CONFIG)
        assert "--resume" in blocked.stderr
        resumed = doctor("fix", "--quick", "--resume", "--python", patient.python, "--config", config)

        assert (resumed.status, config.read_bytes()) == (0, MENDED)
        assert [path.name for path in config.parent.iterdir() if "attn-doctor" in path.name] == [".attn-doctor"]

    def test_ended_by_the_scheduler(self, patient: Environment, config: Path) -> None:
        """SIGTERM while it examines again: put back, 143."""
        waiting = (
            "import sys, time\nimport attn_doctor.fix.journal.run_plan as c\n"
            "def slow(*a, **k):\n    print('changed', flush=True)\n    time.sleep(60)\n"
            "c.troubles = slow\nfrom attn_doctor.cli.main import main\nsys.exit(main(as_module=True))\n"
        )
        arguments = ["fix", "--quick", "--yes", "--python", str(patient.python), "--config", str(config)]
        running = subprocess.Popen(
            [sys.executable, "-c", waiting, *arguments], cwd=CHECKOUT, env=clean_environment(), stdout=subprocess.PIPE
        )
        assert running.stdout is not None
        for line in running.stdout:
            if line == b"changed\n":
                break
        assert config.read_bytes() == MENDED
        running.terminate()

        assert running.wait(60) == 143
        assert config.read_bytes() == CONFIG

    def test_a_configuration_reached_through_a_link(
        self, doctor: Doctor, patient: Environment, config: Path, tmp_path: Path
    ) -> None:
        """The file itself is edited, and the link stays one."""
        link = tmp_path / "link.yaml"
        link.symlink_to(config)
        run = doctor("fix", "--quick", "--yes", "--python", patient.python, "--config", link)

        assert (run.status, config.read_bytes(), link.is_symlink()) == (0, MENDED, True)


def test_a_healthy_environment(doctor: Doctor, patient: Environment) -> None:
    """Nothing changes, it says so, and ends with 0."""
    before = seen(patient.folder)
    run = doctor("fix", "--quick", "--yes", "--unsafe-fixes", "--python", patient.python)

    assert run.status == 0
    assert "Nothing to change" in run.stdout
    assert seen(patient.folder) == before
    assert not (patient.folder / ".attn-doctor").exists()


def _wheel(folder: Path, name: str, version: str, files: dict[str, str], *requires: str) -> Path:
    """A wheel written by hand."""
    info = f"{name}-{version}.dist-info"
    metadata = "\n".join(
        [
            "Metadata-Version: 2.1",
            f"Name: {name.replace('_', '-')}",
            f"Version: {version}",
            *(f"Requires-Dist: {r}" for r in requires),
        ]
    )
    contents = {
        **files,
        f"{info}/METADATA": metadata + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text.encode())}\n"
        for path, text in contents.items()
    )
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return file


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel house: two releases of x-transformers, the later one with other files, and two of torch."""
    folder = tmp_path_factory.mktemp("wheels")
    _wheel(
        folder,
        "x_transformers",
        "1.30.1",
        {"x_transformers/__init__.py": "a = 1\n", "x_transformers/old.py": "b = 1\n"},
        "torch",
    )
    _wheel(
        folder,
        "x_transformers",
        "1.30.2",
        {"x_transformers/__init__.py": "a = 2\n", "x_transformers/new/__init__.py": "c = 1\n"},
        "torch",
    )
    _wheel(folder, "x_transformers", "1.31.0", {"x_transformers/__init__.py": "a = 3\n"}, "torch>=2.13")
    _wheel(folder, "torch", "2.12.0", {"torch/version.py": "__version__ = '2.12.0'\ncuda = None\n"})
    _wheel(folder, "torch", "2.13.0", {"torch/version.py": "__version__ = '2.13.0'\ncuda = None\n"})
    return folder


def _uv() -> str | None:
    own = Path(sys.executable).with_name("uv")
    return str(own) if own.exists() else shutil.which("uv")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """An environment with pip, torch 2.12.0 and x-transformers 1.30.1, to be copied."""
    folder = tmp_path_factory.mktemp("template") / "environment"
    make_environment(folder, empty=True).pip()
    line = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels]
    subprocess.run(
        [*map(str, line), "torch==2.12.0", "x-transformers==1.30.1"], check=True, timeout=120, env=_offline(wheels)
    )
    return folder


def _offline(wheels: Path) -> dict[str, str]:
    """No index, no network: only the wheel house."""
    return clean_environment(
        PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS=str(wheels), PIP_EXTRA_INDEX_URL=None,
        UV_NO_CONFIG="1",
        HTTPS_PROXY="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9",
    )  # fmt: skip


class TestPackages:
    """An unsafe cure, with real installers, offline."""

    @pytest.fixture
    def patient(self, template: Path, tmp_path: Path) -> Environment:
        folder = tmp_path / "environment"
        shutil.copytree(template, folder, symlinks=True)
        site = next(folder.glob("lib/python3*/site-packages"))
        return Environment(folder=folder, python=folder / "bin/python", site=site)

    def fix(self, doctor: Doctor, patient: Environment, wheels: Path, *arguments: object) -> tuple[int, str, str]:
        environment = {key: value for key, value in _offline(wheels).items() if key.startswith(("PIP_", "UV_", "HTTP"))}
        if _uv():
            environment["PATH"] = f"{Path(str(_uv())).parent}:{os.environ['PATH']}"
        arguments = (*arguments, "--no-index", "--find-links", wheels)
        run = doctor(
            "fix", "--quick", "--python", patient.python, *arguments, env={"PIP_EXTRA_INDEX_URL": None, **environment}
        )
        return run.status, run.stdout, run.stderr

    @pytest.fixture(params=["pip", "uv"])
    def installer(self, request: pytest.FixtureRequest) -> str:
        if request.param == "uv" and not _uv():
            pytest.skip("no uv here")
        return str(request.param)

    def test_replaced_proven_and_undone(
        self, doctor: Doctor, patient: Environment, wheels: Path, installer: str
    ) -> None:
        """1.30.1 becomes 1.30.2, which changes one function, so --yes takes it; torch stays; undone without any
        installer and with an interpreter that is broken, every byte is as it was."""
        before = seen(patient.folder)
        status, said, told = self.fix(doctor, patient, wheels, "--yes", "--only", ROTARY, "--installer", installer)
        after = seen(patient.folder)

        assert (status, told) == (0, "")
        assert "x-transformers 1.30.1 -> 1.30.2" in said
        assert (patient.site / "x_transformers/__init__.py").read_text() == "a = 2\n"
        assert {name: after.get(name) for name in before if "torch/" in name or "torch-" in name} == {
            name: text for name, text in before.items() if "torch/" in name or "torch-" in name
        }
        again, said, _ = self.fix(
            doctor, patient, wheels, "--yes", "--only", ROTARY, "--installer", installer, "--json"
        )
        assert (again, seen(patient.folder)) == (0, after)
        assert json.loads(said)["outcome"] == "nothing-to-fix"
        patient.python.unlink()
        patient.python.symlink_to("/nonexistent/python")
        undone = doctor("undo", "--python", patient.python, env={"PATH": "/nonexistent"})
        assert (undone.status, seen(patient.folder)) == (0, before)

    @pytest.mark.parametrize("linked", ["environment", "site-packages"])
    def test_reached_through_a_link(
        self, doctor: Doctor, patient: Environment, wheels: Path, tmp_path: Path, installer: str, linked: str
    ) -> None:
        """Behind a link to a place with a name that is not plain it is cured and undone, also by pip, which takes
        nothing out of linked site-packages itself."""
        folder = patient.folder if linked == "environment" else patient.site
        real = tmp_path / "elsewhere ü"
        folder.rename(real)
        folder.symlink_to(real)
        before = seen(real)
        status, said, told = self.fix(
            doctor, patient, wheels, "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", installer
        )
        assert (status, told) == (0, ""), said
        assert (patient.site / "x_transformers/__init__.py").read_text() == "a = 2\n"
        undone = doctor("undo", "--python", patient.python)
        assert (undone.status, seen(real), folder.is_symlink()) == (0, before, True)

    def test_what_the_status_counts_is_named(self, doctor: Doctor, patient: Environment, wheels: Path) -> None:
        """A dry run ends as `check` does; an error that --only keeps out of the plan is said to be there."""
        (patient.site / "torch/version.py").write_text("__version__ = '2.12.0+cpu'\ncuda = None\nhip = None\n")
        status, said, _ = self.fix(doctor, patient, wheels, "--dry-run", "--gpu", "h100", "--only", "import-hangs")

        assert (status, "\nNothing to change." in said) == (1, True)
        assert "Not asked about here, and an error all the same: torch-cpu-build" in said

    def test_whose_torch_uv_would_pick(self, doctor: Doctor, patient: Environment) -> None:
        """For a GPU that is elsewhere uv's choice by this node is none: it is asked for a build by its name."""
        if not _uv():
            pytest.skip("no uv here")
        (patient.site / "torch/version.py").write_text("__version__ = '2.12.0+cpu'\ncuda = None\nhip = None\n")
        words = ("--dry-run", "--unsafe-fixes", "--installer", "uv", "--gpu", "h100")
        path = {"PATH": f"{Path(str(_uv())).parent}:{os.environ['PATH']}", "HTTPS_PROXY": "http://127.0.0.1:9"}
        run = doctor("fix", "--quick", "--python", patient.python, *words, "--only", "torch-cpu-build", env=path)

        assert "/cu130/" in run.stdout  # which no proxy leads to
        assert "install with" not in run.stdout

    def test_unsafe_is_not_taken_unasked(self, doctor: Doctor, patient: Environment, wheels: Path) -> None:
        """--yes alone leaves what changes more than one function, says how to get it, and ends with 1."""
        before = seen(patient.folder)
        newer = f"{ROTARY}=newer-release"
        status, said, _ = self.fix(doctor, patient, wheels, "--yes", "--only", ROTARY, "--remedy", newer)

        assert (status, seen(patient.folder)) == (1, before)
        assert "--unsafe-fixes" in said

    def test_torch_stays_where_the_plan_does_not_name_it(
        self, doctor: Doctor, patient: Environment, wheels: Path, installer: str
    ) -> None:
        """A later release would bring another torch: the constraint keeps it out, and the older one is taken."""
        before = seen(patient.folder)
        status, said, told = self.fix(
            doctor, patient, wheels, "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", installer,
            "--remedy", f"{ROTARY}=newer-release",
        )  # fmt: skip

        assert (status, told) == (0, ""), said
        assert "1.30.1 -> 1.30.2" in said
        assert {name: text for name, text in seen(patient.folder).items() if "torch/" in name} == {
            name: text for name, text in before.items() if "torch/" in name
        }

    def test_a_program_that_runs_from_it(self, doctor: Doctor, patient: Environment, wheels: Path) -> None:
        """Packages do not change under a running program, unless told so."""
        running = subprocess.Popen([str(patient.python), "-c", "import time; time.sleep(60)"])
        try:
            status, _, told = self.fix(doctor, patient, wheels, "--yes", "--unsafe-fixes", "--only", ROTARY)
            allowed, _, _ = self.fix(
                doctor, patient, wheels, "--yes", "--unsafe-fixes", "--only", ROTARY, "--even-if-used"
            )
        finally:
            running.kill()
            running.wait()

        assert (status, allowed) == (3, 0)
        assert f"process {running.pid}" in told

    def test_two_at_once(self, doctor: Doctor, patient: Environment, wheels: Path, installer: str) -> None:
        """One changes it; the other waits, looks again and has nothing to change; neither is in the way."""
        arguments = ("--yes", "--unsafe-fixes", "--only", ROTARY, "--wait", "120", "--installer", installer)
        with ThreadPoolExecutor() as both:
            ends = [both.submit(self.fix, doctor, patient, wheels, *arguments) for _ in range(2)]
        (one, said, told), (other, also_said, also_told) = (end.result() for end in ends)

        assert (one, other) == (0, 0), told + also_told
        assert sorted("Fixed, confirmed by a new check" in words for words in (said, also_said)) == [False, True]
        assert "Nothing to change" in said + also_said
        assert len(list((patient.folder / ".attn-doctor/runs").iterdir())) == 1

    def test_an_installer_that_finds_nothing(self, doctor: Doctor, patient: Environment, tmp_path: Path) -> None:
        """Its own last words are the reason why the finding is left."""
        before = seen(patient.folder)
        empty = tmp_path / "empty"
        empty.mkdir()
        status, said, _ = self.fix(
            doctor, patient, empty, "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", "pip"
        )

        assert (status, seen(patient.folder)) == (3, before)
        assert "No matching distribution" in said
        assert "could not be had" in said

    def test_killed_at_random_instants(self, doctor: Doctor, patient: Environment, wheels: Path) -> None:
        """SIGKILL while a real pip works: pip dies too, and undo brings every byte back."""
        before = seen(patient.folder)
        arguments = command(
            "fix",
            "--quick",
            "--yes",
            "--unsafe-fixes",
            "--only",
            ROTARY,
            "--installer",
            "pip",
            "--python",
            patient.python,
        )
        for tenths in (2, 3, 4):
            running = subprocess.Popen(arguments, cwd=CHECKOUT, env=_offline(wheels), stdout=subprocess.DEVNULL)
            journals = patient.folder / ".attn-doctor/runs"
            _wait_for(
                lambda journals=journals: any(
                    '"begun"' in file.read_text()
                    for file in journals.glob("*/journal.jsonl")
                    if '"undone"' not in file.read_text()
                )
            )
            time.sleep(tenths / 10)
            running.kill()
            running.wait()
            doctor("undo", "--python", patient.python)
            assert seen(patient.folder) == before


def _wait_for(holds: Callable[[], bool], limit: float = 60.0) -> None:
    until = time.monotonic() + limit
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(0.005)
    pytest.fail("nothing happened")


@pytest.mark.skipif(not HAS_TORCH, reason="the Python that runs the tests has no torch")
class TestTracedCall:
    """The call that a trace named."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "model.py").write_text(MODEL)
        make_environment(tmp_path / "patient", torch=True)
        return folder

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        # An environment of its own: the one that runs the tests must be nobody's patient.
        return run_here(*arguments, "--python", folder.parent / "patient", cwd=folder)

    def test_patched_runs_clean_and_undone(self, project: Path) -> None:
        """From the trace alone: q and k are cast at the call, the traced run is clean, undo restores the bytes."""
        fixed = self.run(project, "fix", "--trace", "model.py:broken", "--autocast", "fp16", "--yes",
                         "--only", "fp32-promoted-before-kernel")  # fmt: skip
        after = (project / "model.py").read_text()
        traced = self.run(project, "trace", "model.py:broken", "--autocast", "fp16", "--json")
        undone = self.run(project, "undo")

        assert (fixed.returncode, fixed.stderr) == (0, "")
        assert after == MODEL.replace("flash_attn_func(q, k, v)", "flash_attn_func(q.to(v.dtype), k.to(v.dtype), v)")
        assert traced.returncode == 0
        assert json.loads(traced.stdout)["trace"]["attention"][0]["verdict"] == "clean"
        assert (undone.returncode, (project / "model.py").read_text()) == (0, MODEL)

    def test_a_run_that_does_not_end_is_no_proof(self, project: Path) -> None:
        """Where the mended program fails over something else, the edit is put back."""
        source = MODEL.replace(".flatten(2)\n", ".flatten(2).no_such_method()\n")
        (project / "model.py").write_text(source)
        fixed = self.run(project, "fix", "--trace", "model.py:broken", "--autocast", "fp16", "--yes", "--unsafe-fixes",
                         "--only", "fp32-promoted-before-kernel")  # fmt: skip

        assert (fixed.returncode, (project / "model.py").read_text()) == (4, source)
        assert "does not come to its end" in fixed.stderr


@pytest.mark.registry
@pytest.mark.parametrize("installer", ["pip", pytest.param("uv", marks=pytest.mark.heavy)])
def test_real_releases_from_the_registry(doctor: Doctor, tmp_path: Path, installer: str) -> None:
    """x-transformers 1.30.1 becomes 1.30.2 and, offline, 1.30.1 again with every hash as before."""
    env = make_environment(tmp_path / "environment", torch=HAS_TORCH)
    env.pip()
    packages = ["x-transformers==1.30.1", *(["uv"] if installer == "uv" else [])]
    done = subprocess.run(
        # What the Python of the tests has is seen from there, and is not there.
        [str(env.python), "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", *packages],
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    before = seen(env.folder)
    run = doctor(
        "fix", "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", installer, "--python", env.python,
        "--timeout", 120,
        limit=400,
    )  # fmt: skip
    checked = doctor.check(env, "--quick")

    assert (run.status, run.stderr) == (0, ""), run.stdout
    assert f"install with {installer}" in run.stdout
    assert checked.fact("package.x-transformers.version") == "1.30.2"
    undone = doctor("undo", "--python", env.python, env={"HTTPS_PROXY": "http://127.0.0.1:9", "PATH": "/nonexistent"})
    assert (undone.status, seen(env.folder)) == (0, before)
