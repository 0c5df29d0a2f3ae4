"""One target as `attn-doctor fix` sees it: looked at as often as it takes, always in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from attn_doctor.cli.shared import as_if
from attn_doctor.cookbook.gpus import NamedGpu
from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.diagnose.accept import accept
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.fix import installers, make, planned_set
from attn_doctor.fix.actions import packages
from attn_doctor.fix.apply import Stale
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Acceptance, Diagnosis
from attn_doctor.model.plans import Install
from attn_doctor.probe.examine import Wanted, examine
from attn_doctor.probe.trace_facts import facts_of
from attn_doctor.probe.tracing import check_input, run_trace


class WhichInstaller(str, Enum):
    """Which installer changes packages."""

    AUTO = "auto"
    PIP = "pip"
    UV = "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One target, looked at as often as it takes, always in the same way."""

    target: Target
    folder: Path
    recipes: tuple[Recipe, ...]
    acceptances: tuple[Acceptance, ...]
    configs: tuple[Path, ...]
    gpu: NamedGpu | None
    assumptions: tuple[str, ...]
    quick: bool
    timeout: float
    sources: installers.Sources
    installer: WhichInstaller
    traced: Mapping[str, Any] | None = None
    """What the tracer is asked to run; None where the environment itself is examined."""

    def look(self, name: str, say: Callable[[str], None]) -> FactSet:
        """Examines it."""
        folder = self.folder / name
        folder.mkdir()
        if self.traced is not None:
            return self._trace(folder, self.traced, say, must_finish=name.startswith("after"))
        facts = examine(
            self.target,
            Wanted(
                quick=self.quick,
                timeout=self.timeout,
                configs=self.configs,
                virtual_gpu=None if self.gpu is None else asdict(self.gpu),
            ),
            folder=folder,
            say=say,
        )
        return as_if(facts, self.gpu, self.assumptions)

    def _trace(
        self, folder: Path, request: Mapping[str, Any], say: Callable[[str], None], *, must_finish: bool
    ) -> FactSet:
        facts = examine(self.target, Wanted(quick=True, configs=self.configs), folder=folder, say=say)
        traced = run_trace(self.target, request, timeout=max(self.timeout, 300.0), folder=folder, say=say)
        check_input(traced.trace, f"--trace {request['target']}")
        if must_finish and traced.trace.outcome != "finished":
            # A run that ends early meets no broken call, which is no proof that there is none.
            raise Stale("the traced run does not come to its end", about=traced.trace.error or traced.trace.outcome)
        return derive(FactSet([*as_if(facts, self.gpu, self.assumptions).values(), *facts_of(traced.trace)]))

    def judged(self, facts: FactSet) -> Diagnosis:
        """By every recipe, so that what a cure brings up is seen, whatever was asked for with --only."""
        return accept(judge(facts, self.recipes), self.acceptances, today=datetime.now(timezone.utc).date())

    def find(self) -> installers.Installer:
        """The installer; raises Refused."""
        private = self.folder / "installer"
        private.mkdir(exist_ok=True)
        return installers.find(self.installer.value, self.target, self.sources, private)

    def resolve(self, facts: FactSet, before: Diagnosis) -> make.Resolve:
        """Asks the installer, and judges what it would put in by the same recipes before anything is installed."""

        def ask(wish: make.Wish) -> Install:
            found = packages.resolve(wish, self.find, stash=True)
            planned_set.check(found, facts, before, lambda these: self.judged(derive(these)))
            return found

        return ask


def installer_of(session: Session, change: Install) -> installers.Installer:
    """The installer that a plan was made with; raises Stale where it is gone."""
    try:
        found = installers.find(change.installer, session.target, session.sources, _made(session.folder / "installer"))
    except Refused as error:
        raise Stale(str(error), about=str(session.target.python), hint="Make a new plan.") from None
    sources = session.sources
    if sources == installers.Sources():
        sources = installers.Sources(index_url=change.index_url, no_index=change.no_index, find_links=change.find_links)
    return replace(found, sources=sources)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def again(session: Session, say: Callable[[str], None]) -> Diagnosis:
    """Examined once more, after a change."""
    say("examining again")
    number = len(list(session.folder.glob("after*")))
    return session.judged(session.look(f"after{number}", say))


def trace_request(what: str, autocast: str | None, gpu: NamedGpu | None) -> dict[str, Any]:
    """For the tracer, as `attn-doctor trace` asks it."""
    half = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}
    dtype = half.get((autocast or "").lower(), autocast)
    if dtype not in (None, "float16", "bfloat16"):
        raise BadInput(f"{autocast!r} is no dtype for autocast", about=f"--autocast {autocast}", hint="fp16 or bf16.")
    if ":" not in what:
        raise BadInput("that is no factory", about=f"--trace {what}", hint="Write file.py:factory.")
    return {
        "kind": "factory", "target": what, "args": [], "kwargs": {}, "dtype": None, "autocast": dtype, "attn": None,
        "backward": False, "calls": None, "rules": "auto", "trust_remote_code": False, "compile_kernels": False,
        "gpu": None if gpu is None else {key: value for key, value in asdict(gpu).items() if value is not None},
        "cwd": str(Path.cwd()), "sys_path": [str(Path.cwd())],
    }  # fmt: skip
