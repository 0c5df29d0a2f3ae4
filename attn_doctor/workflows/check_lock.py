"""Judges what a lock file or manifest would install, without an environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

from attn_doctor.diagnose.accept import accept, raise_gated
from attn_doctor.diagnose.judge import judge
from attn_doctor.machine import faults
from attn_doctor.model import exit_status
from attn_doctor.model.findings import Diagnosis, Finding, Location, Severity
from attn_doctor.model.policy import Policy
from attn_doctor.model.report import Examined, Foreseen, Report
from attn_doctor.model.stack import PlannedNode
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.data import accepted
from attn_doctor.recipes.data.checked import newest_checked
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.stack.foreseen import ForeseenRelease, foreseen_facts
from attn_doctor.stack.locks.pins import LockRead, Pin
from attn_doctor.stack.locks.read import read
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import as_if, assumed_names, pick_recipes, refuse_unreadable

#: Nobody can foresee which release of these an installer takes beside the pinned ones.
_FOLLOWING = frozenset({"torch", "triton", "torchvision", "torchaudio", "pytorch-triton"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLockRequest:
    """A lock file or manifest, and the node that it is for."""

    file: Path
    """As the report shall name it."""
    gpu: str | None = None
    assumptions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    recipes: tuple[Path, ...] = ()
    accept: Path | None = None
    fail_on: Severity = Severity.ERROR
    machine: str = "x86_64"


def check_lock(request: CheckLockRequest) -> Report:
    """Judges the recipes upon what the file would install; findings carry the file and the line of the pin.

    Raises BadInput for a file that cannot be read, and for an invalid request.
    """
    recipes = pick_recipes(request.only, request.skip, request.recipes)
    refuse_unreadable(request.assumptions)
    gpu = named_gpu(request.gpu) if request.gpu is not None else None
    # A file is of no node: what holds for the nodes of one partition alone does not hold for it.
    policy = (accepted.policy(request.accept) if request.accept else Policy()).here(None)
    lock = read(request.file, python="", machine=request.machine)
    node = PlannedNode(python=lock.python, glibc="", machine=request.machine)
    pins = {one.name: one for one in lock.pins}
    releases = list(_releases(lock))
    facts = foreseen_facts(releases, node, cuda=lock.cuda, complete=lock.complete)
    facts = as_if(facts, gpu, request.assumptions)
    judged = judge(facts, recipes)
    about = tuple(found for one in judged.findings if (found := _placed(one, pins, request)) is not None)
    # What only an installed environment shows is open for every lock: it is not listed.
    diagnosis = raise_gated(Diagnosis(findings=about, cleared=judged.cleared), policy.gates)
    diagnosis = accept(diagnosis, policy.acceptances, today=datetime.now(timezone.utc).date())
    status = exit_status.status_of(
        diagnosis, fail_on=request.fail_on, strict=False, own_faults=bool(faults.met()), nothing=_nothing(lock)
    )
    versions = {one.name for one in releases}
    unpinned = sum(one.name not in versions for one in lock.pins)
    return Report(
        command="check",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=Examined(python="", version=lock.python, environment="lock", because=str(request.file)),
        quick=True,
        assumed=assumed_names(facts) if request.assumptions or gpu else (),
        limited_to=request.only,
        left_out=request.skip,
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
        own_faults=faults.met(),
        foreseen=Foreseen(
            file=str(request.file),
            packages=len(lock.pins),
            open=unpinned,
            complete=lock.complete,
            notes=lock.notes,
            nothing=_nothing(lock),
        ),
    )


def _nothing(lock: LockRead) -> str:
    return "" if lock.pins else "the file names no package"


def _releases(lock: LockRead) -> Iterator[ForeseenRelease]:
    """The pinned releases; of the others the newest that the shelf knows, when the specifier takes it."""
    for pin in lock.pins:
        where = f"{pin.file}:{pin.line}"
        if pin.version:
            yield ForeseenRelease(name=pin.name, version=pin.version, how=where)
        elif pin.name not in _FOLLOWING and (newest := _newest(pin)):
            yield ForeseenRelease(name=pin.name, version=newest, how=f"{where}, not pinned: the newest that is known")


def _newest(pin: Pin) -> str:
    newest = newest_checked().get(pin.name, "")
    try:
        return newest if newest and pin.specifier.contains(Version(newest), prereleases=True) else ""
    except InvalidVersion:
        return ""


def _placed(finding: Finding, pins: dict[str, Pin], request: CheckLockRequest) -> Finding | None:
    """The finding at the lines of the pins that it rests on; of one that rests on none, only what was asked about.

    A finding about the node alone is none about the file, unless --assume, with --gpu, named all of it.
    """
    named = _named(finding)
    places = tuple(
        Location(file=pin.file, line=pin.line, note=f"{pin.name} {pin.version}".strip())
        for name in named
        if (pin := pins.get(name)) is not None
    )
    if places:
        return replace(finding, locations=places)
    assumed = {one.partition("=")[0].strip() for one in request.assumptions}
    sources = {source for fact in finding.evidence for source in (fact.computed_from or (str(fact.name),))}
    is_named = all(one in assumed or (request.gpu is not None and one.startswith("gpu.")) for one in sources)
    return finding if is_named and sources & assumed else None


def _named(finding: Finding) -> Iterable[str]:
    """The packages of its evidence, each once; torch last, which most findings rest on."""
    names = [fact.name.subject if fact.name.kind == "package" else fact.name.kind for fact in finding.evidence]
    sources = [one for fact in finding.evidence for one in fact.computed_from]
    names += [one.split(".")[1] if one.startswith("package.") else one.partition(".")[0] for one in sources]
    return sorted(dict.fromkeys(names), key=lambda one: one == "torch")
