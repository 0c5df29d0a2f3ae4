"""What a person gets wrong is told in one clear error; what we get wrong leaves a log. Nobody sees a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.cli import guard
from tests.conftest import CHECKOUT, Doctor, Environment, Run, clean_environment, command
from tests.scenarios import stubs
from tests.scenarios.processes import gone, written

Make = Callable[..., Environment]

#: Every broken input is tried on an environment that is fine, with nothing slow behind it.
QUICK = ("check", "--quick")


def _one_clear_error(run: Run, *, status: int) -> list[str]:
    """Three parts on stderr: what happened, what it was about, what to do. Nothing on stdout."""
    assert run.status == status, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    lines = run.stderr.splitlines()
    assert lines[0].startswith("attn-doctor: ")
    assert len(lines) >= 3
    assert all(line.startswith("  ") for line in lines[1:])
    return lines


def _wrong_usage(run: Run) -> str:
    """An option that the parser itself refuses: status 2, and the option is named."""
    assert run.status == 2, run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    return run.stderr


GOOD_RECIPE = """
format   = 1
id       = "my-trouble"
title    = "Something"
severity = "warning"
checked  = 2026-01-01
status   = "preview"
since    = "0.1.0"
rank     = 50
what = "It is so."
why = "Because."

[[reference]]
kind = "web"
url  = "https://docs.python.org/3/"

[[when]]
fact    = "torch.version"
present = true

[[remedy]]
id     = "do-something"
title  = "Do something"
safety = "display-only"
why_this_safety = "It is for a person to do."
actions = [{ kind = "advise", text = "Do it." }]

[[case]]
facts  = { "torch.version" = "2.13.0" }
expect = "finds"
[[case]]
facts  = { "torch.cuda" = "12.8" }
expect = "clears"
[[case]]
unknown = ["torch.version"]
expect  = "open"
"""


def _shelf(folder: Path, content: str | bytes, *, name: str = "my-trouble") -> Path:
    file = folder / "recipes" / "mine" / name / "recipe.toml"
    file.parent.mkdir(parents=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "recipes"


class TestRecipes:
    def test_a_good_one_is_taken(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The recipe that the others are made from by breaking it is itself right."""
        run = doctor.check(environment(), "--quick", "--recipes", _shelf(tmp_path, GOOD_RECIPE))

        assert "my-trouble" in run.report["cleared"]

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            pytest.param(b"format = = 1", "not TOML", id="broken TOML"),
            pytest.param(b"\x00\xff\xfe" * 500, "not UTF-8", id="binary"),
            pytest.param(b"", "format", id="empty"),
            pytest.param(b"# " + b"x" * 2_000_000, "too large", id="2 MB"),
            pytest.param(GOOD_RECIPE.replace("rank ", "ranc "), "ranc", id="unknown key"),
            pytest.param(GOOD_RECIPE.replace('version"\npresent', 'vresion"\npresent'), "vresion", id="unknown fact"),
            pytest.param(GOOD_RECIPE.replace('"my-trouble"', '"other-trouble"'), "other-trouble", id="wrong id"),
            pytest.param(GOOD_RECIPE.replace("format   = 1", "format = 99"), "format", id="another format"),
            pytest.param(GOOD_RECIPE.replace('severity = "warning"', 'severity = "fatal"'), "severity", id="severity"),
            pytest.param(GOOD_RECIPE.replace("2026-01-01", '"yesterday"'), "checked", id="no date"),
        ],
    )  # fmt: skip
    def test_a_broken_one_is_refused(
        self, doctor: Doctor, environment: Make, tmp_path: Path, content: str | bytes, says: str
    ) -> None:
        """The file, the place in it and what is wrong there are named, before anything is examined."""
        folder = _shelf(tmp_path, content)

        run = doctor(*QUICK, "--python", environment().python, "--recipes", folder)

        text = "\n".join(_one_clear_error(run, status=2))
        assert str(folder / "mine" / "my-trouble" / "recipe.toml") in text
        assert says in text

    def test_a_folder_in_its_place_is_refused(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """recipe.toml that is a folder cannot be read."""
        (tmp_path / "recipes" / "mine" / "my-trouble" / "recipe.toml").mkdir(parents=True)

        run = doctor(*QUICK, "--python", environment().python, "--recipes", tmp_path / "recipes")

        assert "cannot be read" in _one_clear_error(run, status=2)[0]

    @pytest.mark.parametrize("kind", ["missing", "empty", "a file"])
    def test_a_folder_without_any_is_refused(
        self, doctor: Doctor, environment: Make, tmp_path: Path, kind: str
    ) -> None:
        """A folder that holds no recipe is a mistake, not an empty shelf."""
        folder = tmp_path / "recipes"
        if kind == "empty":
            folder.mkdir()
        elif kind == "a file":
            folder.write_text("x")

        run = doctor(*QUICK, "--python", environment().python, "--recipes", folder)

        assert f"--recipes {folder}" in "\n".join(_one_clear_error(run, status=2))


class TestConfigurations:
    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("missing.yaml", None, "No such file"),
            ("folder.yaml", "folder", "Is a directory"),
            ("binary.yaml", b"\x00\xff\xfe\x93" * 999, "not UTF-8"),
            ("nul.yaml", b"stage: sft\x00\ndo_train: true\n", "not YAML"),
            ("large.yaml", b"stage: sft\n" + b"# padding\n" * 1_000_000, "too large"),
            ("broken.yaml", b"stage: [sft\ndo_train: true\n", "not YAML"),
            ("broken.json", b'{"stage": "sft", ', "not JSON"),
            ("deep.json", b"[" * 200_000, "not JSON"),
            ("list.json", b"[1, 2]", "no keys"),
            ("empty.yaml", b"", "no keys"),
            ("other.yaml", b"services:\n  web:\n    image: nginx\n", "no configuration that attn-doctor knows"),
            ("other.sh", b"#!/bin/sh\npython train.py --lr 1e-4\n", "no configuration that attn-doctor knows"),
        ],
    )
    def test_that_are_none_are_refused(
        self, doctor: Doctor, environment: Make, tmp_path: Path, name: str, content: bytes | str | None, says: str
    ) -> None:
        """Missing, unreadable, too large, broken or somebody else's: the file and the reason are named."""
        file = tmp_path / name
        if content == "folder":
            file.mkdir()
        elif isinstance(content, bytes):
            file.write_bytes(content)

        run = doctor(*QUICK, "--python", environment().python, "--config", file)

        lines = _one_clear_error(run, status=2)
        assert says in lines[0]
        assert f"--config {file}" in lines[1]


class TestTheInterpreter:
    def test_missing(self, doctor: Doctor, tmp_path: Path) -> None:
        """A path that is not there is a usage error: nothing was examined."""
        run = doctor(*QUICK, "--python", tmp_path / "nowhere")

        assert f"--python {tmp_path}/nowhere" in _one_clear_error(run, status=2)[1]

    def test_folder_without_python(self, doctor: Doctor, tmp_path: Path) -> None:
        """A folder that is no environment is told apart from one that is missing."""
        assert "holds no Python" in _one_clear_error(doctor(*QUICK, "--python", tmp_path), status=2)[0]

    def test_not_executable(self, doctor: Doctor, tmp_path: Path) -> None:
        """A text file is no interpreter."""
        (tmp_path / "python").write_text("print('hello')")

        assert "not executable" in _one_clear_error(doctor(*QUICK, "--python", tmp_path / "python"), status=2)[0]

    def test_empty(self, doctor: Doctor) -> None:
        """An unset shell variable (`--python "$VENV"`) does not silently mean the current folder."""
        _one_clear_error(doctor(*QUICK, "--python", ""), status=2)

    @pytest.mark.parametrize(
        ("source", "says"),
        [
            pytest.param("#!/bin/sh\nexit 0\n", "told nothing about itself", id="does nothing"),
            pytest.param("#!/bin/sh\necho broken >&2\nexit 7\n", "status 7", id="fails"),
            pytest.param("#!/bin/sh\nkill -SEGV $$\n", "SIGSEGV", id="crashes"),
            pytest.param("#!/bin/sh\nexec sleep 600\n", "did not answer within 2 s", id="hangs"),
            pytest.param("#!/no/such/interpreter\n", "cannot be started", id="no interpreter of its own"),
            pytest.param("\x7fELF garbage", "cannot be started", id="of another machine"),
            pytest.param("#!/bin/sh\necho '{}' > \"$4/interpreter.json\"\n", "told nothing about itself", id="lies"),
        ],
    )
    def test_that_is_no_python(self, doctor: Doctor, tmp_path: Path, source: str, says: str) -> None:
        """Something that starts and is no Python could not be examined: 3, not 2 and not a finding."""
        file = tmp_path / "python"
        file.write_bytes(source.encode("latin-1"))
        file.chmod(0o755)

        lines = _one_clear_error(doctor(*QUICK, "--timeout", 2, "--python", file), status=3)

        assert says in lines[0]
        assert str(file) in "\n".join(lines)

    def test_with_another_pythons_home(self, environment: Make, tmp_path: Path) -> None:
        """The reason that Python gives, and the variable that makes it so; the doctor itself runs under -E."""
        line = [sys.executable, "-E", "-m", "attn_doctor", *QUICK, "--python", str(environment().python)]
        env = clean_environment(PYTHONHOME=str(tmp_path))
        done = subprocess.run(line, capture_output=True, text=True, cwd=CHECKOUT, env=env)

        assert (done.returncode, done.stdout) == (3, "")
        assert "No module named 'encodings'" in done.stderr
        assert f"PYTHONHOME is {tmp_path}" in done.stderr

    def test_true(self, doctor: Doctor) -> None:
        """/bin/true succeeds at everything but answering."""
        _one_clear_error(doctor(*QUICK, "--python", "/bin/true"), status=3)

    def test_too_old(self, doctor: Doctor) -> None:
        """A Python before 3.9 is told to be too old, in words and without a traceback."""
        root = Path(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))) / "versions"
        old = sorted(
            python for version in ("2.7", "3.6", "3.7", "3.8") for python in root.glob(f"{version}.*/bin/python")
        )
        if not old:
            pytest.skip("no Python before 3.9 below PYENV_ROOT")

        for python in old:
            assert "too old" in "\n".join(_one_clear_error(doctor(*QUICK, "--python", python), status=3))


class TestAssumptions:
    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ("torch.vresion=2.0", "Did you mean torch.version"),
            ("nonsense.at.all=1", "no fact"),
            ("torch.version", "no value"),
            ("=", "no fact"),
            ("", "no value"),
            ("gpu.compute_capability=ninety", "compute capability"),
            ("driver.answers=perhaps", "neither yes nor no"),
            ("listed.gpu=many", "no number"),
            ("gpu.memory_mib=1e9999", "no number"),
            ("gpu.memory_mib=nan", "no number"),
        ],
    )
    def test_that_are_none_are_refused(self, doctor: Doctor, environment: Make, words: str, says: str) -> None:
        """A fact that is none, and a value that does not fit, are refused; a close name is offered."""
        run = doctor(*QUICK, "--python", environment().python, "--assume", words)

        assert says in "\n".join(_one_clear_error(run, status=2))

    @pytest.mark.parametrize(
        "name",
        [
            "",
            *("h900", "sm_", "sm_9000", "quadro of my uncle", "../../etc/passwd"),
        ],
    )
    def test_a_gpu_that_is_none(self, doctor: Doctor, environment: Make, name: str) -> None:
        """An unknown GPU is refused; it is not judged as if there were none."""
        run = doctor(*QUICK, "--python", environment().python, "--gpu", name)

        assert "--gpu" in "\n".join(_one_clear_error(run, status=2))


class TestChoices:
    @pytest.mark.parametrize("option", ["--only", "--skip"])
    def test_a_recipe_that_is_none(self, doctor: Doctor, environment: Make, option: str) -> None:
        """A misspelled recipe is not the same as none being wanted."""
        run = doctor(*QUICK, "--python", environment().python, option, "torch-cpu-biuld")

        assert f"{option} torch-cpu-biuld" in _one_clear_error(run, status=2)[1]

    @pytest.mark.parametrize(
        "options",
        [
            ("--timeout", "0"), ("--timeout", "-1"), ("--timeout", "abc"), ("--timeout", "1e99"), ("--timeout", "inf"),
            ("--timeout", "nan"), ("--format", "x"), ("--fail-on", "never"), ("--nonsense",), ("surplus",),
        ],
        ids=" ".join,
    )  # fmt: skip
    def test_a_value_out_of_range(self, doctor: Doctor, environment: Make, options: tuple[str, ...]) -> None:
        """Values that make no sense are wrong usage, and the option is named."""
        run = doctor(*QUICK, "--python", environment().python, *options)

        assert options[0] in _wrong_usage(run)

    def test_a_command_that_is_none(self, doctor: Doctor) -> None:
        """An unknown command is wrong usage."""
        assert "chekc" in _wrong_usage(doctor("chekc"))

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            pytest.param(None, "cannot be read", id="missing"),
            pytest.param(b"[[accept]\n", "not TOML", id="broken"),
            pytest.param(b"\xff\xfe\x00", "not UTF-8", id="binary"),
            pytest.param(b"", "no [[accept]]", id="empty"),
            pytest.param(b"[[accept]]\nid = 'torch-cpu-build'\n", "reason is missing", id="no reason"),
            pytest.param(b"[[accept]]\nid = 'torch-cpu-build'\nreason = 'x'\nuntil = 2027-01-01\n", "until", id="key"),
            pytest.param(b"[[accept]]\nid = 'torch-cpu-build'\nreason = 'x'\nexpires = 'soon'\n", "no date", id="date"),
            pytest.param(b"[[accept]]\nid = 'x'\nreason = 'x'\nsubject = 3\n", "subject is no text", id="subject"),
            pytest.param(b"accept = 5\n", "no [[accept]]", id="other things"),
            pytest.param(
                b"accept = [5]\n",
                "[[accept]] number 1",
                id="a number",
            ),
        ],
    )
    def test_an_accept_file(
        self, doctor: Doctor, environment: Make, tmp_path: Path, content: bytes | None, says: str
    ) -> None:
        """A file of accepted findings that cannot be read whole accepts nothing."""
        file = tmp_path / "accepted.toml"
        if content is not None:
            file.write_bytes(content)

        run = doctor(*QUICK, "--python", environment().python, "--accept", file)

        assert says in "\n".join(_one_clear_error(run, status=2))

    @pytest.mark.parametrize("option", ["--only", "--skip"])
    def test_a_name_that_is_empty(self, doctor: Doctor, environment: Make, option: str) -> None:
        """`--only "$LIBRARY"` with the variable not set judges neither everything nor nothing."""
        run = doctor(*QUICK, "--python", environment().python, option, " ,")

        assert "names nothing" in _one_clear_error(run, status=2)[0]

    def test_nothing_left_to_judge_by(self, doctor: Doctor, environment: Make) -> None:
        """A gate that cannot fail is wrong usage."""
        run = doctor(*QUICK, "--python", environment().python, "--only", "torch", "--skip", "torch")

        assert "no recipe to judge by" in _one_clear_error(run, status=2)[0]

    def test_an_acceptance_that_expired(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """It gates again from the day after; one that still holds does not gate, and is shown as accepted."""
        env = environment()
        env.package("flash-attn", "2.8.3")  # without its extension: an error
        file = tmp_path / "accepted.toml"
        line = "[[accept]]\nid = 'flash-attn-extension-missing'\nreason = 'known'\nexpires = "

        file.write_text(line + "2020-01-01\n")
        expired = doctor(*QUICK, "--json", "--python", env.python, "--accept", file)
        file.write_text(line + "9999-01-01\n")
        holding = doctor.check(env, "--quick", "--accept", file)

        assert expired.status == 1
        assert expired.findings["flash-attn-extension-missing"]["accepted"] is None
        assert "flash-attn-extension-missing was accepted until 2020-01-01" in expired.stderr
        assert holding.status == 0
        assert holding.findings["flash-attn-extension-missing"]["accepted"]["reason"] == "known"


class TestOutput:
    def test_into_a_missing_folder(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """It is told before anything is examined."""
        file = tmp_path / "missing" / "report.txt"

        run = doctor(*QUICK, "--python", environment().python, "--output", file)

        assert f"--output {file}" in _one_clear_error(run, status=2)[1]

    @pytest.mark.parametrize("command", [("explain", "-"), ("trace", "m:f")])
    def test_onto_a_folder(self, doctor: Doctor, tmp_path: Path, command: tuple[str, ...]) -> None:
        """A folder is not replaced; only `check` writes reports into one."""
        run = doctor(*command, "--output", tmp_path)

        assert "folder" in _one_clear_error(run, status=2)[0]
        assert tmp_path.is_dir()

    def test_into_a_file(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """The report lies there whole, nothing on standard output, nothing else beside it."""
        file = tmp_path / "out" / "report.json"
        file.parent.mkdir()

        run = doctor(*QUICK, "--json", "--python", environment().python, "--output", file)

        assert (run.status, run.stdout, run.stderr) == (0, "", "")
        assert file.read_text().startswith("{")
        assert os.listdir(file.parent) == ["report.json"]

    def test_into_a_pipe_leaves_it_one(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """/dev/stdout, /dev/null and pipes are written to, never replaced: root would lose /dev/null."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            doctor(*QUICK, "--json", "--python", environment().python, "--output", pipe)

            assert stat.S_ISFIFO(pipe.lstat().st_mode)
            assert os.read(reader, 1) == b"{"
        finally:
            os.close(reader)

    def test_through_a_link_leaves_it_one(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """`latest.json -> reports/today.json` is followed."""
        link = tmp_path / "latest.json"
        (tmp_path / "today.json").write_text("")
        link.symlink_to("today.json")

        doctor(*QUICK, "--json", "--python", environment().python, "--output", link)

        assert link.is_symlink()
        assert (tmp_path / "today.json").read_text().startswith("{")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
    @pytest.mark.parametrize("arguments", [("recipes", "list"), QUICK, ("schema",), ("--help",)], ids=" ".join)
    def test_onto_a_full_disk(self, environment: Make, arguments: tuple[str, ...]) -> None:
        """A report that cannot be written is no bug of ours, and not status 0."""
        options = ("--python", environment().python) if arguments is QUICK else ()
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                command(*arguments, *options),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                cwd=CHECKOUT,
                env=clean_environment(),
                timeout=60,
            )

        assert done.returncode not in (0, 70), done.stderr
        assert "Traceback" not in done.stderr
        assert "No space left" in done.stderr

    @pytest.mark.parametrize("arguments", [("recipes", "list"), ("recipes", "facts"), ("schema",), QUICK], ids=" ".join)
    def test_into_a_reader_that_left(self, environment: Make, arguments: tuple[str, ...]) -> None:
        """`| head -1`: not a word on stderr."""
        options = ("--python", environment().python) if arguments is QUICK else ()

        assert _closed_stdout(*arguments, *options).stderr == b""

    @pytest.mark.parametrize(
        ("options", "sick"),
        [
            (("--json",), True),
            ((), True),
            (("--json",), False),
            ((), False),
        ],
        ids=["json, sick", "text, sick", "json, fine", "text, fine"],
    )
    def test_into_a_reader_that_left_keeps_the_status(
        self, environment: Make, options: tuple[str, ...], sick: bool
    ) -> None:
        """With `set -o pipefail`, `| head -1` makes a broken environment no healthy one, nor the other way round."""
        env = environment()
        if sick:
            env.package("flash-attn", "2.8.3")

        assert _closed_stdout(*QUICK, *options, "--python", env.python).returncode == int(sick)

    @pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
    @pytest.mark.parametrize("sick", [False, True], ids=["fine", "sick"])
    def test_with_streams_that_a_daemon_closed(
        self, doctor: Doctor, environment: Make, tmp_path: Path, closed: tuple[int, ...], sick: bool
    ) -> None:
        """`>&-` changes no verdict, is no bug of ours, and no file gets what was meant for standard output."""
        env = environment()
        if sick:
            env.package("flash-attn", "2.8.3")

        def close() -> None:
            for number in closed:
                os.close(number)

        options = ("--python", env.python, "--prometheus", tmp_path / "metrics.prom")
        run = doctor(*QUICK, *options, before=close, env={"TMPDIR": str(tmp_path)})
        missing = doctor(*QUICK, "--python", tmp_path / "none", before=close, env={"TMPDIR": str(tmp_path)})

        assert (run.status, run.stderr, missing.status) == (int(sick), "", 2)
        assert sorted(os.listdir(tmp_path)) == ["environment-1", "metrics.prom"]
        assert (tmp_path / "metrics.prom").read_text().startswith("# HELP")


#: A name that no file system takes: as root too, looking at it fails, as it does below somebody else's folder.
_LONG = "/" + "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--quick", "--python", _LONG),
        ("check", "--quick", "--output", _LONG),
        ("check", "--quick", "--output", f"{_LONG}/"),
        ("check", "--quick", "--prometheus", _LONG),
        ("check", "--quick", "--accept", _LONG),
        ("check", "--quick", "--config", _LONG),
        ("check", "--quick", "--recipes", _LONG),
        ("check", "--quick", "--output", "/tmp/", "--expect", f"@{_LONG}"),
        ("fleet", "merge", _LONG),
        ("fleet", "merge", "/tmp", "--output", _LONG),
        ("fleet", "hook", "slurm-job", "--plan", _LONG),
        ("trace", "--hf", f"{_LONG}/config.json"),
        ("undo", "--python", _LONG),
        ("explain", "--output", _LONG, "/dev/null"),
        ("compare", _LONG, _LONG),
    ],
    ids=lambda words: " ".join(words).replace(_LONG, "LONG").replace("/", "_"),
)
def test_a_place_that_cannot_be_looked_at(doctor: Doctor, words: tuple[str, ...]) -> None:
    """Whatever option it is for, it is what a person named, and no bug of ours."""
    lines = _one_clear_error(doctor(*words), status=2)

    assert "bug" not in lines[0]


@pytest.mark.parametrize(("named", "status"), [(True, 2), (False, 3)])
def test_a_file_system_that_refuses_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, named: bool, status: int
) -> None:
    """Wrong usage where a person named the place, else the node could not be examined."""
    monkeypatch.setattr(sys, "argv", ["attn-doctor", "check", *(["--python=/srv/env"] if named else [])])

    for number in (errno.EACCES, errno.ESTALE, errno.EIO):
        error = OSError(number, os.strerror(number), "/srv/env/bin/python")
        assert guard.refused(error) == status
        told = capsys.readouterr().err
        assert os.strerror(number) in told
        assert "/srv/env/bin/python" in told


@pytest.mark.parametrize("words", [(*QUICK, "--output", "r.json"), ("trace", "f.py:build")], ids=" ".join)
def test_in_a_folder_that_is_gone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It is said, and is no bug of ours."""
    (tmp_path / "gone").mkdir()
    line = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {' '.join(command(*words))}"
    env = clean_environment(PYTHONPATH=str(CHECKOUT))
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=env)

    assert done.returncode in (2, 3), done.stderr
    assert "attn-doctor: " in done.stderr
    assert "bug" not in done.stderr


def _closed_stdout(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Runs it with a standard output that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            command(*arguments),
            stdout=writer,
            stderr=subprocess.PIPE,
            cwd=CHECKOUT,
            env=clean_environment(PYTHONUNBUFFERED=None),
            timeout=60,
        )
    finally:
        os.close(writer)


class TestTheLocale:
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
    @pytest.mark.parametrize("options", [(), ("--json",), ("--format", "summary")], ids=" ".join)
    def test_that_lacks_a_character(
        self, doctor: Doctor, environment: Make, tmp_path: Path, encoding: str, options: tuple[str, ...]
    ) -> None:
        """Characters that standard output cannot show, or that are none, are written as escapes; JSON stays JSON."""
        config = os.fsdecode(os.fsencode(str(tmp_path)) + b"/caf\xe9-\xe2\x86\x92.yaml")
        Path(config).write_text("model_name_or_path: x\nstage: sft\n")
        run = doctor(
            *QUICK, *options, "--python", environment().python, "--config", config, env={"PYTHONIOENCODING": encoding}
        )

        assert run.stderr == ""
        assert run.status == 0
        if "--json" in options:
            assert run.report["quick"] is True


class TestTheTemporaryFolder:
    def test_that_is_missing_is_no_trouble(self, doctor: Doctor, environment: Make) -> None:
        """TMPDIR names a folder that a finished job took along: another temporary folder is taken."""
        assert doctor.check(environment(), "--quick", env={"TMPDIR": "/nowhere/at/all"}).status == 0

    def test_that_cannot_be_written(self, doctor: Doctor, environment: Make) -> None:
        """With no file system that takes a byte nothing can be examined: 3, and TMPDIR is named."""
        run = doctor(
            *QUICK,
            "--python",
            environment().python,
            env={"TMPDIR": "/tmp"},
            before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),  # as good as a full disk, for root too
        )

        assert "TMPDIR is /tmp" in "\n".join(_one_clear_error(run, status=3))

    @pytest.mark.parametrize("size", [16, 600])
    def test_that_fills_up(self, doctor: Doctor, environment: Make, size: int) -> None:
        """A disk that is full half-way is told as what it is: neither a bug of ours nor a broken interpreter."""
        run = doctor(
            "check",
            "--python",
            environment().python,
            before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
        )

        assert run.status == 3, (run.stdout, run.stderr)
        assert "Traceback" not in run.stderr

    def test_is_gone_afterwards(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """Nothing is left of the private folder, whether the examination came to its end or not."""
        (tmp_path / "tmp").mkdir()
        env = environment()

        doctor.check(env, env={"TMPDIR": str(tmp_path / "tmp")})
        doctor("check", "--python", "/bin/true", env={"TMPDIR": str(tmp_path / "tmp")})
        doctor(*QUICK, "--python", env.python, "--config", "/nowhere.yaml", env={"TMPDIR": str(tmp_path / "tmp")})

        assert os.listdir(tmp_path / "tmp") == []


#: Makes one function of the doctor's raise, in the doctor's process alone: the environment's does not import it.
BREAKS_JUDGE = """
import importlib.machinery, sys

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "attn_doctor.diagnose.judge":
            return None
        spec = super().find_spec(name, path, target)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            def judge(*arguments, **options):
                raise ZeroDivisionError("planted")
            module.judge = judge

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""


class TestABugOfOurs:
    def test_leaves_a_log(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """Status 70, three lines for the person, and the whole story in a file that is named."""
        (tmp_path / "tmp").mkdir()
        (tmp_path / "planted").mkdir()
        (tmp_path / "planted" / "sitecustomize.py").write_text(BREAKS_JUDGE)
        changes = {"PYTHONPATH": str(tmp_path / "planted"), "TMPDIR": str(tmp_path / "tmp")}

        run = doctor(*QUICK, "--python", environment().python, env=changes)

        lines = _one_clear_error(run, status=70)
        assert "bug of attn-doctor" in lines[0]
        assert "ZeroDivisionError: planted" in lines[1]
        logs = list((tmp_path / "tmp").iterdir())
        assert len(logs) == 1
        assert str(logs[0]) in lines[2]
        log = logs[0].read_text()
        assert "Traceback" in log
        assert "--quick" in log

    def test_while_it_starts_leaves_one_too(self, doctor: Doctor, environment: Make, tmp_path: Path) -> None:
        """A PYTHONPATH for the patient that hides a dependency of ours is no finding (1), and no traceback."""
        (tmp_path / "planted").mkdir()
        (tmp_path / "planted" / "packaging.py").write_text("raise RuntimeError('an old packaging')")

        run = doctor(*QUICK, "--python", environment().python, env={"PYTHONPATH": str(tmp_path / "planted")})

        assert run.status == 70
        assert "Traceback" not in run.stderr


class TestInterrupted:
    """^C and scancel, while the environment hangs: the right status, nothing running, nothing left."""

    @pytest.mark.parametrize("package", ["torch", "flash_attn"])
    @pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
    def test_takes_everything_along(
        self, environment: Make, tmp_path: Path, package: str, number: signal.Signals, status: int
    ) -> None:
        """The import that hangs is ended with the doctor, at once and not at its own timeout."""
        ended, pid = self._interrupt(environment(), tmp_path, package, number)

        assert ended.returncode == status
        assert b"Traceback" not in ended.stderr
        assert ended.stdout == b""
        assert gone(pid)
        assert os.listdir(tmp_path / "tmp") == []

    @pytest.mark.parametrize("package", ["torch", "flash_attn"])
    def test_killed_leaves_nothing_running(self, environment: Make, tmp_path: Path, package: str) -> None:
        """Nobody can clean up after SIGKILL; but an import that hangs does not wait for ever either."""
        ended, pid = self._interrupt(environment(), tmp_path, package, signal.SIGKILL)

        assert ended.returncode == -signal.SIGKILL
        assert gone(pid)

    def test_under_nohup_goes_on(self, environment: Make, tmp_path: Path) -> None:
        """A connection that is gone ends nothing that was told to outlive it."""
        (tmp_path / "tmp").mkdir()
        env = environment()
        env.package("flash-attn", "2.8.3", stubs.HANG.replace("600", "3"))
        process = subprocess.Popen(
            ["nohup", *command("check", "--json", "--python", env.python)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=CHECKOUT,
            env=clean_environment(STUB_PID_FILE=str(tmp_path / "pid")),
        )
        written(tmp_path / "pid")
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=60)

        assert process.returncode == 1
        assert out.startswith(b"{")

    @pytest.mark.parametrize("raised", ["(_ for _ in ()).throw(KeyboardInterrupt)", "exec('raise KeyboardInterrupt')"])
    def test_while_a_command_is_loaded(self, tmp_path: Path, raised: str) -> None:
        """^C before any command runs, or while a dataclass is made: one word, and no traceback."""
        (tmp_path / "interrupted.py").write_text(
            "import sys, attn_doctor.__main__ as m\n"
            f"m._run = lambda **_: {raised}\n"
            "sys.exit(m.main())\n"
        )  # fmt: skip
        # As a module: Python looks only there whether it shall end itself by SIGINT.
        done = subprocess.run(
            [sys.executable, "-m", "interrupted"],
            capture_output=True, text=True, cwd=tmp_path, env=clean_environment(PYTHONPATH=str(CHECKOUT)),
        )  # fmt: skip

        assert (done.returncode, done.stderr) == (130, "attn-doctor: interrupted\n")

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_takes_along_what_an_import_started(
        self, environment: Make, tmp_path: Path, number: signal.Signals
    ) -> None:
        """A compiler that an import has started does not go on without it."""
        (tmp_path / "tmp").mkdir()
        env = environment()
        env.package("flash-attn", "2.8.3", stubs.BUILDS)
        process = self._start(tmp_path, "check", "--timeout", "300", "--python", env.python)
        compiler = int(written(tmp_path / "pid"))
        try:
            process.send_signal(number)
            process.communicate(timeout=60)

            assert gone(compiler)
        finally:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(compiler, signal.SIGKILL)

    def test_while_the_interpreter_hangs(self, tmp_path: Path) -> None:
        """The same before anything is known about the interpreter."""
        (tmp_path / "tmp").mkdir()
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
        python.chmod(0o755)
        process = self._start(tmp_path, "check", "--python", python)
        pid = int(written(tmp_path / "pid"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

        assert process.returncode == 130
        assert b"Traceback" not in err
        assert gone(pid)
        assert os.listdir(tmp_path / "tmp") == []

    @classmethod
    def _interrupt(
        cls, env: Environment, folder: Path, package: str, number: signal.Signals
    ) -> tuple[subprocess.CompletedProcess[bytes], int]:
        (folder / "tmp").mkdir()
        env.package(package.replace("_", "-"), "2.8.3", stubs.HANG)
        process = cls._start(folder, "check", "--timeout", "300", "--python", env.python)
        pid = int(written(folder / "pid"))
        try:
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            return subprocess.CompletedProcess(process.args, process.returncode, out, err), pid
        finally:
            process.kill()
            if not gone(pid, within=1.0):
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("the import still ran")

    @staticmethod
    def _start(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=CHECKOUT,
            env=clean_environment(TMPDIR=str(folder / "tmp"), STUB_PID_FILE=str(folder / "pid")),
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
        )


def test_python_dash_m_means_that_python(doctor: Doctor, environment: Make) -> None:
    """Without --python, `python -m attn_doctor` examines the Python it was started with, whatever is activated."""
    run = doctor("check", "--quick", "--json", env={"VIRTUAL_ENV": str(environment().folder)})

    assert Path(run.report["target"]["python"]).parent == Path(sys.executable).parent


@pytest.mark.parametrize(
    "options", [("--json",), ("--format", "markdown"), ("--output", "x.json"), ("--prometheus", "x")]
)
def test_a_command_has_no_report_in_another_form(doctor: Doctor, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Options that would be passed over are refused before the command runs."""
    ran = tmp_path / "ran"
    run = doctor("check", *options, "--", "touch", ran)

    _one_clear_error(run, status=2)
    assert not ran.exists()
