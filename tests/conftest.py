"""What every test may use: the command line as a person runs it, and throwaway environments to examine.

`doctor(...)` runs `python -m attn_doctor ...` with nothing of this shell's environment that would change the answer: in
the process of the tests (in_process.py), unless a test is about what only a process of its own has. `environment()`
makes a fresh virtual environment without pip, to plant packages in; `environment(torch=True)` also sees the
site-packages of the Python that runs the tests, torch among them.
"""

from __future__ import annotations

import compileall
import ensurepip
import functools
import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import venv
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import settings

import attn_doctor
from tests import in_process
from tests.unit_files import NEEDED_BY_FIXTURE, NOT_UNIT, STARTING_FIXTURES, UNIT_FOLDERS, in_unit_folder, unit_alone

# How long an example takes says how busy the machine is: no law here is about time. The examples of one state of the
# code are the same each time: what passed here passes where a change is tried before it is taken.
settings.register_profile("attn-doctor", deadline=None, derandomize=True, database=None)
settings.load_profile("attn-doctor")

#: Fewer examples in the inner loop: `pytest -m unit` is asked for many times an hour.
settings.register_profile("unit", deadline=None, derandomize=True, max_examples=8, database=None)

#: Others each time: `pytest --hypothesis-profile explore`.
settings.register_profile("explore", deadline=None, max_examples=200)

# A process of the tests holds a million objects to its end: looking for garbage among them after every 700 new ones
# costs a tenth of its time.
gc.set_threshold(50_000, 20, 20)

# Three processes of tests on two processors: a thread of OpenMP that waits for work would take one of them from another
# test meanwhile, five times what the work itself takes. How many threads there are stays as it is.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

# A shell starts what runs in its background with ^C ignored, and what the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: `-m attn_doctor` finds the package here, installed or not.
CHECKOUT = Path(attn_doctor.__file__).resolve().parent.parent

#: Variables that change what the doctor examines, finds or writes.
_LEFT_OUT = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURMD_NODENAME", "NO_COLOR", "FORCE_COLOR",
    "COLUMNS", "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "TMPDIR", "TRITON_CACHE_DIR", "HF_HOME",
)  # fmt: skip

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="the Python that runs the tests has no torch")


@dataclass(frozen=True, kw_only=True)
class Run:
    """How one call of the command line ended."""

    arguments: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @functools.cached_property
    def report(self) -> dict[str, Any]:
        """The JSON report on standard output."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value

    @property
    def findings(self) -> dict[str, dict[str, Any]]:
        """Findings by id, symptoms that hang under another one too."""
        found: dict[str, dict[str, Any]] = {}
        waiting = list(self.report["findings"])
        while waiting:
            finding = waiting.pop(0)
            found.setdefault(finding["id"], finding)
            waiting += finding["symptoms"]
        return found

    def fact(self, name: str) -> Any:
        """A known fact's value; otherwise its state in parentheses, with the reason: `(absent) no torch`."""
        fact = self.report["facts"][name]
        return fact["value"] if fact["state"] == "known" else f"({fact['state']}) {fact['reason']}"


def clean_environment(**changes: str | None) -> dict[str, str]:
    """This process's variables without those that would change an answer; None takes one out."""
    kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    kept.update({name: value for name, value in changes.items() if value is not None})
    return {name: value for name, value in kept.items() if changes.get(name, "") is not None}


def command(*arguments: object) -> list[str]:
    """The command line as a list, for tests that start it themselves (cwd must be CHECKOUT)."""
    return [sys.executable, "-m", "attn_doctor", *(str(argument) for argument in arguments)]


class Doctor:
    """Runs the command line; `check` also holds its report against the schema. In the process of the tests, unless
    what is asked of it needs one of its own."""

    def __init__(self, schema: Callable[[], Any]) -> None:
        self._schema = schema

    def __call__(
        self,
        *arguments: object,
        env: Mapping[str, str | None] | None = None,
        cwd: Path = CHECKOUT,
        stdin: bytes = b"",
        limit: float = 120.0,
        before: Callable[[], None] | None = None,
        own_process: bool | None = None,
    ) -> Run:
        """`env` changes variables (None removes one); over `limit` seconds is a failure; `before` runs in the child.

        `own_process`: for a test about what only a process has, such as its imports and signals; None: where there is
        a `before`, or a variable that is read when a process starts, or several run at once.
        """
        words = tuple(str(argument) for argument in arguments)
        changes = dict(env or {})
        if own_process is None:
            alone = threading.current_thread() is threading.main_thread()
            own_process = before is not None or not alone or in_process.needs_a_start(changes)
        if own_process:
            findable = {} if cwd == CHECKOUT else {"PYTHONPATH": str(CHECKOUT)}
            started = subprocess.run(
                [sys.executable, "-m", "attn_doctor", *words],
                capture_output=True,
                timeout=limit,
                cwd=cwd,
                env=clean_environment(**{**findable, **changes}),
                preexec_fn=before,
                **({"input": stdin} if stdin else {"stdin": subprocess.DEVNULL}),
            )
            status, out, err = started.returncode, started.stdout, started.stderr
        else:
            status, out, err = in_process.run(
                words, cwd=cwd, environment=clean_environment(**changes), stdin=stdin, limit=limit
            )
        return Run(
            arguments=words,
            status=status,
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
        )

    def check(self, environment: Environment, *arguments: object, **options: Any) -> Run:
        """`check --json` of an environment: a whole and valid report, whatever is wrong with the environment."""
        run = self("check", "--json", "--python", environment.python, *arguments, **options)
        assert run.stderr == ""
        self._schema().validate(run.report)
        assert run.report["summary"]["exit_status"] == run.status
        # Two environments may share their base Python: the report must be about the one that was named.
        assert Path(run.report["target"]["python"]).parent == environment.python.parent
        return run


def run_here(
    *arguments: object,
    cwd: Path = CHECKOUT,
    env: Mapping[str, str | None] | None = None,
    stdin: str = "",
    limit: float = 300.0,
) -> subprocess.CompletedProcess[str]:
    """The command line in this process, told as subprocess.run tells it; arguments as those of `Doctor`."""
    words = tuple(str(argument) for argument in arguments)
    environment = clean_environment(**dict(env or {}))
    status, out, err = in_process.run(words, cwd=cwd, environment=environment, stdin=stdin.encode(), limit=limit)
    return subprocess.CompletedProcess(
        ["attn-doctor", *words], status, out.decode(errors="replace"), err.decode(errors="replace")
    )


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment to plant things in."""

    folder: Path
    python: Path
    site: Path
    """Its site-packages."""

    def module(self, name: str, source: str = "") -> Path:
        """A package of that import name; gives its __init__.py."""
        file = self.site.joinpath(*name.split("."), "__init__.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
        return file

    def metadata(self, name: str, version: str = "1.0", *more: str) -> Path:
        """A dist-info folder; `more` are further lines of METADATA."""
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *more]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "RECORD").write_text(f"{info.name}/METADATA,,\n")
        return info

    def pip(self) -> None:
        """The pip that Python brings, unpacked: ensurepip would run it, and compile its thousand modules."""
        (wheel,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(self.site)

    def package(self, name: str, version: str, source: str = "", *, imports: str | None = None) -> Path:
        """Both: a distribution and the package that it brings."""
        self.metadata(name, version)
        return self.module(imports or name.replace("-", "_"), source)


_EXAMINED = (
    "__pycache__",
    "x_transformers",
    "transformers",
    "fla",
    "flash",
    "xformers",
    "triton",
    "deepspeed",
    "bitsandbytes",
)


def make_environment(folder: Path, *, torch: bool = False, empty: bool = False) -> Environment:
    """Makes one in `folder`: with metadata of a framework in it unless `empty`, for nothing at all is nothing to
    examine."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    if torch:
        # No copy and no install of gigabytes; what is planted in `site` still comes first. Links to each package and
        # not the whole folder: the Python that runs the tests may hold libraries that `check` would examine as well.
        alone = folder / "torch-alone"
        alone.mkdir()
        for entry in Path(sysconfig.get_paths()["platlib"]).iterdir():
            if entry.suffix != ".pth" and not entry.name.lower().startswith(_EXAMINED):
                (alone / entry.name).symlink_to(entry)
        (site / "the_tests_own.pth").write_text(f"{alone}\n")
    made = Environment(folder=folder, python=folder / "bin" / "python", site=site)
    if not empty:
        made.metadata("trl", "1.0")
    return made


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the package as an installer does: each process that the tests start would compile it anew, where
    compiled files are not written. `-m unit` takes the small hypothesis profile, but in CI."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(CHECKOUT / "attn_doctor", quiet=2)
    if config.getoption("markexpr") == "unit" and not os.environ.get("CI"):
        settings.load_profile("unit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m unit` does not even import the other folders: half of its time, and torch. `-m "not unit"` imports no file
    that has unit tests alone: each worker would take ten seconds for them."""
    tests, asked = CHECKOUT / "tests", config.getoption("markexpr")
    if asked not in ("unit", "not unit") or not collection_path.is_relative_to(tests):
        return None
    place = collection_path.relative_to(tests).parts
    if asked == "not unit":
        test = collection_path.name.startswith("test_") and collection_path.is_file()
        return True if test and unit_alone(collection_path, place) else None
    pure = not place or place[0] in (*UNIT_FOLDERS, "__init__.py")
    return None if pure and place[:2] != ("probe", "binaries") else True


#: Run by hand: only where `-m` names them.
_BY_HAND = ("gpu", "heavy", "costly", "other_torch")
#: Names of tests marked `costly`, as pytest prints them.
_COSTLY = CHECKOUT / "tests" / "costly.txt"


def _mark_costly(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = {line for line in _COSTLY.read_text().splitlines() if line and not line.startswith("#")}
    for item in items:
        if item.nodeid in names:
            item.add_marker("costly")
    if any("::" in argument for argument in config.args):
        return  # a part of a file
    files = {item.nodeid.split("::")[0] for item in items}
    if gone := sorted(name for name in names - {item.nodeid for item in items} if name.split("::")[0] in files):
        raise pytest.UsageError(f"{_COSTLY.name} names tests that are not there: {', '.join(gone)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what needs a Triton or the registry by its fixtures, and as `unit` what lies in a folder of pure code and
    needs nothing that starts a process."""
    _mark_costly(config, items)
    for item in items:
        place = item.path.relative_to(CHECKOUT / "tests").parts
        fixtures = getattr(item, "fixturenames", ())
        for need in {NEEDED_BY_FIXTURE[name] for name in fixtures if name in NEEDED_BY_FIXTURE}:
            item.add_marker(need)
        starts = any(name in STARTING_FIXTURES for name in fixtures)
        marked = any(item.get_closest_marker(name) for name in NOT_UNIT)
        if in_unit_folder(place) and not starts and not marked:
            item.add_marker("unit")
        elif unit_alone(item.path, place):
            raise pytest.UsageError(f"{item.nodeid} is no unit test, and `-m 'not unit'` would pass its file over")
    unasked = [name for name in _BY_HAND if name not in config.getoption("markexpr")]
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in unasked)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in {*left_out}]


def pytest_collection_finish() -> None:
    """What is there by now stays: it is no garbage, neither during a test nor at the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _starts_no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test that starts a process fails: mark it `process`."""
    if request.node.get_closest_marker("unit") is None:
        return

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a unit test starts no process: mark it with pytest.mark.process")

    for module, name in ((subprocess, "Popen"), (os, "fork"), (os, "posix_spawn"), (os, "system")):
        monkeypatch.setattr(module, name, refuse)


@pytest.fixture(autouse=True)
def _no_registry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not marked `registry` asks none, nor does a pip that it starts: minutes, for words that no assertion
    reads."""
    if request.node.get_closest_marker("registry") is None and request.node.get_closest_marker("unit") is None:
        monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture(scope="session")
def doctor() -> Doctor:
    """The command line."""

    @functools.cache
    def schema() -> Any:
        done = subprocess.run(
            command("schema"), capture_output=True, check=True, cwd=CHECKOUT, env=clean_environment(), timeout=60
        )
        loaded = json.loads(done.stdout)
        kind = jsonschema.validators.validator_for(loaded)
        kind.check_schema(loaded)
        return kind(loaded)

    return Doctor(schema)


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., Environment]:
    """Makes fresh environments below tmp_path: `environment()`, `environment(torch=True)`, `(empty=True)`."""
    made = 0

    def make(*, torch: bool = False, empty: bool = False) -> Environment:
        nonlocal made
        made += 1
        return make_environment(tmp_path / f"environment-{made}", torch=torch, empty=empty)

    return make
