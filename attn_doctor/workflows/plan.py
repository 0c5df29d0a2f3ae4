"""Plans a set of releases that go together, before anything is installed."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from packaging.version import InvalidVersion, Version

from attn_doctor.errors import BadInput
from attn_doctor.formats import fleet_v1, report_v1
from attn_doctor.machine.scratch import scratch
from attn_doctor.model.stack import Alternative, Clash, PlannedNode, StackAnswer, StackPlan
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.gpu_table import amd_gpu, named_gpu
from attn_doctor.recipes.data.stack_packages import stack_package
from attn_doctor.stack import channels
from attn_doctor.stack.alternatives import NO_OTHER, alternatives
from attn_doctor.stack.candidates import Limits, piece, spots
from attn_doctor.stack.clash import clashes
from attn_doctor.stack.driver import driver_clash, with_driver
from attn_doctor.stack.like import wants_of
from attn_doctor.stack.node import node_of, together
from attn_doctor.stack.proof.prover import Prover
from attn_doctor.stack.resolver import CannotResolve, Remembering, Resolver, resolver_here
from attn_doctor.stack.settings import settings_of_pip
from attn_doctor.stack.solve import Solved, solve
from attn_doctor.stack.wants import Want, read_wants
from attn_doctor.version import __version__
from attn_doctor.workflows.subject import Say, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is wanted, and the node that it is for."""

    wants: tuple[str, ...] = ()
    """Requirements, as for pip."""
    like: tuple[Path, ...] = ()
    """Configurations whose attention and framework are wanted as well."""
    gpu: str | None = None
    """A name in recipes/gpus.toml, or sm_XY."""
    driver: str | None = None
    python: str | None = None
    """3.12; None: the Python that this runs in."""
    glibc: str | None = None
    """2.35; None: this machine's."""
    machine: str | None = None
    """x86_64, aarch64; None: this machine's."""
    from_report: Path | None = None
    """A report of `check --json`: its node is planned for, where nothing else is named."""
    fleet: Path | None = None
    """A verdict of `fleet merge --json`: one plan for all its nodes, or one for each cohort."""
    more_gpus: tuple[str, ...] = ()
    """Compute capabilities that have to be served beside `gpu`."""
    gpu_name: str = ""
    """For people, where `gpu` is a compute capability."""
    cuda: str | None = None
    torch_backend: str | None = None
    """cu130, or cpu."""
    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    prove: bool = False
    """Wheels that were not opened before are read from their addresses."""
    offline: bool = False
    """Asks nobody: the shelf's tables answer."""


def plan(request: PlanRequest, *, say: Say = silent) -> StackAnswer:
    """Plans. Asks the package index that uv or pip is configured with, unless `offline`; installs and builds nothing.

    Raises BadInput for an invalid request, AttnDoctorError when the index cannot be asked.
    """
    wants = read_wants(_with_configurations(request))
    if len(wants) == 1 and not wants[0].typed:
        raise BadInput("nothing is wanted", hint="Name packages: attn-doctor plan torch vllm --gpu h100")
    limits = _limits(request)
    parts = _fleet(request) if request.fleet is not None else ()
    nodes = [planned_node(one.request) for one in parts]
    node = together(nodes) if parts else planned_node(request)
    with scratch() as folder:
        engine = _Engine(request, wants, limits, folder, say)
        answer = engine.answer(node, alternatives_too=not parts) if node is not None else None
        if answer is not None and (answer.plans or not parts):
            return replace(answer, cohort="all nodes" if parts else "")
        cohorts = tuple(replace(engine.answer(it), cohort=one.name) for one, it in zip(parts, nodes, strict=True))
    if len(cohorts) == 1:
        return cohorts[0]
    whole = answer or StackAnswer(wants=cohorts[0].wants, node=replace(nodes[0], gpu="nodes that differ"))
    return replace(whole, cohort="all nodes", cohorts=cohorts)


class _Engine:
    """What the answers of one run share: a resolver that remembers, and wheels that were opened."""

    def __init__(self, request: PlanRequest, wants: tuple[Want, ...], limits: Limits, folder: Path, say: Say) -> None:
        self._request, self._wants, self._limits, self._say = request, wants, limits, say
        self._prover = Prover(shelf.bundled(), folder, opens=request.prove and not request.offline)
        there = None if request.offline else resolver_here(folder, settings_of_pip(), extra=_sources(request))
        self._resolver = Remembering(there) if there is not None else None

    def answer(self, node: PlannedNode, *, alternatives_too: bool = True) -> StackAnswer:
        """The answer for a node; where its driver does not know its GPU, that and the answer for one that does.

        Raises AttnDoctorError when the index cannot be asked.
        """
        unfit = driver_clash(node)
        if unfit is None:
            return self._answer(node, alternatives_too=alternatives_too)
        conflict, fitting, drivers = unfit
        other = self._answer(fitting, alternatives_too=alternatives_too)
        offered = [
            *(Alternative(title=one.words, gives_up="", plan=one) for one in other.plans[:1]),
            *other.alternatives,
        ]
        return replace(
            other,
            node=node,
            plans=(),
            clashes=(conflict, *other.clashes),
            alternatives=tuple(with_driver(drivers, node, one) for one in offered),
        )

    def _answer(self, node: PlannedNode, *, alternatives_too: bool) -> StackAnswer:
        wants, limits, resolver = self._wants, self._limits, self._resolver
        self._say("asking which releases go together")
        can, cannot = spots(node, limits)
        clashing = clashes(wants, node, can, cannot, lambda want, spot: piece(want, spot, node))
        solved = Solved() if clashing else solve(wants, node, limits, resolver, self._prover.faults)
        others: tuple[Alternative, ...] = ()
        in_vain = ""
        if not solved.plans:
            clashing = self._with_unpublished(clashing or (self._refused(node, solved),), node)
            if alternatives_too:
                self._say("looking for the nearest that does")
                others = alternatives(wants, node, limits, clashing, self._best, partial(self._published, node=node))
                has_pins = any(one.specifier for one in wants)
                in_vain = NO_OTHER if has_pins and all(one.ends is not None for one in others) and not node.amd else ""
        every = [*solved.plans, *(one.plan for one in others if one.plan is not None)]
        plans = tuple(self._prover.marked(one, node) for one in solved.plans)
        words = resolver.words if resolver is not None else ""
        states = channels.states(every[:3], offline=self._request.offline, resolver=words)
        return StackAnswer(
            wants=tuple(one.typed for one in wants if one.typed),
            node=node,
            plans=tuple(channels.marked(one, states) for one in plans),
            clashes=clashing,
            alternatives=others,
            dead_end=in_vain,
            channels=states,
            notes=_notes(self._request, resolver),
            downloaded=self._prover.downloaded,
            doctor_version=__version__,
        )

    def _with_unpublished(self, found: tuple[Clash, ...], node: PlannedNode) -> tuple[Clash, ...]:
        """The conflicts; those of a want whose pinned release no index has become one of that want alone."""
        named = {words for one in found for words in one.wants}
        for want in self._wants[1:]:
            row = stack_package(want.name)
            held = row is None or row.registry == "wheels"
            if self._resolver is None or want.words not in named or not want.pin or not held:
                continue
            try:
                self._resolver.resolve((want.words,), (), node)
            except CannotResolve as error:
                if not error.lacks_release:
                    continue
                near = self._published(replace(want, specifier=want.corrected), node=node)
                words = f"no index that was asked has release {want.pin} of {want.name}"
                absent = Clash(
                    wants=(want.words,), words=f"{words}; it has {near}" if near else words, unpublished=True
                )
                found = (*(one for one in found if want.words not in one.wants), absent)
        return found

    def _published(self, want: Want, *, node: PlannedNode) -> str:
        """The newest release of a want that the index has a wheel of; empty when there is none, or nobody is asked."""
        try:
            answer = self._resolver.resolve((want.words,), (), node) if self._resolver is not None else ()
        except CannotResolve:
            return ""
        return next((one.version for one in answer if one.name == want.name), "")

    def _refused(self, node: PlannedNode, solved: Solved) -> Clash:
        """The tables know no obstacle, and the resolver, or the recipes, find no releases: the smallest set of wants of
        which that is true. What is left out one after another is asked of what the resolver has heard before.
        """
        kept = self._wants
        for want in reversed(self._wants):
            rest = tuple(one for one in kept if one is not want)
            fewer = (Want(name="torch"), *rest) if want.name == "torch" else rest
            if not want.typed or not any(one.typed for one in fewer):
                continue
            found = solve(fewer, node, self._limits, self._resolver, self._prover.faults, most=1)
            if not found.plans:
                kept, solved = fewer, found
        words = solved.refused[0] if solved.refused else "no reason was given"
        return Clash(wants=tuple(one.words for one in kept if one.typed), words=words)

    def _best(self, wants: Sequence[Want], node: PlannedNode, limits: Limits) -> StackPlan | None:
        can, cannot = spots(node, limits)
        if clashes(wants, node, can, cannot, lambda want, spot: piece(want, spot, node)):
            return None
        found = solve(wants, node, limits, self._resolver, self._prover.faults, most=1)
        return found.plans[0] if found.plans else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A cohort of a fleet."""

    name: str
    request: PlanRequest


def _fleet(request: PlanRequest) -> tuple[_Part, ...]:
    """The cohorts of a merged report, each with what nobody named of its nodes. Raises BadInput."""
    assert request.fleet is not None
    about = f"--fleet {request.fleet}"
    if request.from_report is not None:
        raise BadInput("a report or a fleet, not both", about="--from --fleet", hint="Leave out one of them.")
    read = fleet_v1.read_served(request.fleet)
    if not read:
        raise BadInput("the fleet has no cohorts", about=about, hint="Did any node send a report with a fingerprint?")
    return tuple(
        _Part(
            name=one.name,
            request=replace(
                request,
                gpu=request.gpu or one.gpu,
                more_gpus=() if request.gpu else one.more_gpus,
                gpu_name="" if request.gpu else one.gpu_name,
                driver=request.driver or one.driver,
                python=request.python or one.python,
                glibc=request.glibc or one.glibc,
                machine=request.machine or one.machine,
            ),
        )
        for one in read
    )


def planned_node(request: PlanRequest) -> PlannedNode:
    """The node as named, the rest as on this machine. Raises BadInput."""
    assumed = []
    if request.from_report is not None:
        request = _as_reported(request, request.from_report)
    python = request.python
    if python is None:
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assumed.append(f"Python {python}, which runs attn-doctor (--python names another)")
    parts = python.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise BadInput("that is no version of Python", about=f"--python {python}", hint="For example 3.12.")
    if request.driver is not None:
        try:
            Version(request.driver)
        except InvalidVersion:
            hint = "As nvidia-smi prints it: 580.95.05."
            raise BadInput("that is no version of a driver", about=f"--driver {request.driver}", hint=hint) from None
    glibc = request.glibc
    if glibc is None:
        name, here = platform.libc_ver()
        glibc = here if name == "glibc" and here else "2.35"
        assumed.append(f"glibc {glibc}, this machine's (--glibc names another)")
    elif not all(part.isdecimal() for part in glibc.split(".")) or glibc.count(".") != 1:
        raise BadInput("that is no version of glibc", about=f"--glibc {glibc}", hint="For example 2.35.")
    node = PlannedNode(
        driver=request.driver or "",
        python=".".join(parts[:2]),
        glibc=glibc,
        machine=request.machine or platform.machine(),
        assumed=tuple(assumed),
    )
    if request.gpu is None:
        return node
    amd = amd_gpu(request.gpu)
    if amd is not None:
        return replace(node, gpu=amd.name, amd=amd.architecture)
    named = named_gpu(request.gpu)
    name = request.gpu_name or named.name
    return replace(node, gpu=name, capability=named.compute_capability, more=request.more_gpus)


def _with_configurations(request: PlanRequest) -> tuple[str, ...]:
    """The wants, and those of the configurations that nobody named. Raises BadInput."""
    if not request.like:
        return request.wants
    named = {one.name for one in read_wants(request.wants) if one.typed}
    return (*request.wants, *(one for one in wants_of(request.like) if one not in named))


def _as_reported(request: PlanRequest, file: Path) -> PlanRequest:
    """The request with what the report says of its node, but for what is named. Raises BadInput."""
    there = node_of(report_v1.read(file).facts)
    return replace(
        request,
        gpu=request.gpu or there.capability or None,
        more_gpus=() if request.gpu else there.more,
        gpu_name="" if request.gpu else there.gpu,
        driver=request.driver or there.driver or None,
        python=request.python or there.python or None,
        glibc=request.glibc or there.glibc or None,
        machine=request.machine or there.machine or None,
        from_report=None,
    )


def _limits(request: PlanRequest) -> Limits:
    build, cuda = request.torch_backend or "", request.cuda or ""
    if build and build != "cpu" and not (build.startswith("cu") and build[2:].isdigit() and len(build) > 3):
        hint = "cpu, or the name of a CUDA build as on torch's index: cu126, cu130."
        raise BadInput("that is no build of torch", about=f"--torch-backend {build}", hint=hint)
    if cuda and not all(part.isdecimal() for part in cuda.split(".")):
        raise BadInput("that is no CUDA release", about=f"--cuda {cuda}", hint="For example 12, 12.8 or 13.0.")
    return Limits(cuda=cuda, build=build)


def _sources(request: PlanRequest) -> tuple[str, ...]:
    """Options that uv and pip share."""
    words = []
    for one in request.indexes:
        words += ["--extra-index-url", one]
    for one in request.find_links:
        words += ["--find-links", str(Path(one).absolute()) if "://" not in one else one]
    return tuple(words)


def _notes(request: PlanRequest, resolver: Resolver | None) -> tuple[str, ...]:
    if request.offline:
        return (
            "nobody was asked (--offline): versions are those of the shelf's tables, dependencies are not resolved",
        )
    if resolver is None:
        return ("neither uv nor pip is here: the shelf's tables answer, dependencies are not resolved",)
    return ()
