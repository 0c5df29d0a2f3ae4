"""What only prints or reads files imports nothing heavy, in any process that it starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, Run, needs_torch

Make = Callable[..., Environment]

#: Notes every import of something heavy in every process with this on its path: the doctor's, the patient's, forked.
WATCH = """
import os, sys

HEAVY = {"typer", "torch", "triton", "flash_attn", "x_transformers", "pydantic", "click", "rich", "hatchling"}
HEAVY |= {
    "attn_doctor." + one
    for one in (
        "recipes.schema.recipe_file", "workflows.kernels", "probe.configs", "probe.live.imports_and_torch",
        "model.trace", "model.kernels",
    )
}

def who():
    if "attn_doctor" not in sys.modules:
        return "patient"
    frame = sys._getframe()
    while frame is not None:  # the nearest of the two: typer calls the command
        for name, answer in (("/typer/", "typer"), ("/attn_doctor/", "doctor")):
            if name in frame.f_code.co_filename:
                return answer
        frame = frame.f_back
    return "doctor"

class Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in HEAVY:
            with open(os.environ["WATCH_FILE"], "a") as file:
                file.write(who() + " " + name + "\\n")

sys.meta_path.insert(0, Watch)
"""
#: Typer 0.29 turns every option's value into its type through pydantic (70 ms), older
#: ones do not; what is asked of the commands that typer reads is whether attn-doctor does.
LIGHT = {"doctor rich", "doctor typer", "typer rich", "typer pydantic"}
#: What the front reads without typer.
PLAIN = {("--help",), ("--version",)}
#: What a full check needs, and the help of all commands.
FULL = {
    f"doctor attn_doctor.{one}"
    for one in ("workflows.kernels", "probe.live.imports_and_torch", "model.trace", "model.kernels")
}


class Watched:
    """The command line with the watch in every process; `imported` is what the last call noted."""

    def __init__(self, doctor: Doctor, folder: Path) -> None:
        self._doctor = doctor
        self._file = folder / "imported"
        self._path = folder / "watch"
        self._path.mkdir()
        (self._path / "sitecustomize.py").write_text(WATCH)
        self.imported: set[str] = set()

    def __call__(self, *arguments: object) -> Run:
        self._file.write_text("")
        run = self._doctor(*arguments, env={"PYTHONPATH": str(self._path), "WATCH_FILE": str(self._file)})
        self.imported = set(self._file.read_text().splitlines())
        return run


@pytest.fixture
def watched(doctor: Doctor, tmp_path: Path) -> Watched:
    return Watched(doctor, tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("check", "--help"),
        ("recipes", "--help"),
        ("recipes", "list"),
        ("recipes", "show", "torch-cpu-build"),
        ("recipes", "facts"),
        ("schema",),
    ],
    ids=" ".join,
)
def test_what_only_prints_imports_nothing_heavy(watched: Watched, arguments: tuple[str, ...]) -> None:
    """Help, version, recipes and schema come without torch, Triton, pydantic and click."""
    run = watched(*arguments)

    assert run.status == 0
    assert run.stderr == ""
    assert run.stdout.strip()
    assert watched.imported <= (set() if arguments in PLAIN else LIGHT | FULL)


def test_status_imports_nothing_at_all(watched: Watched, environment: Make, tmp_path: Path) -> None:
    """A hook has five seconds on a busy node: no process is started and nothing heavy is loaded, not even rich."""
    watched("check", "--quick", "--python", environment().python, "--output", f"{tmp_path}/reports/")

    run = watched("status", "--from", tmp_path / "reports")

    assert run.status == 0
    assert run.stdout.startswith("attn-doctor ")
    assert watched.imported == set()


@pytest.mark.parametrize("options", [(), ("--json",), ("--format", "markdown"), ("--gpu", "h100")], ids=" ".join)
def test_quick_imports_none_of_it_in_any_process(watched: Watched, environment: Make, options: tuple[str, ...]) -> None:
    """--quick examines torch and the packages around it without importing one of them anywhere."""
    env = environment(torch=True)
    env.package("flash-attn", "2.8.3", "raise SystemExit('imported')")
    env.package("x-transformers", "1.30.1", "raise SystemExit('imported')")

    run = watched("check", "--quick", "--python", env.python, *options)

    assert "x-transformers-rotary-fp32" in run.stdout
    assert watched.imported <= {"doctor rich"}


@needs_torch
def test_the_watch_sees_what_a_full_check_imports(watched: Watched, environment: Make) -> None:
    """Without --quick the patient imports torch and its packages; the doctor still does not."""
    env = environment(torch=True)
    env.package("x-transformers", "1.30.1")

    watched("check", "--python", env.python)

    assert {"patient torch", "patient x_transformers"} <= watched.imported
    assert not {one for one in watched.imported if not one.startswith("patient ")} - LIGHT - FULL


def test_the_checker_of_recipes_is_imported_by_who_needs_it(watched: Watched) -> None:
    """The format's checker, and pydantic with it, is for `recipes test` and for recipes of one's own."""
    run = watched("recipes", "test", "torch-cpu-build")

    assert run.status == 0
    assert "attn_doctor.recipes.schema.recipe_file" in {one.split()[1] for one in watched.imported}


def test_help_names_every_option_and_status(doctor: Doctor) -> None:
    """`check --help` tells what the exit statuses mean."""
    words = " ".join(doctor("check", "--help").stdout.split())

    for option in ("--python", "--quick", "--config", "--gpu", "--assume", "--only", "--skip", "--recipes", "--accept",
                   "--fail-on", "--strict", "--timeout", "--format", "--json", "--output", "--verbose"):  # fmt: skip
        assert option in words
    assert "Exit status: 0" in words


def test_no_arguments_is_help(doctor: Doctor) -> None:
    """Typing the bare command explains itself, with the status of wrong usage."""
    run = doctor()

    assert "Usage" in run.stdout + run.stderr
    assert run.status == 2


class TestTheReport:
    """What a person, a machine and an issue tracker get of one and the same examination."""

    @pytest.fixture
    def sick(self, environment: Make) -> Environment:
        env = environment()
        env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")
        env.package("flash-attn", "2.8.3", "raise ImportError('x.so: undefined symbol: _ZN3c10')")
        return env

    def test_names_the_interpreter_first(self, doctor: Doctor, sick: Environment) -> None:
        """The first words say which environment was examined, its Python, and why that one; -v the interpreter."""
        said = doctor("check", "--quick", "--python", sick.folder).stdout.partition("\n\n")[0]
        whole = doctor("check", "--quick", "-v", "--python", sick.folder).stdout.splitlines()[0]

        assert str(sick.folder) in said  # whole, on a line of its own where it is long
        assert "Python 3." in " ".join(said.split())
        assert "--python" in said
        assert str(sick.python) in whole
        assert "venv" in whole

    @pytest.mark.parametrize("options", [(), ("-v",)], ids=["short", "verbose"])
    def test_is_plain_where_nobody_watches(self, doctor: Doctor, sick: Environment, options: tuple[str, ...]) -> None:
        """No escape codes in a pipe, nor with NO_COLOR."""
        run = doctor("check", "--python", sick.python, *options, env={"NO_COLOR": "1", "TERM": "xterm-256color"})

        assert "\x1b" not in run.stdout
        assert "x-transformers-rotary-fp32" in run.stdout
        assert ("python.executable is" in run.stdout) == bool(options)

    def test_comes_in_order_of_severity(self, doctor: Doctor, sick: Environment) -> None:
        """Errors stand before warnings, and the exit status is theirs."""
        run = doctor.check(sick)
        severities = [finding["severity"] for finding in run.report["findings"]]

        assert severities == sorted(severities, key=["error", "warning", "info"].index)
        assert run.status == 1

    def test_masks_names_in_markdown(self, doctor: Doctor, sick: Environment) -> None:
        """A pasted report names neither home nor host, unless asked."""
        changes = {"HOME": str(sick.folder), "SLURMD_NODENAME": "node-of-somebody"}
        masked = doctor("check", "--quick", "--format", "markdown", "--python", sick.python, env=changes)
        plain = doctor("check", "--quick", "--format", "markdown", "--show-names", "--python", sick.python, env=changes)

        assert str(sick.folder) not in masked.stdout
        assert "node-of-somebody" not in masked.stdout
        assert str(sick.folder) in plain.stdout
        assert "node-of-somebody" in plain.stdout


#: Top-level modules that a start may load beside attn-doctor, on one Python or another; the longest lists measured
#: what each costs. A checkout parses TOML, and the literals of libraries, where a wheel has JSON.
ALLOWED = {
    "abc", "argparse", "ast", "atexit", "builtins", "codecs", "collections", "contextlib", "contextvars", "copyreg",
    "datetime", "encodings", "enum", "errno", "fcntl", "fnmatch", "functools", "gc", "genericpath", "glob",
    "importlib", "io", "ipaddress", "itertools", "json", "keyword", "locale", "math", "ntpath", "operator", "os",
    "packaging", "pathlib", "posixpath", "re", "reprlib", "resource", "select", "selectors", "shlex", "signal", "site",
    "sre_compile", "sre_constants", "sre_parse", "stat", "string", "struct", "subprocess", "textwrap", "threading",
    "time", "tomli", "tomllib", "types", "typing", "urllib", "warnings", "weakref", "zlib",
}  # fmt: skip
PLAINLY = {"argparse", "ast", "atexit", "packaging", "subprocess", "threading", "struct", "tomllib", "weakref", "zlib"}
#: rich, and what it imports.
OF_RICH = {
    "colorsys", "copy", "dataclasses", "dis", "inspect", "linecache", "opcode", "pickle", "random", "rich", "token",
    "tokenize", "bisect", "getpass", "configparser", "logging", "traceback", "html", "platform", "pprint", "sysconfig",
}  # fmt: skip
LOADED = """
import sys
sys.argv[0] = "attn-doctor"
before = {*sys.modules}
from attn_doctor.__main__ import main
main()
loaded = {name.partition(".")[0] for name in {*sys.modules} - before}
print(*sorted(name for name in loaded if not name.startswith("_")), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--version"], ALLOWED - PLAINLY),
        (["--help"], ALLOWED - PLAINLY),
        (["check", "--quick", "--python"], ALLOWED | OF_RICH),
        (["status", "--from", "."], ALLOWED - PLAINLY | {"ast", "threading"}),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_what_a_start_loads_is_known(
    arguments: list[str], allowed: set[str], environment: Make, tmp_path: Path
) -> None:
    """Each module more is paid for by every hook and every prolog: tempfile with random and three compressors, hashlib
    with OpenSSL, packaging's parsers and typer are not among them."""
    more = [environment(torch=True).python] if arguments[-1] == "--python" else []
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments, *map(str, more)], capture_output=True, text=True, cwd=tmp_path
    )

    loaded = set(run.stderr.splitlines()[-1].split())
    assert "attn_doctor" in loaded
    assert loaded - allowed - {"attn_doctor", "attn"} == set()
