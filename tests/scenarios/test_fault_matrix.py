"""Environments that are broken in one way each: a whole report, the fault named as what it is, the right status."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, Run, needs_torch
from tests.scenarios import stubs
from tests.scenarios.processes import gone

Make = Callable[..., Environment]

#: Seconds that an import may take here; a hang costs this much, and the slowest machine imports torch in it.
LIMIT = 20
SHORT = 3

IMPORT_FAULTS = {
    "raises": (stubs.UNDEFINED_SYMBOL, "failed"),
    "segfaults": (stubs.SEGFAULT, "crashed"),
    "dereferences null": (stubs.NULL_POINTER, "crashed"),
    "leaves": (stubs.LEAVES, "crashed"),
    "hangs": (stubs.HANG, "hung"),
    "hangs in C": (stubs.HANG_IN_C, "hung"),
}
FINDING = {"failed": "import-fails", "crashed": "import-crashes", "hung": "import-hangs"}


def _fake_smi(folder: Path, source: str) -> dict[str, str | None]:
    """PATH with an nvidia-smi in front that is this shell script."""
    folder.mkdir()
    smi = folder / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\n{source}\n")
    smi.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def _nvml_answers() -> bool:
    code = "import pynvml; pynvml.nvmlInit()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


needs_no_driver = pytest.mark.skipif(_nvml_answers(), reason="NVML answers here, so nvidia-smi is not asked")


def _place(run: Run, finding: str) -> str:
    place = run.findings[finding]["locations"][0]
    return f"{place['file']}:{place['line']}"


class TestAPackageThatBreaksOnImport:
    """flash_attn, beside a torch that is fine and beside none."""

    @pytest.mark.parametrize("fault", IMPORT_FAULTS)
    def test_is_named_without_a_torch(self, doctor: Doctor, environment: Make, fault: str) -> None:
        """Raising, crashing, leaving and hanging are four findings, even where there is no torch to import first."""
        source, outcome = IMPORT_FAULTS[fault]
        env = environment()
        file = env.package("flash-attn", "2.8.3", source)

        run = doctor.check(env, "--timeout", SHORT)

        assert run.fact("import.flash_attn.outcome") == outcome
        assert run.findings[FINDING[outcome]]["severity"] == "error"
        assert run.status == 1
        if fault != "leaves":  # os._exit takes everything with it that could tell
            assert _place(run, FINDING[outcome]).startswith(f"{file}:")

    @needs_torch
    @pytest.mark.parametrize("fault", ["raises", "segfaults", "hangs in C"])
    def test_leaves_torch_and_the_sample_alone(self, doctor: Doctor, environment: Make, fault: str) -> None:
        """One broken package takes nothing else along: torch is imported, all four cells of the sample ran."""
        source, outcome = IMPORT_FAULTS[fault]
        env = environment(torch=True)
        env.package("flash-attn", "2.8.3", source)

        # On a busy machine torch itself takes many seconds.
        run = doctor.check(env, "--timeout", 60 if outcome != "hung" else 20)

        assert run.fact("import.flash_attn.outcome") == outcome
        assert run.fact("import.torch.outcome") == "imported"
        assert run.fact("listed.sample") >= 4
        assert run.status == 1

    def test_says_which_symbol_is_missing(self, doctor: Doctor, environment: Make) -> None:
        """The symbol that the loader missed is a fact of its own, not a word in a traceback."""
        env = environment()
        env.package("flash-attn", "2.8.3", stubs.UNDEFINED_SYMBOL)

        run = doctor.check(env)

        assert run.fact("import.flash_attn.undefined_symbol") == "_ZN3c104cuda9SetDeviceEi"

    def test_does_not_stand_for_its_neighbours(self, doctor: Doctor, environment: Make) -> None:
        """With one package for each fault, and one that is fine, every one has its own outcome."""
        env = environment()
        env.package("flash-attn", "2.8.3", stubs.UNDEFINED_SYMBOL)
        env.package("x-transformers", "1.30.2", stubs.NULL_POINTER)
        env.package("sageattention", "2.2.0", stubs.HANG)
        env.package("bitsandbytes", "0.48.0", "__version__ = '0.48.0'")

        run = doctor.check(env, "--timeout", SHORT)

        outcomes = {
            name: run.fact(f"import.{name}.outcome") for name in ("flash_attn", "x_transformers", "sageattention")
        }
        assert outcomes == {"flash_attn": "failed", "x_transformers": "crashed", "sageattention": "hung"}
        assert run.fact("import.bitsandbytes.outcome") == "imported"
        assert {"import-fails", "import-crashes", "import-hangs"} <= run.findings.keys()

    def test_may_print_megabytes(self, doctor: Doctor, environment: Make) -> None:
        """20 MB on each stream neither block the import, nor reach the report, nor count as a fault."""
        env = environment()
        env.package("x-transformers", "1.30.2", stubs.LOUD)

        run = doctor.check(env, "--timeout", LIMIT)

        assert run.fact("import.x_transformers.outcome") == "imported"
        assert run.fact("import.x_transformers.version") == "9.9"
        assert run.status == 0
        assert len(run.stdout) < 500_000


class TestATorchThatBreaksOnImport:
    """The root of everything else: one finding, and what hangs on it stays open."""

    @staticmethod
    def _plant(env: Environment, source: str) -> Path:
        file = env.package("torch", "2.13.0", source)
        (file.parent / "version.py").write_text(stubs.TORCH_VERSION)
        env.package("x-transformers", "1.30.2", "import torch")
        return file

    @pytest.mark.parametrize("fault", IMPORT_FAULTS)
    def test_is_named(self, doctor: Doctor, environment: Make, fault: str) -> None:
        """torch's finding comes first, at its file; its version is still read, and what rests on an import is open."""
        source, outcome = IMPORT_FAULTS[fault]
        env = environment()
        file = self._plant(env, source)

        run = doctor.check(env, "--timeout", SHORT)

        finding = {"failed": "torch-import-fails", "crashed": "torch-import-crashes", "hung": "torch-import-hangs"}[
            outcome
        ]
        assert run.fact("import.torch.outcome") == outcome
        assert run.report["findings"][0]["id"] == finding
        assert run.fact("torch.version") == "2.13.0+cpu"
        assert run.status == 1
        if fault != "leaves":
            assert _place(run, finding).startswith(f"{file}:")
        # What could not be tried is not known, for a stated reason: neither fine nor a second fault.
        assert str(run.fact("listed.sample")).startswith("(unknown) ")
        if outcome == "failed":
            # It was imported after torch and failed for torch's reason: a symptom, not a finding beside it.
            assert "import-fails" in {symptom["id"] for symptom in run.report["findings"][0]["symptoms"]}
        else:
            assert str(run.fact("import.x_transformers.outcome")).startswith("(unknown) ")

    def test_is_not_imported_by_quick(self, doctor: Doctor, environment: Make) -> None:
        """--quick reads files alone: a torch that hangs costs it nothing, and is not called fine."""
        env = environment()
        self._plant(env, stubs.HANG)

        run = doctor.check(env, "--quick", limit=60)

        assert run.status == 0
        assert "torch-import-hangs" in run.report["not_asked"]
        assert "torch-import-hangs" not in run.report["cleared"]


class TestADriverInTrouble:
    """nvidia-smi is asked where the driver's library is not there."""

    @needs_no_driver
    @pytest.mark.parametrize("quick", [True, False])
    def test_that_hangs_is_named_in_time(self, doctor: Doctor, environment: Make, tmp_path: Path, quick: bool) -> None:
        """An nvidia-smi that never ends costs one timeout, and the driver is called what it is."""
        path = _fake_smi(tmp_path / "bin", "exec sleep 600")
        started = time.monotonic()

        run = doctor.check(environment(), "--timeout", SHORT, *(["--quick"] if quick else []), env=path)

        assert run.report["findings"][0]["id"] == "gpu-driver-not-responding"
        waited = 2 if quick else 3  # --quick gives nvidia-smi two seconds, whatever else may take longer
        assert f"did not answer within {waited} s" in run.report["facts"]["driver.answers"]["how"]
        assert str(run.fact("listed.gpu")).startswith("(unknown) ")
        assert run.status == 1
        assert time.monotonic() - started < 60  # of the 600 that it sleeps

    @needs_no_driver
    def test_leaves_no_process_behind(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """What nvidia-smi started is ended with it."""
        note = tmp_path / "pid"
        path = _fake_smi(tmp_path / "bin", f"sleep 600 & echo $! > {note}; wait")

        doctor.check(environment(), "--timeout", 1, "--quick", env=path)

        assert gone(int(note.read_text()))

    @needs_no_driver
    @pytest.mark.parametrize(
        "source",
        [
            "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9",
            "exit 1",
            "kill -SEGV $$",
            "head -c 3000000 /dev/urandom; exit 1",
        ],
        ids=["says why", "says nothing", "crashes", "prints garbage"],
    )
    def test_that_fails_is_no_healthy_gpu_node(
        self, doctor: Doctor, environment: Make, tmp_path: Path, source: str
    ) -> None:
        """A leftover nvidia-smi on a node without a GPU is no error, and no GPU is reported."""
        run = doctor.check(environment(), "--quick", env=_fake_smi(tmp_path / "bin", source))

        if run.fact("listed.gpu") == 0:
            assert run.status == 0
        else:
            assert str(run.fact("listed.gpu")).startswith("(unknown) ")
            assert "gpu-driver-not-responding" in run.findings

    @needs_no_driver
    def test_that_answers_nonsense_is_not_believed(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """Status 0 and no line that can be read is not "no GPU": nobody looked."""
        path = _fake_smi(tmp_path / "bin", "echo 'Sun Nov 22 12:00:00'; echo '| N/A | ERR! | ??? |'")

        run = doctor.check(environment(), "--quick", env=path)

        assert str(run.fact("listed.gpu")).startswith("(unknown) ")

    @needs_no_driver
    def test_that_lists_one_lost_gpu_still_counts_the_others(
        self, doctor: Doctor, environment: Make, tmp_path: Path
    ) -> None:
        """A GPU of an old architecture beside a lost one is judged; the lost one's capability is not known."""
        good = "0, Tesla T4, GPU-1, 7.5, 15360, [N/A], 550.54.15"
        lost = "1, [Unknown Error], [GPU is lost], [N/A], [N/A], [N/A], 550.54.15"
        path = _fake_smi(tmp_path / "bin", f"echo '{good}'; echo '{lost}'")

        run = doctor.check(environment(), "--quick", env=path)

        assert run.fact("listed.gpu") == 2
        assert run.fact("gpu.0.compute_capability") == "7.5"
        assert str(run.fact("gpu.1.compute_capability")).startswith("(unknown) ")
        assert "bf16-unsupported-device" in run.findings


class TestAHomeThatCannotBeWritten:
    """$HOME belongs to somebody else, is full, or is no folder at all."""

    @pytest.mark.parametrize("kind", ["below a file", "below /proc", "unset", "empty"])
    def test_changes_nothing(self, doctor: Doctor, environment: Make, tmp_path: Path, kind: str) -> None:
        """A package that writes its cache on import can do so, and the report is whole."""
        (tmp_path / "file").write_text("")
        home = {
            "below a file": str(tmp_path / "file" / "home"),
            "below /proc": "/proc/home",
            "unset": None,
            "empty": "",
        }
        env = environment()
        env.package(
            "x-transformers",
            "1.30.2",
            """
            import pathlib
            folder = pathlib.Path.home() / ".cache" / "x"
            folder.mkdir(parents=True)
            (folder / "compiled").write_text("x")
            """,
        )

        run = doctor.check(env, env={"HOME": home[kind]})

        assert run.fact("import.x_transformers.outcome") == "imported"
        assert run.status == 0

    @needs_torch
    def test_does_not_stop_torch(self, doctor: Doctor, environment: Make) -> None:
        """torch is imported and the sample runs."""
        run = doctor.check(environment(torch=True), "--timeout", LIMIT, env={"HOME": "/proc/home"})

        assert run.fact("import.torch.outcome") == "imported"
        assert {run.fact(name) for name in run.report["facts"] if re.fullmatch(r"sample\..*\.outcome", name)} == {"ran"}
        assert run.status == 0


CORRUPT: dict[str, Callable[[Path], object]] = {
    "binary garbage": lambda file: file.write_bytes(bytes(range(256)) * 40),
    "garbage without NUL": lambda file: file.write_bytes(b"\xff\xfe\x93 \x80" * 999),
    "empty": lambda file: file.write_bytes(b""),
    "missing": lambda file: file.unlink(),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a dead link": lambda file: (file.unlink(), file.symlink_to("/nowhere/at/all")),
    "a link to itself": lambda file: (file.unlink(), file.symlink_to(file.name)),
    "no such version": lambda file: file.write_text("Metadata-Version: 2.1\nName: x-transformers\nVersion: latest!\n"),
    "no version": lambda file: file.write_text("Metadata-Version: 2.1\nName: x-transformers\n"),
    "huge": lambda file: file.write_text("Name: x-transformers\nVersion: 1.30.2\nX: " + "y" * 5_000_000),
}


class TestCorruptMetadata:
    """What an interrupted install, a full disk or a copy without care leaves behind."""

    @pytest.mark.parametrize("kind", CORRUPT)
    def test_is_named(self, doctor: Doctor, environment: Make, kind: str) -> None:
        """The finding says what is wrong with which package; the folder's name still tells a version."""
        env = environment()
        CORRUPT[kind](env.metadata("x-transformers", "1.30.2") / "METADATA")

        run = doctor.check(env, "--quick")

        assert "package-metadata-broken" in run.findings
        assert "x-transformers" in json.dumps(run.findings["package-metadata-broken"])
        assert run.fact("package.x-transformers.version") == "1.30.2"
        assert run.status == 0

    def test_gates_when_asked(self, doctor: Doctor, environment: Make) -> None:
        """It is a warning: --fail-on warning makes it gate."""
        env = environment()
        (env.metadata("x-transformers", "1.30.2") / "METADATA").write_bytes(b"")

        assert doctor.check(env, "--quick", "--fail-on", "warning").status == 1

    def test_may_be_a_file(self, doctor: Doctor, environment: Make) -> None:
        """A file where the folder should be is broken metadata."""
        env = environment()
        (env.site / "x_transformers-1.30.2.dist-info").write_text("")

        assert "package-metadata-broken" in doctor.check(env, "--quick").findings

    def test_leaves_a_version_unknown(self, doctor: Doctor, environment: Make) -> None:
        """Where neither file nor folder tell a version, none is made up, and --strict does not call it healthy."""
        env = environment()
        (env.site / "x_transformers-.dist-info").mkdir()

        run = doctor.check(env, "--quick", "--strict")

        assert str(run.fact("package.x-transformers.version")).startswith("(unknown) ")
        assert "x-transformers-rotary-fp32" in {question["recipe"] for question in run.report["open_questions"]}
        assert run.status == 3

    def test_of_pip_leftovers_is_no_second_copy(self, doctor: Doctor, environment: Make) -> None:
        """`~_transformers-1.30.2.dist-info` is what an uninstall that stopped half-way leaves: no crash, no phantom."""
        env = environment()
        env.metadata("x-transformers", "1.30.2").rename(env.site / "~_transformers-1.30.2.dist-info")

        run = doctor.check(env, "--quick")

        assert "package.x-transformers.version" not in run.report["facts"]
        assert run.status == 0

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param(b"\x00\x01\x02\xff,,\n" * 50, id="binary"),
            pytest.param(b"../../../../../../etc/passwd.so,,\n", id="outside"),
            # Allowed by the format: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
            pytest.param(b"/etc/absolute.so,sha256=x,1\n", id="absolute"),
            pytest.param(b"a\x00b.so,,\n", id="NUL"),
            pytest.param(b"x_transformers/" + b"x" * 100_000 + b".so,,\n", id="endless name"),
            pytest.param(b'"x_transformers/a,comma.so",,\n"unclosed.so\n,,,,,,\n', id="quotes"),
            pytest.param(b".so,,\n//.so,,\n", id="no name"),
            pytest.param(b"\n" * 200_000, id="blank lines"),
            pytest.param(b"x_transformers/none.so,,\nx_transformers/__init__.py/x.so,,\n", id="not there"),
        ],
    )
    def test_in_record_is_survived(self, doctor: Doctor, environment: Make, lines: bytes) -> None:
        """RECORD names files that nobody checked: absurd ones stop nothing."""
        env = environment()
        env.package("x-transformers", "1.30.2")
        (env.site / "x_transformers-1.30.2.dist-info" / "RECORD").write_bytes(lines)

        run = doctor.check(env, "--quick")

        assert run.fact("package.x-transformers.version") == "1.30.2"
        assert run.status in (0, 1)

    @pytest.mark.parametrize(
        ("what", "content"),
        [
            pytest.param("WHEEL", b"\xff\x00garbage", id="WHEEL binary"),
            pytest.param("direct_url.json", b"\xff\x00garbage", id="binary"),
            pytest.param("direct_url.json", b"[]", id="list"),
            pytest.param("direct_url.json", b'{"url": 5, "dir_info": 7}', id="numbers"),
            pytest.param("direct_url.json", b'{"url": "file://[", "dir_info": {"editable": true}}', id="no URL"),
            pytest.param("direct_url.json", b"[" * 100_000, id="deep"),
        ],
    )
    def test_beside_metadata_is_survived(self, doctor: Doctor, environment: Make, what: str, content: bytes) -> None:
        """direct_url.json and WHEEL are written by many tools: garbage in them hides neither name nor version."""
        env = environment()
        (env.metadata("x-transformers", "1.30.2") / what).write_bytes(content)

        assert doctor.check(env, "--quick").fact("package.x-transformers.version") == "1.30.2"

    def test_in_requirements_is_survived(self, doctor: Doctor, environment: Make) -> None:
        """A Requires-Dist that is none leaves the question what torch it wants open, and nothing else."""
        env = environment()
        env.metadata(
            "x-transformers", "1.30.2", "Requires-Dist: torch (>=2.0,,; ]", "Requires-Dist: \\\\", "Requires-Dist:"
        )

        run = doctor.check(env, "--quick")

        assert str(run.fact("package.x-transformers.requires_torch")).startswith("(unknown) ")


class TestTorchFilesThatAreGarbage:
    """torch/version.py is a file like any other."""

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"\x00" * 100, id="zeros"),
            pytest.param(bytes(range(256)), id="binary"),
            pytest.param(b"__version__ = \n", id="half a line"),
            pytest.param(b"__version__ = 2.13\ncuda = 13\nhip = []\n", id="other types"),
            pytest.param(b"x = " + b"(" * 5_000 + b")" * 5_000, id="parentheses"),
            pytest.param(b"x = " + b"-" * 300_000 + b"1", id="minus signs"),
            pytest.param(b"x = a" + b".a" * 200_000, id="dots"),
        ],
    )
    def test_leave_its_version_unknown(self, doctor: Doctor, environment: Make, content: bytes) -> None:
        """Nothing is made up: version and CUDA are not known, so nobody calls it a CPU build."""
        env = environment()
        file = env.module("torch", "")
        (file.parent / "version.py").write_bytes(content)

        run = doctor.check(env, "--quick", "--strict")

        assert str(run.fact("torch.version")).startswith("(unknown) ")
        assert "torch-cpu-build" not in run.findings
        assert run.status == 3

    @pytest.mark.parametrize("library", ["libc10.so", "libtorch_cuda.so", "libtorch_cpu.so"])
    @pytest.mark.parametrize("content", [b"", b"\x7fELF" + bytes(range(256)) * 64], ids=["empty", "garbage"])
    def test_libraries_too(self, doctor: Doctor, environment: Make, library: str, content: bytes) -> None:
        """A library cut short by a full disk is unreadable, with a reason, and no extension is judged by it."""
        env = environment()
        file = env.module("torch", "")
        (file.parent / "version.py").write_text(stubs.TORCH_VERSION)
        (file.parent / "lib").mkdir()
        (file.parent / "lib" / library).write_bytes(content)

        run = doctor.check(env, "--quick")

        assert run.fact("torch.version") == "2.13.0+cpu"
        assert run.fact("torch.cxx11_abi") not in (True, False)

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x7fELF\x02\x01\x01" + bytes(57), b"\x7fELF" + bytes(range(256)) * 64],
        ids=["empty", "no sections", "garbage"],
    )
    def test_extension_too(self, doctor: Doctor, environment: Make, content: bytes) -> None:
        """An extension that is no ELF file is not called fine: what it needs is not known."""
        env = environment()
        env.package("flash-attn", "2.8.3")
        (env.site / "flash_attn_2_cuda.so").write_bytes(content)

        run = doctor.check(env, "--quick")

        assert str(run.fact("extension.flash_attn_2_cuda.missing_symbols")).startswith("(unknown) ")


class TestOtherEnvironments:
    """Read-only, without pip, without torch, of another Python."""

    def test_without_pip_and_torch(self, doctor: Doctor, environment: Make) -> None:
        """No torch is a fact, not a fault; no word calls such an environment healthy."""
        env = environment(empty=True)

        run = doctor.check(env)

        assert run.status == 3
        assert run.report["summary"]["nothing_to_examine"].startswith("no torch and nothing else")
        assert run.fact("python.has_pip") is False
        assert run.fact("torch.version") == "(absent) no torch"
        assert run.report["findings"] == []
        words = doctor("check", "--python", env.python).stdout
        assert "no torch" in words
        assert "healthy" not in words.replace("not as healthy", "")
        assert "nothing wrong found" not in words
        assert "Nothing to examine here: no torch and nothing else of an attention stack" in " ".join(words.split())
        line = doctor("check", "--quick", "--python", env.python, "--format", "summary").stdout.splitlines()[0]
        assert line.partition(": ")[2] == "nothing to examine here"

    def test_that_is_read_only_stays_as_it_is(self, doctor: Doctor, environment: Make) -> None:
        """Nothing is written below the environment, not even compiled files, and the report is whole."""
        env = environment()
        env.package("flash-attn", "2.8.3", "import flash_attn.deeper")
        env.module("flash_attn.deeper", "raise ImportError('no')")
        subprocess.run(["chmod", "-R", "a-w", str(env.folder)], check=True)
        try:
            before = _listing(env.folder)

            run = doctor.check(env)

            assert _listing(env.folder) == before
            assert run.fact("import.flash_attn.outcome") == "failed"
            assert run.status == 1
        finally:
            subprocess.run(["chmod", "-R", "u+w", str(env.folder)], check=True)

    @pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
    def test_of_another_python(self, doctor: Doctor, tmp_path: Path, version: str) -> None:
        """Python 3.9 to 3.14 are examined: that Python's version, its packages, and what their import does."""
        python = _python(version)
        if python is None:
            pytest.skip(f"no Python {version} on PATH or below PYENV_ROOT")
        folder = tmp_path / "environment"
        subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
        env = Environment(
            folder=folder, python=folder / "bin" / "python", site=folder / "lib" / f"python{version}" / "site-packages"
        )
        env.package("flash-attn", "2.8.3", stubs.NULL_POINTER)
        env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")

        run = doctor.check(env, "--timeout", LIMIT)

        assert run.fact("python.version").startswith(f"{version}.")
        assert run.fact("import.x_transformers.outcome") == "imported"
        assert run.fact("import.flash_attn.outcome") == "crashed"
        assert "x-transformers-rotary-fp32" in run.findings
        assert run.status == 1


def _python(version: str) -> str | None:
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    # Not pyenv's shims: they fail for a version that is installed and not activated.
    found = sorted(glob.glob(f"{root}/versions/{version}.*/bin/python"))
    if found:
        return found[-1]
    on_path = shutil.which(f"python{version}")
    return on_path if on_path and "shims" not in on_path else None


def _listing(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file below: mode, modification time in ns, and a hash of small ones."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        small = path.is_file() and status.st_size < 1_000_000
        found[str(path)] = (
            status.st_mode,
            status.st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if small else "",
        )
    return found
