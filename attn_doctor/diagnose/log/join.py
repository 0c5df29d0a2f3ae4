"""Combines the facts from a log with those of a node and assumptions. Assumptions take precedence over the log, the log
over the node: a log from another machine is judged by that machine's facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attn_doctor.diagnose.derivation import gpu_capabilities
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.gpu_targets import runs
from attn_doctor.diagnose.log.facts import Clues
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, Value
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.torch_releases import (
    Build,
    builds,
    code_of_wheel,
    has_new_abi,
    registry_cuda,
    releases,
)

_LISTED_GPUS = FactName("listed", "", "gpu")
#: GPUs of NVIDIA's small boards, as people and drivers name them.
_OF_A_BOARD = when_used(r"\bJetson\b|\bTegra\b|\bOrin\b|\bXavier\b|\bnvgpu\b", re.IGNORECASE)


def join(base: FactSet, told: Iterable[Fact]) -> FactSet:
    """The facts to use for a log."""
    facts = base
    if facts.value(_LISTED_GPUS) == 0 and facts.fact(_LISTED_GPUS).origin is Origin.PROBED:
        # A login node without a GPU is not the machine that wrote the log.
        facts = FactSet(fact for fact in facts.values() if fact.name != _LISTED_GPUS)
    for one in told:
        facts = _with(facts, one)
    return derive(facts.with_facts(_implied(facts)))


def _with(facts: FactSet, told: Fact) -> FactSet:
    if told.name.kind == "gpu":
        return _with_gpu(facts, told)
    had = facts.fact(told.name)
    if had.origin is Origin.ASSUMED and isinstance(had.state, (Known, Absent)):
        return facts.with_facts([told]) if _is_its_build(had, told) else facts
    if isinstance(had.state, Known) and had.state != told.state:
        told = replace(told, how=f"{told.how}; this node has {had.state.value}")
    return facts.with_facts([told])


def _is_its_build(assumed: Fact, told: Fact) -> bool:
    """True where the log says of which build the assumed release of torch is: 2.2.1, and 2.2.1+cpu."""
    if told.name.attribute != "version" or not (isinstance(assumed.state, Known) and isinstance(told.state, Known)):
        return False
    return str(told.state.value).startswith(f"{assumed.state.value}+")


def _with_gpu(facts: FactSet, told: Fact) -> FactSet:
    same = [facts.fact(told.name.of(subject)) for subject in facts.subjects("gpu")]
    if any(one.origin is Origin.ASSUMED for one in facts.values() if one.name.kind == "gpu") and any(
        isinstance(one.state, Known) for one in same
    ):
        return facts
    known = [one.state.value for one in same if isinstance(one.state, Known) and one.origin is Origin.PROBED]
    if isinstance(told.state, Known) and told.state.value in known:
        return facts  # one of this node's GPUs
    if known:
        here = ", ".join(dict.fromkeys(map(str, known)))
        told = replace(told, how=f"{told.how}; this node has {here}: the log was written on another one")
        facts = facts.without("gpu")
        facts = FactSet(fact for fact in facts.values() if fact.name != _LISTED_GPUS)
    return facts.with_facts([told])


def _implied(facts: FactSet) -> Iterator[Fact]:
    """Further facts that follow from a GPU's name and a torch's version."""
    for subject in facts.subjects("gpu"):
        name, capability = FactName("gpu", subject, "name"), FactName("gpu", subject, "compute_capability")
        text = facts.text(name)
        if text and _OF_A_BOARD.search(text) and not isinstance(facts.fact("log.board").state, Known):
            for of_board, value in (("log.board", "Jetson"), ("node.system", "Linux"), ("node.machine", "aarch64")):
                yield _from(FactName.parse(of_board), value, f"the name {text!r}")
        if text and not isinstance(facts.fact(capability).state, Known):
            found = Clues.names().capability(text)
            if found:
                yield _from(capability, found, f"the name {text!r}")
    version = facts.text("torch.version") or facts.text("package.torch.version")
    if version:
        for spelled in ("torch.version", "package.torch.version"):
            if not isinstance(facts.fact(spelled).state, Known):
                yield _from(FactName.parse(spelled), version, f"torch's version {version}")
        if (code := code_of_wheel(version)) and not isinstance(facts.fact("torch.arch_list").state, Known):
            how = f"what torch {version} is published with"
            yield Fact(name=FactName.parse("torch.arch_list"), state=Known(code), how=how, origin=Origin.DERIVED)
        cuda = re.search(r"\+cu(\d{2})(\d)\b", version)
        if not isinstance(facts.fact("torch.cuda").state, Known):
            if cuda:
                yield _from(FactName.parse("torch.cuda"), f"{cuda[1]}.{cuda[2]}", f"torch's version {version}")
            elif version.endswith("+cpu"):
                yield Fact(
                    name=FactName.parse("torch.cuda"),
                    state=Absent("torch's version ends with +cpu"),
                    how=f"torch's version {version}",
                    origin=Origin.DERIVED,
                )
        yield from _of_published_build(version, facts)
    yield from _of_every_build(version or "", facts)


def _of_every_build(version: str, facts: FactSet) -> Iterator[Fact]:
    """The GPU code of torch, where the log names its CUDA and no whole release, and each that is published for that
    CUDA has code for the GPUs of the log: what they lack is told of no torch whose release is not known.
    """
    cuda, release = facts.text("torch.cuda"), version.partition("+")[0]
    if cuda is None or release in releases() or isinstance(facts.fact("torch.arch_list").state, Known):
        return
    build = f"+cu{cuda.replace('.', '')}"
    named = (one for one in releases() if f"{one}.".startswith(f"{release}." if release else ""))
    each = [set(code) for one in named if (code := code_of_wheel(one + build))]
    common = set.intersection(*each) if each else set()
    gpus = gpu_capabilities(facts)
    if gpus and all(any(runs(one, gpu) for one in common) for gpu in gpus):
        how = f"what every torch {release} for CUDA {cuda} is published with".replace("  ", " ")
        yield _from(FactName.parse("torch.arch_list"), tuple(sorted(common)), how)


def _of_published_build(version: str, facts: FactSet) -> Iterator[Fact]:
    """CUDA and C++ ABI of the published build of torch that a version on Linux and x86_64 means.

    A version without a build's name is that of the registry's one build, unless the log states another CUDA.
    """
    release, _, local = version.partition("+")
    machine = facts.text("node.machine")
    if (
        not registry_cuda(release)
        or facts.text("node.system") not in (None, "Linux")
        or machine not in (None, "x86_64")
    ):
        return
    if machine is None:
        yield _from(FactName.parse("node.machine"), "x86_64", "no line names another processor")
    cuda = re.fullmatch(r"cu(\d{2})(\d)", local)
    known = facts.fact("torch.cuda").state
    if cuda:
        of_build = f"{cuda[1]}.{cuda[2]}"
    elif isinstance(known, Known):
        of_build = str(known.value)
    elif local or isinstance(known, Absent) or facts.text("torch.hip"):
        return
    else:
        of_build = _registrys(release, facts)
        if not of_build:
            return
        yield _from(FactName.parse("torch.cuda"), of_build, f"torch {release} as package registries hold it")
        code = code_of_wheel(f"{release}+cu{of_build.replace('.', '')}")
        if code and not _may_be_another_build(release, of_build, facts):
            how = f"what torch {release} is published with for CUDA {of_build}"
            yield Fact(name=FactName.parse("torch.arch_list"), state=Known(code), how=how, origin=Origin.DERIVED)
    new_abi = has_new_abi(Build(torch=release, cuda=of_build))
    if new_abi is not None and not isinstance(facts.fact("torch.cxx11_abi").state, Known):
        yield _from(
            FactName.parse("torch.cxx11_abi"), new_abi, f"torch {release} as it is published for CUDA {of_build}"
        )


def _may_be_another_build(release: str, of_registry: str, facts: FactSet) -> bool:
    """True where the GPUs of its code are known already, or the log states a CUDA for which this torch is published
    too: builds of one CUDA major differ in their GPUs.
    """
    stated = {facts.text(one) for one in ("log.cuda_stated", "cuda.nvcc")} - {None, of_registry}
    known = isinstance(facts.fact("torch.arch_list").state, Known) or code_of_wheel(release)
    return bool(known) or bool(stated & {one.cuda for one in builds(release)})


def _registrys(release: str, facts: FactSet) -> str:
    """The CUDA of the registry's build; another one where the log states it, and torch is published for it; empty where
    what the log states fits none.
    """
    registry, published = registry_cuda(release) or "", {one.cuda for one in builds(release)}
    stated = {facts.text(one) for one in ("log.cuda_stated", "cuda.nvcc")} - {None}
    majors = {str(one).partition(".")[0] for one in stated}
    if majors <= {registry.partition(".")[0]}:
        return registry
    fits = [one for one in stated if one in published]
    return str(fits[0]) if len(fits) == 1 and len(majors) == 1 else ""


def _from(name: FactName, value: Value, how: str) -> Fact:
    return Fact(name=name, state=Known(value), how=how, origin=Origin.DERIVED)
