"""A target with what was asked of it, which can be examined repeatedly in the same way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from attn_doctor.diagnose.accept import accept
from attn_doctor.diagnose.assume import made_for_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.edits.environment import activated
from attn_doctor.fix.edits.pins import Manifests
from attn_doctor.fix.journal.prepare import Stale
from attn_doctor.fix.packages import build_jobs, find_installer, installers, wheel_file
from attn_doctor.fix.packages.ahead import Ahead
from attn_doctor.fix.packages.install_commands import other_names
from attn_doctor.fix.packages.resolve import Judge, resolve
from attn_doctor.fix.packages.wheel_file import WheelFile, unofficial
from attn_doctor.fix.plan_builder import Resolve
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.own_command import typed
from attn_doctor.machine.target import Target
from attn_doctor.model.dtypes import dtype_named
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Acceptance, Diagnosis
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import Install
from attn_doctor.planning import planned_set, preview_install
from attn_doctor.planning.chosen_releases import choose_releases
from attn_doctor.probe.configs.sources import followed_files
from attn_doctor.probe.examine import ExaminationRequest, NodeQuestions, examine
from attn_doctor.probe.live.kept_process import KeptProcess
from attn_doctor.probe.trace.trace_facts import facts_of
from attn_doctor.probe.trace.tracing import check_input, run_trace
from attn_doctor.quick_dataclasses import asdict, dataclass, field, replace
from attn_doctor.recipes.data import accepted
from attn_doctor.recipes.data.gpu_table import NamedGpu
from attn_doctor.stack.proof.prover import Prover
from attn_doctor.workflows import kernels as kernel_trials
from attn_doctor.workflows.fix.read_request import ReadRequest
from attn_doctor.workflows.fix.shadowed import copying
from attn_doctor.workflows.subject import Say, as_if


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One target, which can be examined repeatedly in the same way."""

    given: ReadRequest
    target: Target
    folder: Path
    """For temporary files."""
    configs: tuple[Path, ...]
    acceptances: tuple[Acceptance, ...]
    wheels: tuple[WheelFile, ...] = ()
    """Files named by the user."""
    kept: KeptProcess | None = None
    """The patient's process that has imported torch, for the proof; None where nothing is imported."""
    ahead: Ahead | None = None
    """Where a preview may install already; None where nobody has agreed to anything yet."""
    asked: list[NodeQuestions] = field(default_factory=list)
    """What the node was asked: no change to files alters its GPUs."""
    traced: Mapping[str, Any] | None = None
    """The request to the tracer; None to examine the environment itself."""

    def signature(self) -> tuple[tuple[str, int, int], ...]:
        """Changes when something is installed, removed or configured: cheaper to compare than to examine again."""
        infos = (info / "RECORD" for folder in self.target.search_path for info in folder.glob("*.*-info"))
        found = []
        for path in (*self.target.search_path, *infos, *self.configs):
            with contextlib.suppress(OSError):
                seen = path.stat()
                found.append((str(path), seen.st_mtime_ns, seen.st_size))
        return tuple(found)

    def look(self, name: str, say: Say) -> FactSet:
        """Examines the target; after a change, as in a newly activated environment."""
        before = dict(os.environ)
        with activated(self.target.prefix) if name.startswith("after") else contextlib.nullcontext():
            if self.kept is not None and before != os.environ:
                self.kept.end()  # it has other variables
            return self._look(name, say)

    def _look(self, name: str, say: Say) -> FactSet:
        folder = self.folder / name
        folder.mkdir()
        request, gpu = self.given.request, self.given.gpu
        if self.traced is not None:
            return self._trace(folder, self.traced, say, must_finish=name.startswith("after"))
        facts = examine(
            self.target,
            ExaminationRequest(
                quick=request.quick,
                timeout=request.timeout,
                configs=self.configs,
                simulated_gpu=None if gpu is None else asdict(gpu),
                kept=self.kept,
            ),
            folder=folder,
            say=say,
            asked=self._asked(name, folder),
        )
        if request.kernels is not None:
            _, facts = kernel_trials.run(
                request.kernels, facts, self.target, gpu=gpu, timeout=request.timeout, folder=folder, say=say
            )
        return as_if(facts, gpu, request.assumptions)

    def _asked(self, name: str, folder: Path) -> NodeQuestions:
        """The questions to the node; after a change, those of before it where the variables are the same."""
        if not (name.startswith("after") and self.asked and self.asked[-1].environment == os.environ):
            self.asked.append(NodeQuestions(folder=folder))
        return self.asked[-1]

    def _trace(self, folder: Path, request: Mapping[str, Any], say: Say, *, must_finish: bool) -> FactSet:
        facts = examine(self.target, ExaminationRequest(quick=True, configs=self.configs), folder=folder, say=say)
        traced = run_trace(self.target, request, timeout=max(self.given.request.timeout, 300.0), folder=folder, say=say)
        check_input(traced.trace, f"--trace {request['target']}")
        if must_finish and traced.trace.outcome != "finished":
            # A run that ends early meets no broken call, which does not prove that there is none.
            raise Stale("the traced run does not come to its end", about=traced.trace.error or traced.trace.outcome)
        met = facts_of(traced.trace)
        these = met if self.given.gpu is None else made_for_gpu(met)
        return derive(FactSet([*as_if(facts, self.given.gpu, self.given.request.assumptions).values(), *these]))

    def judged(self, facts: FactSet) -> Diagnosis:
        """The diagnosis by every recipe, so that new findings caused by a fix are seen, whatever --only selects."""
        return accept(judge(facts, self.given.recipes), self.acceptances, today=datetime.now(timezone.utc).date())

    def find(self) -> installers.Installer:
        """The installer. Raises Refused."""
        request = self.given.request
        return find_installer.installer_for(
            request.installer.value, self.target, request.sources, _made(self.folder / "installer")
        )

    def resolve(self, facts: FactSet, before: Diagnosis) -> Resolve:
        """Resolves packages with the installer, and chooses among its answers before anything is installed."""
        prover = Prover((), self.folder, opens=False)

        def preview(request: InstallRequest) -> Install:
            found = resolve(
                request,
                lambda: self._for(request),
                wheels={one.package: one for one in self.wheels},
                build_environment=build_jobs.environment(facts),
                allow_unmet=self.given.request.allow_unmet,
                judge=self.judge_fetched(facts, before),
            )
            _check_reached(found, facts)
            return found

        def ask(request: InstallRequest) -> Install:
            if renamed := other_names(request.requirements, facts):
                raise Refused(
                    f"the library is installed here as the distribution {', '.join(renamed)}, and two distributions "
                    "must not own the same files: take that one out first"
                )
            found = choose_releases(
                request,
                facts,
                before,
                ask=preview,
                judged=self.judged,
                prover=prover,
            )
            more = [words for one in self.wheels if str(one.path) in found.wheels and (words := unofficial(one, facts))]
            more += copying(self.target, found.users_base or str(self.target.prefix), found.changes)
            return replace(found, warnings=(*found.warnings, *more, *planned_set.warnings(found, facts)))

        return ask

    def manifests(self) -> Manifests:
        """Where the files lie that say what this environment holds: a virtual environment is part of the project
        around it, an interpreter without one (a container's) of the project of the current folder.
        """
        prefix = Path(os.path.realpath(self.target.prefix))
        here = project_of(Path.cwd().resolve() / "file")
        if self.target.environment_kind in ("venv", "uv"):
            around = project_of(prefix)
            if around in (Path.home(), Path(around.anchor)):
                return Manifests(others=tuple({around, here}))
            return Manifests(owning=around, others=tuple({prefix.parent, here} - {around}))
        return Manifests(owning=here if self.target.environment_kind == "system" else None, others=(here,))

    def _for(self, request: InstallRequest) -> installers.Installer:
        found = replace(self.find(), ahead=None if request.no_cache else self.ahead)
        if not request.torch_backend or found.sources.torch_backend or found.sources.named_for(found.kind):
            return found
        if found.kind == "pip" and request.torch_backend == "auto":
            return found
        if not request.torch_backend.isalnum():
            raise Refused("it is not known which build of torch it takes: name its index with --index-url")
        if self.given.gpu is not None and request.torch_backend == "auto":
            raise Refused(
                "uv picks the torch build by this node's own driver and GPU, and --gpu names another one: "
                "say which CUDA it is to be for, for example --torch-backend cu128"
            )
        return replace(found, sources=replace(found.sources, torch_backend=request.torch_backend))

    def judge_fetched(self, facts: FactSet, before: Diagnosis) -> Judge:
        """Evaluates the recipes on downloaded files, as if they were installed."""

        def judge_(change: Install, fetched: Path) -> None:
            these = preview_install.facts_of(change, fetched, self.target, facts, scratch=_made(self.folder / "staged"))
            these = as_if(these, self.given.gpu, self.given.request.assumptions)
            planned_set.check_facts(facts, these, before, self.judged)

        return judge_


def _check_reached(install: Install, facts: FactSet) -> None:
    """Raises Refused when the release would not be the one that programs find, or could not be exchanged whole."""
    for one in install.changes:
        hides = facts.text(FactName("package", one.name, "shadowed_by"))
        if hides:
            raise Refused(f"{one.name} is hidden by {hides}, which comes first on the path: take that away first")
        if one.before is None and facts.text(FactName("package", one.name, "version")) is not None:
            raise Refused(f"{one.name} is installed outside of this environment's own folders, or without metadata")


def open_session(read: ReadRequest, target: Target, folder: Path) -> Session:
    """The session for this target; temporary files are written to the folder. Raises BadInput."""
    request = read.request
    return Session(
        given=read,
        target=target,
        folder=folder,
        acceptances=accepted.read(request.accept, os.environ.get("SLURM_JOB_PARTITION")) if request.accept else (),
        # A configuration given to a call in a script is fixed in its own file. Links are resolved because the files are
        # edited, and so that facts have the same names when a saved plan is carried out.
        configs=tuple(Path(os.path.realpath(one)) for one in followed_files(request.configs))
        if read.saved is None
        else tuple(Path(one) for one in read.saved.configs),
        wheels=tuple(_wheel(one, target) for one in request.wheels),
        kept=None if request.quick or request.shows_only else KeptProcess(),
        ahead=Ahead(folder=folder) if request.yes and not request.shows_only else None,
        traced=None if request.trace is None else _trace_request(request.trace, request.autocast, read.gpu),
    )


def installer_of(session: Session, change: Install) -> installers.Installer:
    """The installer with which a plan was made. Raises Stale when it is gone."""
    sources = session.given.request.sources
    try:
        found = find_installer.installer_for(
            change.installer, session.target, sources, _made(session.folder / "installer")
        )
    except Refused as error:
        raise Stale(str(error), about=str(session.target.python), hint="Make a new plan.") from None
    if sources == installers.Sources():
        sources = installers.Sources(
            index_url=change.index_url,
            no_index=change.no_index,
            find_links=change.find_links,
            torch_backend=change.torch_backend,
        )
    return replace(found, sources=sources, ahead=session.ahead)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def again(session: Session, say: Say) -> Diagnosis:
    """Examines again after a change."""
    say("examining again")
    number = len(list(session.folder.glob("after*")))
    return session.judged(session.look(f"after{number}", say))


def _previews(target: Target) -> str:
    return typed("fix", "--dry-run", "--unsafe-fixes", *(("--python", str(target.python)) if target.named else ()))


def _wheel(path: Path, target: Target) -> WheelFile:
    try:
        return wheel_file.read(path, target)
    except Refused as error:
        raise BadInput(
            str(error), about=f"--wheel {path}", hint=f"`{_previews(target)}` says which one fits."
        ) from None


def _trace_request(what: str, autocast: str | None, gpu: NamedGpu | None) -> dict[str, Any]:
    """The request to the tracer, as in `attn-doctor trace`."""
    dtype = dtype_named(autocast, "--autocast")
    if ":" not in what:
        raise BadInput("that is no factory", about=f"--trace {what}", hint="Write file.py:factory.")
    return {
        "kind": "factory", "target": what, "args": [], "kwargs": {}, "dtype": None, "autocast": dtype, "attn": None,
        "backward": False, "calls": None, "rules": "auto", "trust_remote_code": False, "compile_kernels": False,
        "gpu": None if gpu is None else {key: value for key, value in asdict(gpu).items() if value is not None},
        "cwd": str(Path.cwd()), "sys_path": [str(Path.cwd())],
    }  # fmt: skip
