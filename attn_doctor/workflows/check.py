"""Examines one environment and this node, and evaluates the recipes on the facts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from attn_doctor.diagnose.accept import accept, raise_gated, without_effect
from attn_doctor.diagnose.judge import judge
from attn_doctor.machine import faults
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import TargetQuestion
from attn_doctor.model import exit_status
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report, nothing_to_examine
from attn_doctor.probe.examine import ExaminationRequest, NodeQuestions, examine
from attn_doctor.quick_dataclasses import asdict, dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import (
    Say,
    as_if,
    assumed_names,
    examined,
    identify,
    pick_recipes,
    refuse_unreadable,
    silent,
)

if TYPE_CHECKING:
    from attn_doctor.model.identity import Identity
    from attn_doctor.model.policy import Policy
    from attn_doctor.probe.kernels.trials import TrialRequest  # needed by few checks
    from attn_doctor.workflows.full_verdicts import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """Options of a check: the target, the depth, and the recipes."""

    python: str | None = None
    """Interpreter or environment folder; None: the active one, as machine/candidates.py finds it."""
    as_module: bool = False
    """Without `python`: the interpreter that this code runs in."""
    quick: bool = False
    """Reads files only: nothing is imported or run."""
    samples: bool = True
    timeout: float = 60.0
    """Seconds for each import and each sample."""
    configs: tuple[Path, ...] = ()
    gpu: str | None = None
    """A GPU to assume in the node: a name in recipes/gpus.toml, or sm_XY."""
    assumptions: tuple[str, ...] = ()
    """Each FACT=VALUE."""
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    """Folders of recipes in addition to the bundled ones."""
    accept: Path | None = None
    """A policy file with accepted findings, and warnings that count as errors."""
    fail_on: Severity = Severity.ERROR
    strict: bool = False
    kernels: TrialRequest | None = None
    """The attention kernels to run; None: none."""
    verdicts: Path | None = None
    """With `quick`: the folder in which the verdicts of full examinations are kept."""


def _policy(file: Path) -> Policy:
    from attn_doctor.recipes.data import accepted  # most checks have none

    return accepted.policy(file)


def check(request: CheckRequest, *, say: Say = silent, warn: Say = silent) -> Report:
    """Examines and diagnoses. `say` receives progress messages, `warn` --accept entries without effect.

    Raises BadInput for an invalid request, TargetUnusable when the interpreter does not answer.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        # Processes that only read are started first; the user's files are read while they run.
        question, asked = stack.enter_context(_started_early(request, folder))
        recipes = pick_recipes(request.only, request.skip, request.recipes)
        refuse_unreadable(request.assumptions)
        gpu = named_gpu(request.gpu) if request.gpu is not None else None
        policy = None if request.accept is None else _policy(request.accept)
        target = question.answer(request.timeout)
        wanted = ExaminationRequest(
            quick=request.quick,
            samples=request.samples,
            timeout=request.timeout,
            configs=request.configs,
            simulated_gpu=None if gpu is None else asdict(gpu),
        )
        facts = examine(target, wanted, folder=folder, say=say, asked=asked)
        kernels_answer = None
        if request.kernels is not None:
            from attn_doctor.workflows import kernels

            # Last, because anything that runs at the same time would affect the kernels' timings.
            kernels_answer, facts = kernels.run(
                request.kernels, facts, target, gpu=gpu, timeout=request.timeout, folder=folder, say=say
            )
    identity = identify(target, facts, asked.environment, seconds=time.monotonic() - began)
    facts = as_if(facts, gpu, request.assumptions)
    policy = None if policy is None else policy.here(identity.cohort.partition)
    acceptances = () if policy is None else policy.acceptances
    judged = raise_gated(judge(facts, recipes), () if policy is None else policy.gates)
    today = datetime.now(timezone.utc).date()
    diagnosis = accept(judged, acceptances, today=today)
    if acceptances:
        known = frozenset(name for one in shelf.shelf(request.recipes) for name in (one.id, *one.aliases))
        for words in without_effect(diagnosis, acceptances, today=today, known=known):
            warn(f"--accept {request.accept}: {words}")
    status = exit_status.status_of(
        diagnosis,
        fail_on=request.fail_on,
        strict=request.strict,
        own_faults=bool(faults.met()),
        nothing=nothing_to_examine(facts, target.dead),
    )
    elsewhere = _in_full(request, identity)
    full = elsewhere.verdict if elsewhere is not None else None
    if full is not None and status is exit_status.Status.HEALTHY:
        lived_with = {one.id for one in acceptances}
        if any(one.id not in lived_with for one in full.errors) or (full.ill and not full.errors):
            status = exit_status.Status.FOUND
    return Report(
        command="check",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=examined(target),
        quick=request.quick,
        assumed=assumed_names(facts),
        limited_to=request.only,
        left_out=request.skip,
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
        identity=identity,
        kernels=kernels_answer,
        own_faults=faults.met(),
        full=full,
        no_full=elsewhere.why if elsewhere is not None else "",
    )


def _in_full(request: CheckRequest, identity: Identity) -> Known | None:
    """What a full examination said of the environment; None for questions that are not about what is there."""
    asked_otherwise = request.gpu or request.assumptions or request.only or request.skip
    if not request.quick or asked_otherwise or request.verdicts is None:
        return None
    from attn_doctor.workflows import full_verdicts

    place, gpus = Path(identity.environment.prefix), identity.cohort
    return full_verdicts.find(request.verdicts, place, gpus.compute_capability if gpus.gpu_count is not None else None)


@contextlib.contextmanager
def _started_early(request: CheckRequest, folder: Path) -> Iterator[tuple[TargetQuestion, NodeQuestions]]:
    question = TargetQuestion(request.python, as_module=request.as_module, folder=folder, isolated=request.quick)
    try:
        asked = NodeQuestions(folder=folder)
        try:
            yield question, asked
        finally:
            asked.end()
    finally:
        question.end()
