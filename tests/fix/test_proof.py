"""A change is proven before it is made, by the process of the first examination where that may go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor.fix.altered_names import altered_names
from attn_doctor.fix.journal.exchange import Exchange, Swap
from attn_doctor.fix.journal.file_state import FileState
from attn_doctor.fix.journal.journal import Run
from attn_doctor.machine.target import PATIENT, Target
from attn_doctor.patient.touched import Earlier, led
from attn_doctor.quick_dataclasses import replace
from tests.conftest import Doctor, Environment, make_environment
from tests.scenarios.test_fix import _uv, _wheel, seen

RECIPE = """format = 1
id = "to-be-moved"
title = "x-transformers is 90.0"
severity = "error"
checked = 2026-11-22
status = "stable"
since = "0.1.0"
what = "what"
why = "why"
[[reference]]
kind = "web"
url = "https://example.org/"
[[when]]
fact = "package.x-transformers.version"
equals = "90.0"
[[remedy]]
id = "other"
title = "Install the other"
safety = "unsafe"
why_this_safety = "It is for this test."
actions = [{{ kind = "install-packages", requirements = ["x-transformers=={version}"], no_deps = true }}]
[[case]]
facts = {{ "package.x-transformers.version" = "90.0" }}
expect = "finds"
[[case]]
expect = "clears"
"""
#: Version -> module, requirement.
RELEASES = {
    "90.0.1": ("old = 1\n", ()),
    "90.0.2": ("new = 1\n", ()),
    "90.0.3": ("old = 1\n", ("absent-thing>=2",)),
    "90.0.4": ("raise RuntimeError('no')\n", ()),
}


def installed(env: Environment, name: str, version: str, source: str, *more: str) -> None:
    """As an installer leaves it, RECORD included."""
    info = env.metadata(name, version, *more)
    file = env.module(name.replace("-", "_"), source)
    (info / "RECORD").write_text(
        "".join(f"{one.relative_to(env.site)},,\n" for one in (file, info / "METADATA", info / "RECORD"))
    )


class Patient:
    """An environment with x-transformers, packages that need it, and one that does not."""

    def __init__(self, folder: Path) -> None:
        self.env = make_environment(folder / "environment")
        self.imports = folder / "imports"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        for version, (source, needs) in RELEASES.items():
            _wheel(self.wheels, "x_transformers", version, {"x_transformers/__init__.py": source}, *needs)
            recipe = folder / version / "mine/to-be-moved/recipe.toml"
            recipe.parent.mkdir(parents=True)
            recipe.write_text(RECIPE.format(version=version))
        self.recipes = folder
        counting = f"open({str(self.imports)!r}, 'a').write(__name__ + chr(10))\n"
        installed(self.env, "x-transformers", "90.0", "old = 1\n")
        installed(self.env, "trainer", "1.0", "from x_transformers import old\n", "Requires-Dist: x-transformers>=90")
        installed(
            self.env, "transformers", "90.0", counting + "def __getattr__(name):\n    raise AttributeError(name)\n"
        )

    def fix(self, doctor: Doctor, version: str) -> tuple[int, str]:
        """Installs a release."""
        run = doctor(
            "fix", "--yes", "--unsafe-fixes", "--only", "to-be-moved", "--recipes", self.recipes / version,
            "--python", self.env.python, "--installer", "uv", "--no-index", "--find-links", self.wheels,
            env={"PATH": f"{Path(str(_uv())).parent}:/usr/bin:/bin", "UV_NO_CONFIG": "1"},
        )  # fmt: skip
        return run.status, run.stdout + run.stderr


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    if not _uv():
        pytest.skip("no uv here")
    return Patient(tmp_path_factory.mktemp("patient"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were started in the patient's interpreter."""
    tasks: list[str] = []
    start = Target.start_in_patient

    def noted(target: Target, task: str, *arguments: object, **more: object) -> object:
        tasks.append(task)
        return start(target, task, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Target, "start_in_patient", noted)
    return tasks


@pytest.mark.process
@pytest.mark.parametrize(
    ("version", "words", "processes"),
    [
        # The second process sees whether it can be imported today.
        ("90.0.2", "trainer could not be imported any more: cannot import name 'old' from 'x_transformers'", 2),
        ("90.0.3", "x-transformers 90.0.3 needs absent-thing, which is not installed", 1),
        ("90.0.4", "import-fails appeared", 2),
    ],
)
def test_what_would_break_is_not_done(
    doctor: Doctor, patient: Patient, started: list[str], version: str, words: str, processes: int
) -> None:
    """What depends on it, what it requires, and every other finding: each is known before a file changes."""
    before = seen(patient.env.folder)
    status, said = patient.fix(doctor, version)

    assert status == 4, said
    assert words in said
    assert seen(patient.env.folder) == before
    assert started.count("examine") == processes


@pytest.mark.process
def test_what_it_does_not_touch_is_not_done_again(doctor: Doctor, patient: Patient, started: list[str]) -> None:
    """One process imports, before and on the shadow; a package that has nothing to do with the change is imported
    once; what is proven is what lies there afterwards.
    """
    patient.imports.unlink(missing_ok=True)
    before = seen(patient.env.folder)
    status, said = patient.fix(doctor, "90.0.1")

    assert status == 0, said
    assert (patient.env.site / "x_transformers-90.0.1.dist-info").is_dir()
    assert patient.imports.read_text().split() == ["transformers"]
    assert started.count("examine") == 1
    assert doctor("undo", "--python", patient.env.python).status == 0
    assert seen(patient.env.folder) == before


SITE = "/env/lib/site-packages"
STATE = FileState(size=0, mtime_ns=0, inode=0, mode=0o644, uid=0, gid=0)


def moved(name: str, *, before: bool = True, after: bool = True, owner: str = "a") -> Exchange:
    return Exchange(
        file=f"{SITE}/{name}", owner=owner, before=STATE if before else None, after=STATE if after else None,
        kept="kept/0", staged=f"stage/{name}",
    )  # fmt: skip


OLD, NEW = moved("a-1.dist-info/METADATA", after=False), moved("a-2.dist-info/METADATA", before=False)


@pytest.mark.parametrize(
    ("exchanges", "names"),
    [
        ((moved("a/b.py"), OLD, NEW), {"a", "a-1.dist-info/METADATA", "a-2.dist-info/METADATA"}),
        ((moved("a/new.py", before=False), moved("a/old.py", after=False), moved("b.py")), {"a", "b", "b.py"}),
        ((moved("a/b.py"), moved("../../bin/a")), {"a"}),
        ((moved("a/b.so"),), None),
        ((moved("a/lib/libb.so.1"),), None),
        ((moved("a.pth"),), None),
        ((moved("sitecustomize.py"),), None),
        ((moved("a/b.py"), moved("new/b.py", before=False)), None),
        ((moved("a/b.py"), moved("old.py", after=False)), None),
        ((moved("../../share/a"),), None),
        ((moved("../../bin/activate", owner=""),), None),
    ],
)
def test_names_that_an_exchange_alters(exchanges: tuple[Exchange, ...], names: set[str] | None) -> None:
    """None where a process that runs already could differ from one that starts afterwards in more than these."""
    real = tuple(replace(one, file=os.path.normpath(one.file)) for one in exchanges)
    assert altered_names(Swap(exchanges=real), Run(home=Path("/env"), id="run"), (SITE,)) == names


@pytest.mark.parametrize(("text", "alters"), [("[console_scripts]\nx = a:b\n", False), ("[torch.backends]\n", True)])
def test_entry_points(tmp_path: Path, text: str, alters: bool) -> None:
    """torch loads those of its own group when it is imported; scripts are nobody's."""
    run = Run(home=tmp_path, id="run")
    file = run.folder / "stage/a-2.dist-info/entry_points.txt"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    swap = Swap(exchanges=(moved("a-2.dist-info/entry_points.txt", before=False), moved("a/b.py")))

    assert altered_names(swap, run, (SITE,)) == (None if alters else {"a"})


@pytest.mark.parametrize(
    ("touched", "changed", "holds"),
    [
        (["a", "b"], {"c"}, True), (["a", "b"], {"b"}, False), (None, {"c"}, False), (["a"], None, False),
    ],
)  # fmt: skip
def test_answers_that_hold(touched: list[str] | None, changed: set[str] | None, holds: bool) -> None:
    """Where all is known of what a process touched, and nothing of that changes."""
    earlier = Earlier()
    earlier.answers["sample"] = {"cells": []}
    earlier.note("sample", ["a"])
    earlier.note("sample", touched)
    earlier.changed = None if changed is None else frozenset(changed)

    assert (earlier.answer("sample", "sample") is not None) is holds
    assert earlier.answer("sample", "another") is None
    assert earlier.answer("nothing", "sample") is None


def test_paths_are_led_to_the_shadow() -> None:
    """Once, although the shadow lies in the environment."""
    pairs = [["/env", "/env/.attn-doctor/shadow/0"]]
    value = {"path": "/env/lib/a.py", "seen": ["/env/.attn-doctor/shadow/0/b", "/other/env2", 1, None]}

    assert led(value, pairs) == {
        "path": "/env/.attn-doctor/shadow/0/lib/a.py",
        "seen": ["/env/.attn-doctor/shadow/0/b", "/other/env2", 1, None],
    }


LISTENING = """
import json, os, sys
sys.path.insert(0, PATIENT)
import touched
heard = touched.Touched()
sys.path.insert(0, sys.argv[1])
import one, importlib, importlib.metadata, sysconfig
try:
    import missing
except ImportError:
    pass
importlib.metadata.version("three")
names = set(heard.names())
touched.stand_in([[sys.argv[1], sys.argv[2]], [sys.prefix, sys.argv[2] + "/prefix"]])
importlib.invalidate_caches()
import two
print(json.dumps([sorted(names & {"one", "two", "three", "missing", "three-1.dist-info/METADATA", "four"}),
                  two.__file__, sys.prefix, sysconfig.get_paths()["purelib"]]))
"""


@pytest.mark.process
def test_what_a_process_touches(tmp_path: Path) -> None:
    """Imports, also those that fail, and metadata that is read; and its environment can be taken for another one."""
    for name in ("here", "other"):
        (tmp_path / name).mkdir()
        for module in ("one", "two", "four"):
            (tmp_path / name / f"{module}.py").touch()
    info = tmp_path / "here/three-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: three\nVersion: 1\n")
    script = LISTENING.replace("PATIENT", repr(str(PATIENT)))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "here"), str(tmp_path / "other")],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    names, file, prefix, purelib = json.loads(done.stdout)

    assert names == ["missing", "one", "three-1.dist-info/METADATA"]
    assert file == str(tmp_path / "other/two.py")
    assert prefix == str(tmp_path / "other/prefix")
    assert purelib.startswith(prefix)
