"""The facts of an environment that is not there yet: what is known of it by its releases and its node alone.

The recipes are judged upon them as upon any others, so that a plan, a lock file and a later `check` agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attn_doctor.diagnose.assume import assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.stack import PlannedNode
from attn_doctor.probe.packages.known_packages import BY_NAME
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data import torch_releases
from attn_doctor.recipes.data.gpu_table import NamedGpu
from attn_doctor.recipes.data.torch_releases import Build

_LATER = "not known before it is installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenRelease:
    """One release that would be installed."""

    name: str
    """Canonical."""
    version: str
    how: str = "the plan"
    """Where that is said: `uv.lock:12`."""
    requires: Mapping[str, str] | None = None
    """Package -> what its metadata asks of it; None when its metadata was not read."""


def foreseen_facts(
    releases: Iterable[ForeseenRelease], node: PlannedNode, *, cuda: str | None = None, complete: bool = True
) -> FactSet:
    """The facts. `cuda`: that of torch's build, empty for CPUs, None when not known.

    `complete`: nothing else would be installed, so a package that is not among the releases is absent.
    """
    every = {one.name: one for one in releases}
    found = list(_of_packages(every, complete=complete))
    found += _of_torch(every.get("torch"), node, cuda)
    found += _of_node(node)
    facts = FactSet(found)
    if node.capability:
        gpu = NamedGpu(name=node.gpu, compute_capability=node.capability, shared_memory_bytes=None)
        facts = assume_gpu(facts, gpu)
    return derive(facts)


def _of_packages(releases: Mapping[str, ForeseenRelease], *, complete: bool) -> Iterator[Fact]:
    known = [one for one in releases.values() if one.name in BY_NAME]
    for one in known:
        yield _fact(f"package.{one.name}.version", Known(one.version), one.how)
        asked = (one.requires or {}).get("torch") or torch_releases.torch_of_partner(one.name, one.version)
        if asked is not None and one.name != "torch":
            yield _fact(f"package.{one.name}.requires_torch", Known(asked or "any"), one.how)
    listed: State = Known(len(known)) if complete or known else Unknown("the file does not name every package")
    yield _fact("listed.package", listed, "the releases that would be installed")
    for one in releases.values():
        for on, specifier in (one.requires or {}).items():
            if one.name in BY_NAME and on in BY_NAME:
                yield _fact(f"requirement.{one.name}.{on}.specifier", Known(specifier or "any"), one.how)


def _of_torch(torch: ForeseenRelease | None, node: PlannedNode, cuda: str | None) -> Iterator[Fact]:
    if torch is None:
        later = Unknown("torch is not among the releases", asked=False)
        yield from (_fact(f"torch.{name}", later, "the releases") for name in ("version", "cuda", "hip", "arch_list"))
        return
    how = torch.how
    yield _fact("torch.version", Known(torch.version), how)
    base = torch.version.partition("+")[0]
    cuda = _cuda_of(torch.version) if cuda is None else cuda
    if cuda is None:
        cuda = torch_releases.registry_cuda(base) if "+" not in torch.version else None
        how += ", by the build that package registries hold"
    if cuda is None:
        yield from (_fact(f"torch.{one}", Unknown(_LATER, asked=False), how) for one in ("cuda", "arch_list"))
        return
    yield _fact("torch.cuda", Known(cuda) if cuda else Absent("a build for CPUs"), how)
    new_abi = torch_releases.has_new_abi(Build(torch=base, cuda=cuda)) if cuda else None
    yield _fact("torch.cxx11_abi", Unknown(_LATER, asked=False) if new_abi is None else Known(new_abi), how)
    yield _fact("torch.hip", Absent("a build for CUDA or CPUs"), how)
    code = torch_releases.gpu_code(Build(torch=base, cuda=cuda), node.machine) if cuda else ()
    state: State = Known(tuple(f"sm_{one.replace('.', '')}" for one in code)) if code else Unknown(_LATER, asked=False)
    yield _fact("torch.arch_list", state if cuda else Absent("no GPU code"), how)


def _of_node(node: PlannedNode) -> Iterator[Fact]:
    how = "the node that is planned for"
    for name, value in (
        ("driver.version", node.driver),
        ("python.version", node.python),
        ("libc.version", node.glibc),
        ("node.machine", node.machine),
    ):
        state: State = Known(value) if value else Unknown("not named", asked=False)
        yield Fact(name=FactName.parse(name), state=state, how=how, origin=Origin.ASSUMED)


def _cuda_of(version: str) -> str | None:
    """13.0 for 2.13.0+cu130, empty for +cpu, None where the version names no build."""
    local = version.partition("+")[2]
    if local == "cpu":
        return ""
    if local.startswith("cu") and local[2:].isdigit() and len(local) > 3:
        return f"{local[2:-1]}.{local[-1]}"
    return None


def _fact(name: str, state: State, how: str) -> Fact:
    return Fact(name=FactName.parse(name), state=state, how=how)
