"""A node among many: where its report goes, who examines it, and what hooks read later."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attn_doctor.formats import chunks, report_v1
from tests.conftest import CHECKOUT, Doctor, Environment, Run, clean_environment, command, needs_torch
from tests.report.test_summary import metrics
from tests.scenarios.processes import has_open, written
from tests.scenarios.test_bad_input import BREAKS_JUDGE

Make = Callable[..., Environment]
QUICK = ("check", "--quick", "--python")


def _reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Every report of the folder, each whole and valid."""
    schema = json.loads(report_v1.json_schema())
    found = {}
    for file in sorted(folder.iterdir()):
        found[file.name] = json.loads(file.read_text())
        jsonschema.validate(found[file.name], schema)
    return found


def _sick(environment: Make) -> Environment:
    env = environment()
    env.package("flash-attn", "2.8.3")  # without its extension: an error
    return env


class TestAFolderOfReports:
    def test_one_file_a_node_and_environment(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """Named by node and environment, one line of JSON, made with its folder; nothing on standard output."""
        folder = tmp_path / "shared" / "reports"
        one, other = environment(), environment()
        for env, node in ((one, "n1"), (one, "n2"), (other, "n1"), (one, "n1")):
            run = doctor(*QUICK, env.python, "--output", f"{folder}/", env={"SLURMD_NODENAME": node})
            assert (run.status, run.stdout, run.stderr) == (0, "", "")

        found = _reports(folder)

        assert len(found) == 3
        for name, report in found.items():
            assert name == f"{report['node']['name']}.{report['environment']['id']}.json"
        assert sorted(report["node"]["name"] for report in found.values()) == ["n1", "n1", "n2"]
        same = [
            report["environment"] for report in found.values() if report["environment"]["prefix"] == str(one.folder)
        ]
        assert len(same) == 2
        assert same[0] == same[1]

    @pytest.mark.parametrize(
        ("variables", "named_by"),
        [
            ({"SLURMD_NODENAME": "slurms", "NODE_NAME": "kubernetes"}, "SLURMD_NODENAME"),
            ({"NODE_NAME": "kubernetes"}, "NODE_NAME"),
            ({"NODE_NAME": " "}, "hostname"),
        ],
    )
    def test_who_names_the_node(
        self, doctor: Doctor, environment: Make, variables: dict[str, str], named_by: str
    ) -> None:
        """Slurm's name, then Kubernetes', then the host's own."""
        report = doctor.check(environment(), "--quick", env=variables).report

        assert report["node"]["named_by"] == named_by
        assert report["node"]["name"] == variables.get(named_by, os.uname().nodename)

    @pytest.mark.parametrize("name", ["../../evil", "a b;c\n", ".hidden", "x" * 400, "-rf"])
    def test_a_hostile_name_stays_in_the_folder(
        self, doctor: Doctor, environment: Make, tmp_path: Path, name: str
    ) -> None:
        """Whatever a node is called, its report is a plain file there and still tells the name."""
        folder = tmp_path / "reports"
        doctor(*QUICK, environment().python, "--output", f"{folder}/", env={"SLURMD_NODENAME": name})

        ((file, report),) = _reports(folder).items()

        assert report["node"]["name"] == name.strip()
        assert not file.startswith((".", "-"))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["environment-1", "reports"]

    def test_the_format_that_is_asked_for_is_printed_as_well(
        self, doctor: Doctor, environment: Make, tmp_path: Path
    ) -> None:
        """A job's log gets the summary, the folder the report."""
        run = doctor(*QUICK, environment().python, "--output", f"{tmp_path}/r/", "--format", "summary")

        assert run.stdout.startswith("attn-doctor ")
        assert len(_reports(tmp_path / "r")) == 1

    def test_a_folder_that_cannot_be_made(self, doctor: Doctor, environment: Make) -> None:
        """It is told before anything is examined."""
        run = doctor(*QUICK, environment().python, "--output", "/proc/self/reports/")

        assert run.status == 2
        assert "--output /proc/self/reports" in run.stderr
        assert run.stdout == ""

    def test_a_folder_that_is_read_only(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The node is examined, its report is printed, and the status says where it is not."""
        env = environment()
        env.metadata("torch", "2.13.0")
        folder = tmp_path / "reports"
        folder.mkdir()
        script = f"mount -t tmpfs -o ro tmpfs '{folder}' && exec \"$@\""
        words = command(*QUICK, env.python, "--output", f"{folder}/")
        run = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *words],
            capture_output=True, text=True, timeout=120, cwd=CHECKOUT, env=clean_environment(),
        )  # fmt: skip
        if "unshare" in run.stderr or "mount:" in run.stderr:
            pytest.skip("no mount can be made here")

        assert run.returncode == 6
        assert json.loads(run.stdout)["fingerprint"]["facts"]["packages.torch"] == "2.13.0"
        assert "the folder cannot be written" in run.stderr
        assert str(folder) in run.stderr

    def test_a_full_disk_loses_nothing(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The report of the examination goes to standard output, the old file stays whole, the trouble is named."""
        env = environment()
        folder = tmp_path / "reports"
        doctor(*QUICK, env.python, "--output", f"{folder}/")
        before = _reports(folder)

        def small_files() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

        run = doctor(*QUICK, env.python, "--output", folder, before=small_files)

        assert run.status == 3
        assert "Traceback" not in run.stderr
        assert str(folder) in run.stderr
        assert "File too large" in run.stderr
        assert run.report["fingerprint"] == next(iter(before.values()))["fingerprint"]
        assert _reports(folder) == before

    @needs_torch
    def test_quick_and_full_checks_have_one_fingerprint(self, doctor: Doctor, environment: Make) -> None:
        """What is looked at for the fingerprint needs no import, so that both kinds of reports can be compared."""
        env = environment(torch=True)

        quick = doctor.check(env, "--quick").report["fingerprint"]

        assert quick["facts"]["libraries.libtorch_cpu.so"].startswith("build-id ")
        assert doctor.check(env).report["fingerprint"] == quick


class TestFingerprints:
    @staticmethod
    def _of(doctor: Doctor, env: Environment, **variables: str) -> dict[str, Any]:
        fingerprint: dict[str, Any] = doctor.check(env, "--quick", env=variables).report["fingerprint"]
        return fingerprint

    def test_equal_nodes(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The same packages in another folder, on another node, for another user and rank: the same, word for word."""
        fingerprints = []
        for number in (1, 2):
            env = environment()
            env.package("x-transformers", "1.30.2")
            home = tmp_path / f"home{number}"
            variables = {
                "SLURMD_NODENAME": f"gpu{number:03}", "HOME": str(home), "USER": f"somebody{number}",
                "LD_LIBRARY_PATH": f"{env.folder}/lib:{home}/lib", "CUDA_VISIBLE_DEVICES": str(number),
                "NCCL_CONF_FILE": f"/scratch/somebody{number}/nccl.conf", "TRITON_CACHE_DIR": f"/tmp/{number}",
                "SLURM_JOB_ID": str(number),
            }  # fmt: skip
            fingerprints.append(self._of(doctor, env, **variables))

        assert fingerprints[0] == fingerprints[1]
        assert fingerprints[0]["facts"]["env.LD_LIBRARY_PATH"] == "{prefix}/lib:{home}/lib"

    @pytest.mark.parametrize(
        ("package", "variables", "critical"),
        [
            pytest.param("x-transformers", {}, True, id="a package more"),
            pytest.param("", {"NCCL_ALGO": "Ring"}, True, id="NCCL's variable"),
            pytest.param("", {"NCCL_DEBUG": "INFO"}, False, id="what NCCL prints"),
            pytest.param("einops", {}, False, id="a package that decides nothing"),
        ],
    )
    def test_what_differs(
        self, doctor: Doctor, environment: Make, package: str, variables: dict[str, str], critical: bool
    ) -> None:
        """Each difference changes the hash; those that decide over kernels and communication the critical one too."""
        usual, other = environment(), environment()
        if package:
            other.package(package, "1.30.2")

        one, two = self._of(doctor, usual), self._of(doctor, other, **variables)

        assert one["sha256"] != two["sha256"]
        assert (one["critical"] != two["critical"]) == critical

    def test_secrets_stay_out(self, doctor: Doctor, environment: Make) -> None:
        """Variables that nobody asked for are not read, names that smell of secrets and passwords in URLs not shown."""
        run = doctor.check(
            environment(),
            "--quick",
            env={
                "NCCL_AUTH_TOKEN": "hunter2",
                "AWS_SECRET_ACCESS_KEY": "hunter2",
                "TRITON_REGISTRY": "https://me:hunter2@host/x",
                "NVTE_FLASH_ATTN": "1",
            },
        )

        assert "hunter2" not in run.stdout
        assert run.report["fingerprint"]["facts"]["env.NVTE_FLASH_ATTN"] == "1"
        assert run.report["fingerprint"]["facts"]["env.NCCL_AUTH_TOKEN"] == "(set, not shown)"
        assert run.report["fingerprint"]["facts"]["env.TRITON_REGISTRY"] == "https://host/x"

    @needs_torch
    def test_libraries_are_those_that_torch_loads(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """Each library named is mapped into a process that really imports torch, and under that path."""
        env = environment(torch=True)
        script = "import torch; print(open('/proc/self/maps').read())"
        mapped = subprocess.run([env.python, "-c", script], capture_output=True, text=True, check=True, timeout=120)
        files = {os.path.realpath(line.split()[-1]) for line in mapped.stdout.splitlines() if ".so" in line}

        facts = doctor.check(env, "--quick").report["facts"]

        libraries = {name for name in facts if name.startswith("library.") and name.endswith(".path")}
        assert {"library.libtorch_cpu.so.path", "library.libc10.so.path"} <= libraries
        for name in libraries - {"library.libtriton.so.path"}:  # torch loads it only when something is compiled
            assert os.path.realpath(facts[name]["value"]) in files, name

    def test_nothing_assumed_is_in_it(self, doctor: Doctor, environment: Make) -> None:
        """--gpu and --assume change the verdict, not what is there."""
        env = environment()

        assumed = doctor.check(env, "--quick", "--gpu", "h100", "--assume", "package.triton.version=3.6.0").report

        assert assumed["fingerprint"] == self._of(doctor, env)
        assert assumed["cohort"]["gpu"] == self._check(doctor, env)["cohort"]["gpu"]

    @staticmethod
    def _check(doctor: Doctor, env: Environment) -> dict[str, Any]:
        return doctor.check(env, "--quick").report


class TestFormats:
    def test_chunks(self, doctor: Doctor, environment: Make) -> None:
        """Short lines whose report is the one that --format ndjson prints."""
        env = environment()
        node = {"SLURMD_NODENAME": "n 7"}
        lines = doctor(*QUICK, env.python, "--format", "chunks", env=node).stdout
        (joined,) = chunks.join(reversed(lines.splitlines()))
        whole = doctor(*QUICK, env.python, "--format", "ndjson", env=node)

        assert all(len(line.encode()) < 900 for line in lines.splitlines())
        assert whole.stdout.count("\n") == 1
        told = json.loads(joined.text or "")
        for report in (told, whole.report):
            for key in ("created", "volatile"):
                del report[key]
        assert told == whole.report

    def test_metrics(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """A textfile for the collector: strictly formed, for everybody to read, in the place of the old one."""
        file = tmp_path / "attn.prom"
        before = os.umask(0o077)
        try:
            run = doctor(*QUICK, _sick(environment).python, "--prometheus", file)
        finally:
            os.umask(before)

        samples = metrics(file.read_text())

        assert run.status == 1
        assert samples["attn_doctor_exit_code"] == 1
        assert abs(samples["attn_doctor_last_run_timestamp_seconds"] - time.time()) < 300
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["attn.prom"]

    @pytest.mark.parametrize(
        ("options", "sick", "status"),
        [
            ((), True, 1),
            (("--exit-zero",), True, 0),
            (("--exit-style", "nagios"), True, 2),
            (("--exit-style", "npd"), True, 1),
            (("--exit-style", "nagios"), False, 0),
            (("--exit-style", "nagios", "--gpu", "no-such"), False, 3),
            (("--exit-style=nagios", "--no-such-option"), False, 3),
            (("--exit-style", "npd", "--no-such-option"), False, 2),
            (("--exit-zero", "--gpu", "no-such"), False, 2),
            (("--exit-zero", "--json", "--gpu", "no-such"), False, 0),
            (("--json", "--gpu", "no-such"), False, 2),
        ],
    )
    def test_exit_styles(
        self, doctor: Doctor, environment: Make, options: tuple[str, ...], sick: bool, status: int
    ) -> None:
        """Findings, health and wrong usage in others' numbers; --exit-zero hides findings and no failure."""
        env = _sick(environment) if sick else environment()

        assert doctor(*QUICK, env.python, *options).status == status


class TestNoExamination:
    """Somebody collects reports: a node that cannot be examined says so instead of being silent."""

    def test_an_environment_that_is_not_there(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The failure is a report; it goes when the environment can be examined again."""
        folder = tmp_path / "reports"
        missing = tmp_path / "environment-1"

        run = doctor(*QUICK, missing, "--output", f"{folder}/", "--exit-zero", "--format", "ndjson")

        assert run.status == 0
        assert "no such interpreter" in run.stderr
        assert run.report["failure"]["what"] == "there is no such interpreter"
        assert run.report["summary"]["exit_status"] == 2
        assert run.report["environment"]["prefix"] == str(missing)
        ((name, failed),) = _reports(folder).items()
        assert failed == run.report
        assert ".failed-" in name

        env = environment()
        assert env.folder == missing
        doctor(*QUICK, env.python, "--output", f"{folder}/")
        assert len(_reports(folder)) == 2  # named otherwise: that failure may still be so
        again = doctor("check", "--quick", "--python", missing / "bin" / "python", "--output", f"{folder}/")
        assert again.status == 0

    def test_a_failure_goes_when_the_interpreter_answers(
        self, doctor: Doctor, environment: Make, tmp_path: Path
    ) -> None:
        """The same interpreter, broken and mended: one report in the end."""
        folder, env = tmp_path / "reports", environment()
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
        assert doctor(*QUICK, python, "--output", f"{folder}/").status == 3
        assert len(_reports(folder)) == 1

        python.write_text(f'#!/bin/sh\nexec {env.python} "$@"\n')
        assert doctor(*QUICK, python, "--output", f"{folder}/").status == 0

        assert all("failure" not in report for report in _reports(folder).values())

    def test_a_bug_of_ours(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """A crash of the doctor's is told to the collector, and still leaves its log."""
        (tmp_path / "planted").mkdir()
        (tmp_path / "planted" / "sitecustomize.py").write_text(BREAKS_JUDGE)
        changes = {"PYTHONPATH": str(tmp_path / "planted"), "TMPDIR": str(tmp_path)}

        run = doctor(*QUICK, environment().python, "--format", "chunks", "--exit-zero", env=changes)

        (joined,) = chunks.join(run.stdout.splitlines())
        assert "ZeroDivisionError: planted" in json.loads(joined.text or "")["failure"]["what"]
        assert run.status == 0
        assert "bug of attn-doctor" in run.stderr
        assert list(tmp_path.glob("attn-doctor-bug-*"))

    def test_who_collects_nothing_is_told_once(self, doctor: Doctor, tmp_path: Path) -> None:
        """A person who asks for JSON gets the error on standard error, and no report that is none."""
        run = doctor(*QUICK, tmp_path / "missing", "--json")

        assert (run.status, run.stdout) == (2, "")


class TestRanks:
    """Eight ranks of a node are one examination."""

    @staticmethod
    def _counting(folder: Path, env: Environment, before: str = "") -> Path:
        """An interpreter that notes each start."""
        python = folder / "python"
        python.write_text(f'#!/bin/sh\necho x >> {folder}/started\n{before}\nexec {env.python} "$@"\n')
        python.chmod(0o755)
        return python

    @staticmethod
    def _rank(number: int, launch: str, *arguments: object) -> subprocess.Popen[str]:
        variables = {"LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": launch}
        return subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env=clean_environment(**variables),
        )

    def test_share_one_examination(self, environment: Make, tmp_path: Path) -> None:
        """One interpreter is started, one report printed and written, and all end with its status."""
        python = self._counting(tmp_path, _sick(environment))
        options = (*QUICK, python, "--format", "ndjson", "--output", f"{tmp_path}/reports/")
        ranks = [self._rank(number, str(tmp_path), *options) for number in (3, 2, 1, 0)]
        said = [process.communicate(timeout=120) for process in ranks]

        assert [process.returncode for process in ranks] == [1, 1, 1, 1]
        assert sorted(bool(out) for out, _ in said) == [False, False, False, True]
        assert [err for _, err in said] == [""] * 4
        assert (tmp_path / "started").read_text().split() == ["x"]
        assert len(_reports(tmp_path / "reports")) == 1

    def test_go_on_without_the_one_that_was_killed(self, environment: Make, tmp_path: Path) -> None:
        """Local rank 0 dies in the middle: another one examines, prints and writes."""
        before = f"if mkdir {tmp_path}/first 2>/dev/null; then echo $$ > {tmp_path}/pid; exec sleep 600; fi"
        python = self._counting(tmp_path, environment(), before)
        options = (*QUICK, python, "--format", "ndjson", "--output", f"{tmp_path}/reports/")
        first = self._rank(0, str(tmp_path), *options)
        sleeping = int(written(tmp_path / "pid"))
        others = [self._rank(number, str(tmp_path), *options) for number in (1, 2)]
        try:
            time.sleep(1.0)
            first.kill()
            said = [process.communicate(timeout=120)[0] for process in others]

            assert [process.returncode for process in others] == [0, 0]
            assert sorted(bool(out) for out in said) == [False, True]
            assert len(_reports(tmp_path / "reports")) == 1
        finally:
            first.communicate(timeout=60)
            with contextlib.suppress(ProcessLookupError):
                os.kill(sleeping, signal.SIGKILL)

    def test_share_a_failure(self, tmp_path: Path) -> None:
        """What cannot be examined is told by one, with the same status for all."""
        options = (*QUICK, tmp_path / "missing", "--format", "ndjson")
        ranks = [self._rank(number, str(tmp_path), *options) for number in (1, 0)]
        said = [process.communicate(timeout=120) for process in ranks]

        assert [process.returncode for process in ranks] == [2, 2]
        assert sorted(bool(out) for out, _ in said) == [False, True]
        assert sorted("no such interpreter" in err for _, err in said) == [False, True]

    def test_two_that_nobody_launched_together(self, environment: Make, tmp_path: Path) -> None:
        """Two commands into one folder at once: one examines, both print what they were asked for."""
        python = self._counting(tmp_path, environment(), f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done")
        line = command(*QUICK, python, "--format", "summary", "--output", f"{tmp_path}/reports/")
        both = []
        for _ in range(2):
            both.append(
                subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT, env=clean_environment())
            )
            written(tmp_path / "started")
        assert has_open(both[1].pid, ".lock")
        (tmp_path / "go").touch()
        said = [process.communicate(timeout=120)[0] for process in both]

        assert [process.returncode for process in both] == [0, 0]
        assert said[0] == said[1]
        assert said[0].startswith("attn-doctor ")
        assert (tmp_path / "started").read_text().split() == ["x"]

    @needs_torch
    def test_under_a_real_torchrun(self, environment: Make, tmp_path: Path) -> None:
        """Started by torchrun on every rank, the node is examined once."""
        python = self._counting(tmp_path, environment())
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3",
             "-m", "attn_doctor", *QUICK, str(python), "--format", "ndjson"],
            capture_output=True, text=True, timeout=180, cwd=CHECKOUT, env=clean_environment(),
        )  # fmt: skip

        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["quick"] is True
        assert (tmp_path / "started").read_text().split() == ["x"]


class TestStatus:
    """What a hook with five seconds reads."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "reports"

    @staticmethod
    def _examine(doctor: Doctor, env: Environment, folder: Path, node: str = "n1") -> Path:
        before = set(folder.iterdir()) if folder.exists() else set()
        doctor(*QUICK, env.python, "--output", f"{folder}/", env={"SLURMD_NODENAME": node})
        (file,) = set(folder.iterdir()) - before
        return file

    @staticmethod
    def _status(doctor: Doctor, *options: object, node: str = "n1") -> Run:
        run = doctor("status", *options, env={"SLURMD_NODENAME": node})
        assert "Traceback" not in run.stderr
        assert "--json" in options or len(run.stdout.split("\n", 1)[0]) <= 80
        return run

    def test_of_a_folder(self, doctor: Doctor, environment: Make, folder: Path) -> None:
        """This node's reports count, the worst of them decides; other nodes' do not."""
        self._examine(doctor, environment(), folder)
        self._examine(doctor, _sick(environment), folder, node="n1.other")

        healthy = self._status(doctor, "--from", folder)
        other = self._status(doctor, "--from", folder, node="n1.other")
        self._examine(doctor, _sick(environment), folder)
        both = self._status(doctor, "--from", folder)

        assert (healthy.status, other.status, both.status) == (0, 1, 1)
        assert healthy.stdout.startswith("attn-doctor n1: ")
        assert both.stdout.splitlines()[0].endswith("flash-attn-extension-missing")
        assert len(both.stdout.splitlines()) == 3

    def test_by_the_variable(self, doctor: Doctor, environment: Make, folder: Path) -> None:
        """A site names its folder once."""
        self._examine(doctor, environment(), folder)

        run = doctor("status", env={"SLURMD_NODENAME": "n1", "ATTN_DOCTOR_REPORTS": str(folder)})

        assert run.status == 0

    def test_without_a_report(self, doctor: Doctor, environment: Make, folder: Path) -> None:
        """Nothing is known: of a folder that is not there, of one without this node, of a missing file."""
        self._examine(doctor, environment(), folder, node="n2")
        for place in (folder, folder / "missing", folder / "missing.json"):
            run = self._status(doctor, "--from", place)
            assert run.status == 3
            assert "not known" in run.stdout

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "not JSON"),
            (b'{"schema": "attn-doctor/report/v1"', "not JSON"),
            (b'{"schema": "attn-doctor/report/v2"}', "not a report of the format"),
            (b"[" * 100_000, "nested too deeply"),
            (b"\xff\xfe\x00garbage", "not UTF-8"),
            (b"null", "not a report"),
            (b'{"schema": "attn-doctor/report/v1", "summary": {"exit_status": 0}}', "damaged"),
        ],
    )
    def test_of_what_is_no_report(self, doctor: Doctor, tmp_path: Path, content: bytes, says: str) -> None:
        """Truncated, hostile or of another kind: not known, in one line."""
        file = tmp_path / "n1.0.json"
        file.write_bytes(content)

        for place in (file, tmp_path):
            run = self._status(doctor, "--from", place)
            assert run.status == 3
            assert says in run.stdout
            assert run.stderr == ""

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"created": "2020-01-01T00:00:00+00:00"}, "older than 1 d"),
            ({"created": "2999-01-01T00:00:00+00:00"}, "from the future"),
            ({"created": "yesterday"}, "when it was made"),
            ({"volatile": {"boot_id": "another"}}, "restarted"),
            ({"assumed": ["gpu.0.name"]}, "as if"),
            ({"command": "explain"}, "explain"),
            ({"node": {"name": "n2", "hostname": "n2", "named_by": "hostname"}}, "of n2, not of this node"),
            ({"summary": {"exit_status": 3}}, "status 3"),
            ({"summary": {"exit_status": "0"}}, "damaged"),
            ({"findings": [{"id": 7}]}, "damaged"),
        ],
    )
    def test_of_a_report_that_proves_nothing(
        self, doctor: Doctor, environment: Make, folder: Path, change: dict[str, Any], says: str
    ) -> None:
        """Whole, of this node, without a finding, and yet no proof of health now."""
        file = self._examine(doctor, environment(), folder)
        assert self._status(doctor, "--from", folder).status == 0
        report = json.loads(file.read_text())
        file.write_text(json.dumps({**report, **change}))

        run = self._status(doctor, "--from", folder)

        assert run.status == 3
        assert says in run.stdout

    def test_of_another_nodes_file(self, doctor: Doctor, environment: Make, folder: Path) -> None:
        """Who names a file means that report, whichever node it is of; the line says which."""
        file = self._examine(doctor, environment(), folder, node="n2")

        run = self._status(doctor, "--from", file, node="n1")

        assert run.status == 0
        assert run.stdout.startswith("attn-doctor n2: ")

    def test_of_a_pipe(self, doctor: Doctor, tmp_path: Path) -> None:
        """A FIFO of that name does not make a hook wait."""
        os.mkfifo(tmp_path / "n1.x.json")

        assert self._status(doctor, "--from", tmp_path).status == 3

    def test_in_other_forms(self, doctor: Doctor, environment: Make, folder: Path) -> None:
        """One JSON object in a line, and others' exit statuses."""
        self._examine(doctor, _sick(environment), folder)

        told = json.loads(self._status(doctor, "--from", folder, "--json").stdout)

        assert told["status"] == 1
        assert told["reports"][0]["findings"] == ["flash-attn-extension-missing"]
        assert self._status(doctor, "--from", folder, "--exit-style", "nagios").status == 2
        assert self._status(doctor, "--from", folder, "--max-age", "0s", "--exit-style", "npd").status == 2
        assert self._status(doctor, "--from", folder, "--max-age", "often").status == 2


class TestCompare:
    def test_what_changed_since_it_worked(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """An upgrade and the error that came with it; nothing where nothing changed."""
        env = environment()
        env.package("x-transformers", "1.30.2")
        old, same, new = tmp_path / "old.json", tmp_path / "same.json", tmp_path / "new.json"
        doctor(*QUICK, env.python, "--json", "--output", old)
        doctor(*QUICK, env.python, "--json", "--output", same)
        env.package("flash-attn", "2.8.3")
        doctor(*QUICK, env.python, "--json", "--output", new)

        unchanged, changed = doctor("compare", old, same), doctor("compare", old, new)
        told = json.loads(doctor("compare", old, new, "--json").stdout)

        assert (unchanged.status, changed.status) == (0, 1)
        assert unchanged.stdout.splitlines()[-1] == "The same."
        assert "packages.flash-attn: absent → 2.8.3" in changed.stdout
        assert "[error] flash-attn-extension-missing" in changed.stdout
        assert told["critical"] == [{"fact": "packages.flash-attn", "old": None, "new": "2.8.3"}]
        assert [one["id"] for one in told["new_findings"]] == ["flash-attn-extension-missing"]

    @pytest.mark.parametrize(
        "content", [None, b"", b"{", b"[" * 100_000, b"\xff", b'{"schema": "attn-doctor/report/v1"}']
    )
    def test_bad_files(self, doctor: Doctor, environment: Make, tmp_path: Path, content: bytes | None) -> None:
        """One clear message that names the file, status 2, wherever it stands."""
        good, bad = tmp_path / "good.json", tmp_path / "bad.json"
        doctor(*QUICK, environment().python, "--json", "--output", good)
        if content is not None:
            bad.write_bytes(content)

        for files in ((good, bad), (bad, good)):
            run = doctor("compare", *files)
            assert run.status == 2
            assert run.stdout == ""
            assert str(bad) in run.stderr
            assert len(run.stderr.splitlines()) == 3
            assert "Traceback" not in run.stderr
