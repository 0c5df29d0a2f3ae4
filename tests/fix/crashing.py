"""A project and an environment to mend, a run that can be ended at any boundary, and what is there afterwards.

The installer here is a stand-in that writes below a prefix as pip does: files first, the record last.
Used by the tests and by bench/fix_crash.py.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import signal
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.fix.edits import config, environment, keyword
from attn_doctor.fix.journal import journal, prepare, run_plan, swap, undo
from attn_doctor.fix.journal.resume import resumed_plan, unfinished
from attn_doctor.fix.packages import stage
from attn_doctor.formats import plan_v1
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.findings import Diagnosis, Finding, Safety, Severity
from attn_doctor.model.plans import Cured, FileEdit, Install, PackageChange, Plan, Reversal, Step
from attn_doctor.model.remedies import EditSource

_CONFIGS = {
    "a.yaml": b"stage: sft\r\nflash_attn: 'fa2'  # x\r\nx: 1",
    "b.json": b'{"stage": "sft", "flash_attn": "fa2"}\n',
    "run.sh": b"#!/bin/sh\nllamafactory-cli train --flash_attn fa2\n",
}
_ZERO = b'{"train_batch_size": 8, "zero_optimization": {},\n "fp16": {"enabled": true}, "bf16": {"enabled": false}}'
#: A package whose source is patched: one keyword at one call.
_FUSED = b"""def forward(x):
    return states(x, in_fp32=False)


def backward(x, h=None):
    if h is None:
        h = states(x, in_fp32=False)  # states(x, in_fp32=False)
    return gradients(h, in_fp32=True)
"""
_PATCH = EditSource(
    edit="set-keyword",
    packages=("fused>=1,<2",),
    file="fused/ops.py",
    function="backward",
    call="states",
    keyword="in_fp32",
    value="True",
)
_OLD = {
    "kernels/__init__.py": b"version = 1\n",
    "kernels/gone.py": b"old = 1\n",
    "kernels/data.bin": bytes(range(256)) * 64,
}
_NEW = {
    "kernels/__init__.py": b"version = 2\n",
    "kernels/data.bin": b"\0" * 20000,
    "kernels/sub/fresh.py": b"new = 1\n",
}


@dataclass(frozen=True, kw_only=True)
class FakeInstaller:
    """Has the methods of installers.Installer that a run needs."""

    target: Target
    fails: bool = False
    kind: str = "uv"

    compiles: bool = False

    def install_beside(
        self, change: Install, wheels: Mapping[str, str], into: Path, fetched: Path, *, linked: bool
    ) -> Mapping[str, str]:
        site = into / "lib/python3/site-packages"
        if self.fails:
            from attn_doctor.fix.refusal import Refused

            raise Refused("ERROR: no space left on device")
        for name, content in {**_NEW, "kernels-2.0.dist-info/METADATA": _metadata("2.0")}.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(content)
            journal.boundary("new one in")
        (into / "bin").mkdir()
        (into / "bin/kernels-tool").write_bytes(b"#!new\n")
        _record(site, "2.0", (*_NEW, "kernels-2.0.dist-info/METADATA"), tool=True)
        return {}


def _metadata(version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n\n".encode()


def _record(site: Path, version: str, names: tuple[str, ...], *, tool: bool = False) -> None:
    own = f"kernels-{version}.dist-info/RECORD"
    lines = [*names, own, *(["../../../bin/kernels-tool"] if tool else [])]
    (site / own).write_text("".join(f"{name},,\n" for name in lines))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Everything in one folder."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Scene:
        """A project with three configurations, an environment with one package and a bystander."""
        scene = cls(folder=folder)
        shutil.rmtree(folder, ignore_errors=True)  # an earlier one's
        scene.project.mkdir(parents=True)
        for name, content in _CONFIGS.items():
            (scene.project / name).write_bytes(content)
        (scene.project / "ds.json").write_bytes(_ZERO)
        (scene.project / "run.sh").chmod(0o754)
        site = scene.site
        (site / "kernels").mkdir(parents=True)
        (site / "bystander").mkdir()
        (site / "bystander/__init__.py").write_bytes(b"here = 1\n")
        for name, content in _OLD.items():
            (site / name).write_bytes(content)
        (site / "kernels/data.bin").chmod(0o640)
        (site / "kernels-1.0.dist-info").mkdir()
        (site / "kernels-1.0.dist-info/METADATA").write_bytes(_metadata("1.0"))
        _record(site, "1.0", (*_OLD, "kernels-1.0.dist-info/METADATA"))
        (site / "fused").mkdir()
        (site / "fused/ops.py").write_bytes(_FUSED)
        (site / "fused-1.0.dist-info").mkdir()
        digest = base64.urlsafe_b64encode(hashlib.sha256(_FUSED).digest()).rstrip(b"=").decode()
        record = f"fused/ops.py,sha256={digest},{len(_FUSED)}\nfused-1.0.dist-info/RECORD,,\n"
        (site / "fused-1.0.dist-info/RECORD").write_text(record)
        (scene.prefix / "bin").mkdir()
        (scene.prefix / "bin/python").write_bytes(b"")
        (scene.prefix / "bin/activate").write_bytes(b"deactivate () {\n    unset VIRTUAL_ENV\n}\nexport VIRTUAL_ENV=x")
        (scene.prefix / "pyvenv.cfg").write_bytes(b"home = /usr/bin\n")
        return scene

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def prefix(self) -> Path:
        return self.folder / "environment"

    @property
    def site(self) -> Path:
        return self.prefix / "lib/python3/site-packages"

    @property
    def target(self) -> Target:
        told: dict[str, Any] = {"purelib": str(self.site), "platlib": str(self.site), "prefix": str(self.prefix)}
        return Target(python=self.prefix / "bin/python", because="test", environment_kind="venv", told=told)

    def patches(self) -> tuple[FileEdit, ...]:
        """The edits that patch the package."""
        values = {"version": "1.0", "path": str(self.site), "editable": False}
        facts = [
            Fact(name=FactName("package", "fused", name), state=Known(value), how="test")
            for name, value in values.items()
        ]
        prefix, project = str(self.prefix), str(self.project)
        return keyword.planned(_PATCH, FactSet(facts), finding="trouble", prefix=prefix, project=project)

    @functools.cache  # noqa: B019  # a scene that is made again in the same folder has the same plan
    def plan(self, *, install: bool = True) -> Plan:
        """Four edits of configurations, a patched package, and an installation between them, and a variable."""
        steps = []
        for name in _CONFIGS:
            file = self.project / name
            edit = config.planned(str(file), file.read_bytes(), {"flash_attn": "auto"})
            assert edit is not None
            steps.append(_step(edit))
        file = self.project / "ds.json"
        edit = config.planned(str(file), file.read_bytes(), {"bf16.enabled": "auto", "fp16.enabled": "auto"})
        assert edit is not None
        steps.append(_step(edit))
        steps += [_step(one) for one in self.patches()]
        steps += [_step(edit) for edit in environment.planned(self.prefix, {"TORCH_X": "1"})]
        if install:
            changes = (PackageChange(name="kernels", before="1.0", after="2.0"),)
            steps.insert(
                1,
                _step(
                    Install(
                        installer="pip", requirements=("kernels==2.0",), no_deps=True, no_cache=False, reinstall=False,
                        changes=changes,
                    )
                ),
            )  # fmt: skip
        return Plan(
            doctor_version="0",
            python=str(self.target.python),
            prefix=str(self.prefix),
            configs=tuple(str(self.project / name) for name in (*_CONFIGS, "ds.json")),
            projects=(str(self.project),),
            steps=tuple(steps),
            left=(),
            grounds=(),
        )

    def run(self, plan: Plan, *, cures: bool = True, fails: bool = False) -> run_plan.Outcome:
        """The whole run; `cures` says what examining again finds."""
        with journal.held((self.prefix, self.project)):
            return run_plan.carry_out(
                plan,
                plan_v1.dumps(plan),
                home=self.prefix,
                before=_ILL,
                hands=self.hands(cures=cures, fails=fails),
            )

    def hands(self, *, cures: bool = True, fails: bool = False, proves: bool = False) -> run_plan.Hands:
        """What a run needs; `proves` says that it is known before the exchange what examining finds."""
        installer: Any = FakeInstaller(target=self.target, fails=fails)
        after = Diagnosis() if cures else _ILL
        return run_plan.Hands(
            stage=lambda change, run: stage.stage(change, run, installer=installer),
            examine=lambda: after,
            prove=lambda plan, run, swap: run_plan.Proof(plan=plan, after=after) if proves else None,
        )

    def resume(self) -> None:
        """As `fix --resume` does it."""
        with journal.held((self.prefix, self.project)):
            run = unfinished(journal.runs(self.prefix))
            plan = None if run is None else resumed_plan(run)
            if run is not None and plan is not None:
                run_plan.go_on(plan, run, hands=self.hands())

    def undo(self, *, force: bool = False) -> None:
        """As `undo` does it, for whatever is not undone."""
        with journal.held((self.prefix, self.project)):
            for run in journal.runs(self.prefix):
                undo.undo(run, force=force)

    def state(self) -> dict[str, tuple[int, str]]:
        """Every file and folder with mode and digest, our own folders apart."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if journal.FOLDER in path.relative_to(self.folder).parts:
                continue
            seen = path.lstat()
            content = "" if stat.S_ISDIR(seen.st_mode) else hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(self.folder))] = (stat.S_IMODE(seen.st_mode), content)
        return found


_ILL = Diagnosis(findings=(Finding(id="trouble", severity=Severity.ERROR, title="trouble"),))


def _step(change: Any) -> Step:
    cured = Cured(finding="trouble", subjects=(), severity="error", remedy="cure", title="cure", origin="test")
    return Step(change=change, cures=(cured,), safety=Safety.SAFE, why_this_safety="", reversal=Reversal.EXACT)


def in_child(work: Callable[[], object], *, kill_at: int | None) -> tuple[bool, int]:
    """Does it in a child that kills itself at that boundary; says whether it was killed, and how many it passed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        passed = 0

        def counted(name: str) -> None:
            nonlocal passed
            if passed == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1

        real = os.fsync

        def synced(handle: int) -> None:
            counted("fsync")  # while a part stands beside its file
            real(handle)

        os.fsync = synced
        journal.boundary = counted
        for module in (swap, prepare, stage):
            module.boundary = counted  # type: ignore[attr-defined]
        status = 1
        try:
            work()
            status = 0
        finally:
            os.write(writing, str(passed).encode())
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as stream:
        count = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True, 0
    assert os.WEXITSTATUS(status) == 0, "the child failed"
    return False, int(count)
