"""Which releases a package cure installs: chosen as `plan` chooses them, upon the environment that is there.

The installer resolves; the shelf's tables limit what it may choose, and its answer is held against the recipes, the
tables and what known wheels hold. What is at fault is excluded and the installer asked again, so that a release that
`check` would complain of, or that `plan` would not propose, is not installed while another one will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

from attn_doctor.diagnose.derived import derive
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import Install
from attn_doctor.model.stack import Channel, PlannedNode, PlannedRelease
from attn_doctor.planning import planned_set
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data import torch_releases
from attn_doctor.recipes.data.torch_releases import Build
from attn_doctor.stack.candidates import Obstacle, for_gpus
from attn_doctor.stack.node import node_of
from attn_doctor.stack.proof.prover import Prover
from attn_doctor.stack.resolver import CannotResolve
from attn_doctor.stack.solve import Excluded, Fault, exclusions, settled
from attn_doctor.stack.verdict import at_fault
from attn_doctor.stack.wants import Want


def choose_releases(
    request: InstallRequest,
    facts: FactSet,
    before: Diagnosis,
    *,
    ask: Callable[[InstallRequest], Install],
    judged: Callable[[FactSet], Diagnosis],
    prover: Prover,
) -> Install:
    """The installer's answer in which nothing is at fault; `ask`: what it would install.

    Raises Refused: that of `ask`, or with what is at fault in each of its answers.
    """
    node = node_of(facts)
    limits = tuple(_limits(request, node))
    pinned = set(_pinned(request))

    def once(excluded: Excluded) -> Install:
        if pinned & set(excluded):
            raise CannotResolve("the fix names that release and no other", is_conflict=True)
        try:
            return ask(replace(request, limits=(*limits, *exclusions(excluded))))
        except Refused as error:
            if not excluded:
                raise
            raise CannotResolve(str(error), is_conflict=True) from None

    def faults(install: Install) -> dict[str, Fault]:
        return _faults(install, request, facts, before, node, judged, prover)

    try:
        return settled(once, faults)
    except CannotResolve as error:
        raise planned_set.other_trouble([error.about]) from None


def _pinned(request: InstallRequest) -> Iterator[str]:
    """The packages of which the fix names one release."""
    for one in map(Requirement, request.requirements):
        if any(each.operator == "==" and not each.version.endswith("*") for each in one.specifier):
            yield canonical_name(one.name)


def _limits(request: InstallRequest, node: PlannedNode) -> Iterator[str]:
    """The releases of the named packages that take the node's GPUs. Raises Refused when none does."""
    for one in map(Requirement, request.requirements):
        want = Want(name=canonical_name(one.name), specifier=one.specifier)
        taking = for_gpus(want, node)
        if isinstance(taking, Obstacle):
            raise Refused(f"it would not run here: {taking.words}")
        if taking != want.specifier:
            yield f"{want.name}{taking}"


def _faults(
    install: Install,
    request: InstallRequest,
    facts: FactSet,
    before: Diagnosis,
    node: PlannedNode,
    judged: Callable[[FactSet], Diagnosis],
    prover: Prover,
) -> dict[str, Fault]:
    """What is wrong with an answer. Raises Refused when no other release would change it."""
    there = derive(planned_set.planned(install, facts))
    planned_set.refuse_unmet(facts, there)
    releases = [
        PlannedRelease(
            name=one.name,
            version=one.after,
            channel=Channel.REGISTRY,
            wanted=True,
            file=one.source,
            sha256=one.sha256,
        )
        for one in install.changes
    ]
    words: dict[str, str] = {}
    torch, cuda = there.text("torch.version"), there.fact("torch.cuda").state
    told = "" if isinstance(cuda, Absent) else there.text("torch.cuda")
    if torch is not None and told is not None:
        words |= prover.broken(releases, node, torch=torch.partition("+")[0], cuda=told)
        words |= _torch_unfit(install, torch, told, node)
    for finding in planned_set.fresh_findings(there, before, judged):
        name = at_fault(finding, releases)
        if not name:
            raise planned_set.other_trouble([f"{finding.id}: {finding.title}"])
        words.setdefault(name, f"{finding.id}: {finding.title}")
    versions = {one.name: one.version for one in releases}
    return {name: Fault(version=versions[name], words=why) for name, why in words.items()}


def _torch_unfit(install: Install, torch: str, cuda: str, node: PlannedNode) -> dict[str, str]:
    """What the table of builds says against the torch that would come."""
    release = torch.partition("+")[0]
    known = any(one.cuda == cuda for one in torch_releases.builds(release, node.machine or "x86_64"))
    if not known or not any(one.name == "torch" for one in install.changes):
        return {}
    build = Build(torch=release, cuda=cuda)
    try:
        why = torch_releases.against(
            build, driver=node.driver or None, gpus=node.capabilities, machine=node.machine or "x86_64"
        )
    except InvalidVersion:
        return {}
    words = {
        "gpu": f"holds no code for compute capability {', '.join(node.capabilities)}",
        "driver": "needs a newer driver",
    }
    return {"torch": f"torch {release} for CUDA {cuda} {words[why]}"} if why is not None else {}
