"""Facts of torch computed from facts: where it came from, and which builds fit this node or go with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.derivation import as_texts, derived_fact, gpu_capabilities, values_of
from attn_doctor.diagnose.gpu_targets import runs
from attn_doctor.diagnose.torch_to_come import AskedTorch, Outlook
from attn_doctor.model.facts import Absent, Fact, FactSet, Known, State, Unknown
from attn_doctor.recipes.data.torch_releases import (
    Build,
    backend_for,
    flash_attn_3_build,
    is_before_table,
    partner_for,
    triton_series,
)


def releases_for_torch(facts: FactSet, own: str, package: str, ahead: Outlook) -> Iterator[Fact]:
    """Which release of the package is made for the torch that is to be there, and from which of torch's indices."""
    got = values_of(facts, "torch.version")
    if not isinstance(got, tuple):
        yield derived_fact(f"{own}.release_for_torch", got, "torch.version")
        yield derived_fact(f"{own}.backend_for_torch", got, "torch.version")
        return
    come, build = ahead.release, ahead.build
    torch = str(come.value) if isinstance(come, Known) else str(got[0])
    release = partner_for(package, torch, facts.text("python.version"))
    state: State = Known(release) if release else Absent("no release of it is known to be made for this torch")
    if release is None and is_before_table(package, torch):
        state = Unknown("this torch is older than the table of its releases")
    yield derived_fact(f"{own}.release_for_torch", state, "torch.version")
    installed, cuda = facts.text("package.torch.version"), facts.text("torch.cuda")
    if isinstance(build, Build) and isinstance(come, Known):
        # This torch has to be replaced from another index; matching packages come from the same one.
        installed, cuda = f"{build.torch}+{build.name}", build.cuda
    backend = backend_for(package, installed=installed, cuda=cuda, release=release)
    why = "no build of torch's own index is needed"
    yield derived_fact(f"{own}.backend_for_torch", Known(backend) if backend else Absent(why), "torch.cuda")


#: +cu12torch2.9cxx11abiTRUE, as flash-attn, causal-conv1d and mamba-ssm name their wheels.
_NAMED = re.compile(r"cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)(?:cxx11abi(?P<abi>true|false))?$", re.IGNORECASE)

#: Torches beside which wheels of another name were seen to load and to compute what they should.
#: https://github.com/unslothai/unsloth/pull/7495
_HOLDS_BESIDE = {"2.10": ("2.11", "2.12")}


def wheel_named_for(facts: FactSet, package: str) -> Iterator[Fact]:
    """Where the wheel's name, as far as the version has it, is for another torch, CUDA or C++ ABI than are there."""
    version, torch = f"package.{package}.version", facts.text("torch.version")
    named = _NAMED.search((facts.text(version) or "").partition("+")[2])
    opened = any(facts.text(f"extension.{one}.package") == package for one in facts.subjects("extension"))
    apart: list[str] = []
    if named is not None and torch is not None and not opened:
        minor = ".".join(torch.split(".")[:2])
        cuda, abi = facts.text("torch.cuda"), facts.value("torch.cxx11_abi")
        if minor not in (named["torch"], *_HOLDS_BESIDE.get(named["torch"], ())):
            apart.append(f"torch {named['torch']}, not {minor}")
        if cuda is not None and named["cuda"][:2] != cuda.partition(".")[0]:
            apart.append(f"CUDA {named['cuda'][:2]}, not {cuda}")
        if isinstance(abi, bool) and named["abi"] and (named["abi"].lower() == "true") is not abi:
            apart.append(f"the {'old' if abi else 'new'} C++ ABI, and torch has the {'new' if abi else 'old'}")
    state: State = Known("; ".join(apart)) if apart else Absent("its name is for what is there, or names nothing")
    yield derived_fact(f"package.{package}.wheel_named_apart", state, version, "torch.version")
    of: State = Known(package) if apart else Absent("not needed")
    yield derived_fact(f"package.{package}.wheel_of", of, version)


def facts_of_torch(facts: FactSet, ahead: Outlook) -> Iterator[Fact]:
    """Where the installed torch came from, and the published CUDA build that this node's driver and GPUs can run."""
    got = values_of(facts, "package.torch.version")
    state: State
    where: State = got if not isinstance(got, tuple) else Absent("its metadata names no build: any registry's will do")
    if isinstance(got, tuple) and "+" in str(got[0]):
        where = Known(str(got[0]).partition("+")[2])
    yield derived_fact("torch.own_backend", where, "package.torch.version")
    got = values_of(facts, "torch.cuda")
    folder = flash_attn_3_build(str(got[0])) if isinstance(got, tuple) else None
    state = Known(folder) if folder else Absent("none is known for this CUDA") if isinstance(got, tuple) else got
    yield derived_fact("torch.flash_attn_3_build", state, "torch.cuda")
    there = facts.text("torch.version")
    series = triton_series(there) if there else None
    yield derived_fact("torch.triton_series", Known(series) if series else Absent("no table says it"), "torch.version")
    build = ahead.build
    sources = ("gpu.*.compute_capability", "driver.version")
    yield derived_fact("torch.gpu_release", Known(build.torch) if isinstance(build, Build) else build, *sources)
    yield derived_fact("torch.gpu_backend", Known(build.name) if isinstance(build, Build) else build, *sources)
    state = Known(True) if torch_lacks_code(facts) else Absent("it is not known to lack any")
    yield derived_fact("torch.lacks_gpu_code", state, "gpu.*.compute_capability", "torch.arch_list")
    yield from _torch_asked_for(ahead.asked)
    state = ahead.release if not isinstance(ahead.release, Absent) else Known(there) if there else ahead.release
    yield derived_fact("torch.release_to_be", state, "torch.release_to_come", "torch.version")
    named = facts.fact("package.torch.version").state
    to_be = ahead.release if not isinstance(ahead.release, Absent) else named
    yield derived_fact("torch.version_to_be", to_be, "package.torch.version", *sources)
    state = where
    if isinstance(ahead.asked, AskedTorch) and ahead.asked.release:
        state = Known(ahead.asked.backend) if ahead.asked.backend else Absent("any registry's build will do")
    elif isinstance(ahead.release, Known) and isinstance(build, Build):
        state = Known(build.name)
    yield derived_fact("torch.backend_to_be", state, "package.torch.version", *sources)
    yield derived_fact("torch.release_to_come", ahead.release, "torch.version", "requirement.*.specifier", *sources)


def _torch_asked_for(asked: AskedTorch | Absent | Unknown) -> Iterator[Fact]:
    """The torch that packages are made for, and that is not there."""
    # The requirement is known without a GPU; which index has a build for it depends on the GPU.
    sources = ("torch.version", "requirement.*.specifier")
    release: State = asked if not isinstance(asked, AskedTorch) else Absent("several would do, or none would")
    wanted, by, backend = release, release, release
    if isinstance(asked, AskedTorch):
        by = Known(asked.by)
        release = Known(asked.release) if asked.release else release
        wanted = Known(asked.requirement) if asked.requirement else Absent("they contradict each other")
        backend = Known(asked.backend) if asked.backend else Absent("any registry's build will do")
    yield derived_fact("torch.asked_by", by, *sources)
    changing: State = Known((*asked.by, *asked.along)) if isinstance(asked, AskedTorch) else asked
    yield derived_fact("torch.changes_with_asked", changing, *sources)
    words: State = Known(asked.words) if isinstance(asked, AskedTorch) else asked
    yield derived_fact("torch.asked_words", words, *sources)
    yield derived_fact("torch.asked_release", release, *sources)
    yield derived_fact("torch.asked_requirement", wanted, *sources)
    yield derived_fact("torch.asked_backend", backend, *sources, "gpu.*.compute_capability", "driver.version")


def torch_lacks_code(facts: FactSet) -> bool:
    """True when the installed torch has no code for a GPU of the node."""
    code = facts.value("torch.arch_list")
    return isinstance(code, tuple) and any(
        not any(runs(one, gpu) for one in as_texts(code)) for gpu in gpu_capabilities(facts)
    )
