"""Facts computed from other facts, for questions that a single condition cannot express.

Computed again after --assume and --gpu, so that an assumed GPU is treated like a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from attn_doctor.diagnose import requirements
from attn_doctor.diagnose.assume import supposed
from attn_doctor.diagnose.conditions import capability
from attn_doctor.diagnose.gpu_targets import lacking, runs
from attn_doctor.diagnose.missing_modules import requirement_for
from attn_doctor.diagnose.torch_to_come import AskedTorch, Outlook, outlook
from attn_doctor.machine import faults
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown, Value
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.checked import is_newer, newest_checked
from attn_doctor.recipes.data.torch_releases import (
    OLDEST_DRIVER,
    Build,
    backend_for,
    flash_attn_3_build,
    partner_for,
    partners,
)


def derive(facts: FactSet) -> FactSet:
    """The facts with every derived one computed again; when that fails for a subject, its derived facts are unknown.

    A fact computed from an assumption is marked.
    """
    gpus = faults.survive("computing of facts of the GPUs", lambda: _capabilities(facts), _NotComputed)
    found = [*_survived("node", "", lambda: _of_node(facts)), *_survived("driver", "", lambda: _of_driver(facts))]
    ahead = faults.survive(
        "computing of the torch to come", lambda: outlook(facts, lacks_code=_lacks_code(facts)), _nothing_known
    )
    found += _survived("torch", "", lambda: _of_torch(facts, ahead))
    for index in facts.subjects("gpu"):
        found += _survived("gpu", index, partial(_of_gpu, facts, index))
    for package in facts.subjects("package"):
        found += _survived("package", package, partial(_of_package, facts, package, ahead))
    beside = faults.survive("computing of facts of the extensions", lambda: _beside(facts), _NotComputed)
    for module in facts.subjects("extension"):
        found += _survived("extension", module, partial(_of_extension, facts, module, gpus, beside, ahead))
    for module in facts.subjects("import"):
        found += _survived("import", module, partial(_of_import, facts, module))
    for sample in facts.subjects("sample"):
        found += _survived("sample", sample, partial(_of_sample, facts, sample))
    found += _survived("import", "torch", lambda: _settled_of_torch(facts))
    found += _survived("environment", "", lambda: requirements.derived(facts))
    found += _survived("promotion", "", lambda: _of_promotions(facts))
    return facts.with_facts(supposed(found, facts))


@dataclass(frozen=True, slots=True)
class _NotComputed:
    """Replaces a value that could not be computed."""

    reason: str


def _survived(kind: str, subject: str, rule: Callable[[], Iterator[Fact]]) -> Iterable[Fact]:
    about = f"{kind} {subject}".strip()
    return faults.survive(
        f"computing of facts of {about}", lambda: tuple(rule()), lambda reason: _not_computed(kind, subject, reason)
    )


def _not_computed(kind: str, subject: str, reason: str) -> tuple[Fact, ...]:
    from attn_doctor.model.vocabulary import TERMS  # a table that is only needed here

    names = (FactName.parse(term.name.replace(".*", "")) for term in TERMS if term.probe == "diagnose/derived.py")
    return tuple(
        Fact(name=name.of(subject), state=Unknown(reason), how="computed from other facts", origin=Origin.DERIVED)
        for name in names
        if name.kind == kind
    )


def _derived(name: str, state: State, *sources: FactName | str) -> Fact:
    return Fact(
        name=FactName.parse(name),
        state=state,
        how="computed from " + ", ".join(str(source) for source in sources),
        origin=Origin.DERIVED,
        computed_from=tuple(map(str, sources)),
    )


def _from(facts: FactSet, *names: str) -> tuple[Value, ...] | Absent | Unknown:
    """The values; otherwise the state of a missing one, Unknown before Absent."""
    states = [facts.fact(name).state for name in names]
    for state in states:
        if isinstance(state, Unknown):
            return state
    for state in states:
        if isinstance(state, Absent):
            return state
    return tuple(state.value for state in states if isinstance(state, Known))


def _of_node(facts: FactSet) -> Iterator[Fact]:
    every = [facts.fact(f"gpu.{index}.compute_capability").state for index in facts.subjects("gpu")]
    lacking = any(isinstance(one, Known) and capability(str(one.value)) < (8, 0) for one in every)
    state: State = Known(not lacking)
    if not lacking and (not every or not all(isinstance(one, Known) for one in every)):
        state = Unknown("no GPU is known here; --gpu names one", asked=False)
    yield _derived("node.bf16_native", state, "gpu.*.compute_capability")
    listed = facts.fact("listed.gpu")
    state = listed.state
    if isinstance(state, Known):
        how = "assumed, not seen" if listed.origin is Origin.ASSUMED else "seen"
        state = Known(f"{state.value} ({how})" if state.value else "none")
    yield _derived("node.gpus", state, "listed.gpu")


def _of_gpu(facts: FactSet, index: str) -> Iterator[Fact]:
    name = f"gpu.{index}.compute_capability"
    got = _from(facts, name)
    yield _derived(
        f"gpu.{index}.bf16_native",
        Known(capability(str(got[0])) >= (8, 0)) if isinstance(got, tuple) else got,
        name,
    )
    got = _from(facts, name, "torch.arch_list")
    yield _derived(
        f"gpu.{index}.torch_has_code",
        Known(any(runs(code, capability(str(got[0]))) for code in _texts(got[1]))) if isinstance(got, tuple) else got,
        name,
        "torch.arch_list",
    )


def _of_driver(facts: FactSet) -> Iterator[Fact]:
    got = _from(facts, "torch.cuda", "driver.version")
    state: State = got if not isinstance(got, tuple) else Unknown("no driver minimum is known for this CUDA")
    if isinstance(got, tuple):
        oldest = OLDEST_DRIVER.get(_major(got[0]))
        if oldest is not None:
            try:
                state = Known(Version(str(got[1])) < Version(oldest))
            except InvalidVersion:
                state = Unknown(f"the driver's version {got[1]!r} cannot be compared")
    yield _derived("driver.too_old", state, "torch.cuda", "driver.version")


def _nothing_known(reason: str) -> Outlook:
    return Outlook(Unknown(reason), Unknown(reason), Unknown(reason))


def _of_package(facts: FactSet, package: str, ahead: Outlook) -> Iterator[Fact]:
    version = f"package.{package}.version"
    if package in ("triton", "pytorch-triton", "pytorch-triton-rocm"):
        got = _from(facts, version, "torch.triton_requirement")
        state = _accepts(got[1], got[0]) if isinstance(got, tuple) else got
        yield _derived(f"package.{package}.fits_torch", state, version, "torch.triton_requirement")
    elif FactName("package", package, "requires_torch") in facts and package != "torch":
        asked = f"package.{package}.requires_torch"
        got = _from(facts, asked, "torch.version")
        state = _accepts(got[0], got[1]) if isinstance(got, tuple) else got
        yield _derived(f"package.{package}.fits_torch", state, asked, "torch.version")
    if package in newest_checked():
        got = _from(facts, version)
        newer = is_newer(package, str(got[0])) if isinstance(got, tuple) else None
        state = got if not isinstance(got, tuple) else Unknown("the version cannot be compared")
        yield _derived(f"package.{package}.newer_than_checked", state if newer is None else Known(newer), version)
        yield _derived(f"package.{package}.newest_checked", Known(newest_checked()[package]), "recipes/checked.toml")
    if package in partners():
        yield from _partners(facts, f"package.{package}", package, ahead)
    if package != "torch":
        pin = ahead.pins_apart(facts, package)
        state = Known(pin) if pin else Absent("its metadata names no torch but the one that is, or will be, there")
        yield _derived(f"package.{package}.made_for_torch", state, "requirement.*.specifier", "torch.version")
        state = Known(package) if pin else Absent("not needed")
        yield _derived(f"package.{package}.name", state, f"package.{package}.made_for_torch")


def _partners(facts: FactSet, own: str, package: str, ahead: Outlook) -> Iterator[Fact]:
    """Which release of the package is made for the torch that is to be there, and from which of torch's indices."""
    got = _from(facts, "torch.version")
    if not isinstance(got, tuple):
        yield _derived(f"{own}.release_for_torch", got, "torch.version")
        yield _derived(f"{own}.backend_for_torch", got, "torch.version")
        return
    come, build = ahead.release, ahead.build
    torch = str(come.value) if isinstance(come, Known) else str(got[0])
    release = partner_for(package, torch)
    state: State = Known(release) if release else Absent("no release of it is known to be made for this torch")
    yield _derived(f"{own}.release_for_torch", state, "torch.version")
    installed, cuda = facts.text("package.torch.version"), facts.text("torch.cuda")
    if isinstance(build, Build) and isinstance(come, Known):
        # This torch has to be replaced from another index; matching packages come from the same one.
        installed, cuda = f"{build.torch}+{build.name}", build.cuda
    backend = backend_for(package, installed=installed, cuda=cuda)
    why = "no build of torch's own index is needed"
    yield _derived(f"{own}.backend_for_torch", Known(backend) if backend else Absent(why), "torch.cuda")


def _of_torch(facts: FactSet, ahead: Outlook) -> Iterator[Fact]:
    """Where the installed torch came from, and the published CUDA build that this node's driver and GPUs can run."""
    got = _from(facts, "package.torch.version")
    state: State
    where: State = got if not isinstance(got, tuple) else Absent("its metadata names no build: any registry's will do")
    if isinstance(got, tuple) and "+" in str(got[0]):
        where = Known(str(got[0]).partition("+")[2])
    yield _derived("torch.own_backend", where, "package.torch.version")
    got = _from(facts, "torch.cuda")
    folder = flash_attn_3_build(str(got[0])) if isinstance(got, tuple) else None
    state = Known(folder) if folder else Absent("none is known for this CUDA") if isinstance(got, tuple) else got
    yield _derived("torch.flash_attn_3_build", state, "torch.cuda")
    build = ahead.build
    sources = ("gpu.*.compute_capability", "driver.version")
    yield _derived("torch.gpu_release", Known(build.torch) if isinstance(build, Build) else build, *sources)
    yield _derived("torch.gpu_backend", Known(build.name) if isinstance(build, Build) else build, *sources)
    state = Known(True) if _lacks_code(facts) else Absent("it is not known to lack any")
    yield _derived("torch.lacks_gpu_code", state, "gpu.*.compute_capability", "torch.arch_list")
    yield from _torch_asked_for(ahead.asked)
    there = facts.text("torch.version")
    state = ahead.release if not isinstance(ahead.release, Absent) else Known(there) if there else ahead.release
    yield _derived("torch.release_to_be", state, "torch.release_to_come", "torch.version")
    yield _derived("torch.release_to_come", ahead.release, "torch.version", "requirement.*.specifier", *sources)


def _torch_asked_for(asked: AskedTorch | Absent | Unknown) -> Iterator[Fact]:
    """The torch that packages are made for, and that is not there."""
    # What is asked for is known without a GPU; which index has a build for it is a GPU's matter.
    sources = ("torch.version", "requirement.*.specifier")
    release: State = asked if not isinstance(asked, AskedTorch) else Absent("several would do, or none would")
    wanted, by, backend = release, release, release
    if isinstance(asked, AskedTorch):
        by = Known(asked.by)
        release = Known(asked.release) if asked.release else release
        wanted = Known(asked.requirement) if asked.requirement else Absent("they contradict each other")
        backend = Known(asked.backend) if asked.backend else Absent("any registry's build will do")
    yield _derived("torch.asked_by", by, *sources)
    yield _derived("torch.asked_release", release, *sources)
    yield _derived("torch.asked_requirement", wanted, *sources)
    yield _derived("torch.asked_backend", backend, *sources, "gpu.*.compute_capability", "driver.version")


def _lacks_code(facts: FactSet) -> bool:
    """True when the installed torch has no code for a GPU of the node."""
    code = facts.value("torch.arch_list")
    return isinstance(code, tuple) and any(
        not any(runs(one, gpu) for one in _texts(code)) for gpu in _capabilities(facts)
    )


def _accepts(requirement: Value, version: Value) -> State:
    try:
        return Known(SpecifierSet(str(requirement)).contains(Version(str(version)), prereleases=True))
    except (InvalidSpecifier, InvalidVersion) as error:
        return Unknown(f"cannot be compared: {error}")


def _capabilities(facts: FactSet) -> tuple[tuple[int, int], ...]:
    """Compute capabilities of the GPUs, each once, in the order of the GPUs."""
    values = (facts.value(f"gpu.{index}.compute_capability") for index in facts.subjects("gpu"))
    return tuple(dict.fromkeys(capability(str(value)) for value in values if value is not None))


def _settled_of_torch(facts: FactSet) -> Iterator[Fact]:
    """Facts decided by a successful import of torch."""
    if facts.value("import.torch.outcome") == "imported" and facts.value("torch.missing_libraries") is not None:
        yield _derived("torch.missing_libraries", Absent("torch was imported"), "import.torch.outcome")


def _of_import(facts: FactSet, module: str) -> Iterator[Fact]:
    got = _from(facts, f"import.{module}.missing_module")
    wanted: State = got if not isinstance(got, tuple) else Absent("no metadata asks for a package of that name")
    if isinstance(got, tuple) and (requirement := requirement_for(facts, str(got[0]))):
        wanted = Known(requirement)
    yield _derived(f"import.{module}.missing_requirement", wanted, f"import.{module}.missing_module", "requirement.*")
    package = distribution_of(module, facts.subjects("package"))
    yield _derived(f"import.{module}.package", Known(package), "the module's name")


def _of_sample(facts: FactSet, sample: str) -> Iterator[Fact]:
    library = facts.fact(f"sample.{sample}.library")
    state = library.state
    if isinstance(state, Known):
        state = Known(distribution_of(str(state.value), facts.subjects("package")))
    yield _derived(f"sample.{sample}.package", state, library.name)


def _beside(facts: FactSet) -> dict[str, tuple[str, ...]]:
    """Extension -> all extensions of its package."""
    packages: dict[str, list[str]] = {}
    for module in facts.subjects("extension"):
        package = facts.text(f"extension.{module}.package") or module.partition(".")[0]
        packages.setdefault(package, []).append(module)
    return {module: tuple(modules) for modules in packages.values() for module in modules}


def _of_extension(
    facts: FactSet,
    module: str,
    gpus: tuple[tuple[int, int], ...] | _NotComputed,
    beside: dict[str, tuple[str, ...]] | _NotComputed,
    ahead: Outlook,
) -> Iterator[Fact]:
    own = f"extension.{module}."
    for name, mine, other, differs in (
        ("abi_differs", "cxx11_abi", "torch.cxx11_abi", lambda a, b: a != b),
        ("cudart_differs", "cudart_major", "torch.cuda", lambda a, b: a != _major(b)),
        ("glibc_too_old", "glibc_needed", "libc.version", _newer),
        ("libstdcxx_too_old", "glibcxx_needed", "libstdcxx.version", _newer),
    ):
        got = _from(facts, own + mine, other)
        yield _derived(own + name, Known(bool(differs(*got))) if isinstance(got, tuple) else got, own + mine, other)
    yield from _gpu_code(facts, module, gpus, beside)
    package = canonicalize_name(facts.text(own + "package") or "")
    if package in partners():
        yield from _partners(facts, own.rstrip("."), package, ahead)
    elif package:
        none = Absent("no table says which release of it is made for which torch")
        yield _derived(own + "release_for_torch", none, own + "package")
    yield from _settled_by_import(facts, module, own)


def _settled_by_import(facts: FactSet, module: str, own: str) -> Iterator[Fact]:
    """Facts that the files left open and the import decides: an imported package lacks no symbol."""
    top = canonicalize_name(str(facts.value(own + "package") or module.partition(".")[0]))
    imported = next(
        (
            name
            for name in facts.subjects("import")
            if top in (canonicalize_name(name), canonicalize_name(name.partition(".")[0]))
            and facts.value(f"import.{name}.outcome") == "imported"
        ),
        None,
    )
    for attribute in ("missing_symbols", "missing_other_symbols"):
        if imported is not None and isinstance(facts.fact(own + attribute).state, Unknown):
            yield _derived(own + attribute, Absent(f"{imported} was imported"), f"import.{imported}.outcome")


def _gpu_code(
    facts: FactSet,
    module: str,
    gpus: tuple[tuple[int, int], ...] | _NotComputed,
    beside: dict[str, tuple[str, ...]] | _NotComputed,
) -> Iterator[Fact]:
    """The GPUs for which an extension has no code, and whether another extension of its package has it.

    A package may have one file for each GPU generation (FlashAttention-3's for 9.0, fp4 kernels for 10.0) and choose at
    run time: it supports every GPU that one of them supports.
    """
    if isinstance(gpus, _NotComputed):
        raise faults.NotLooked(gpus.reason)
    if isinstance(beside, _NotComputed):
        raise faults.NotLooked(beside.reason)
    own = f"extension.{module}."
    state = facts.fact(own + "gpu_code").state
    without, lacks, elsewhere, nowhere = state, state, state, state
    if isinstance(state, Known):
        without_code = lacking(_codes(state), gpus)
        others = [facts.fact(f"extension.{one}.gpu_code").state for one in beside[module] if one != module]
        unserved = [gpu for gpu in without_code if all(gpu in lacking(_codes(one), gpus) for one in others)]
        doubt = next((one for one in others if isinstance(one, Unknown)), None)
        without, lacks = Known(_spelled(without_code)), Known(bool(without_code))
        elsewhere = Known(_spelled([gpu for gpu in without_code if gpu not in unserved]))
        nowhere = doubt if doubt is not None and unserved else Known(_spelled(unserved))
    of_file = (own + "gpu_code", "gpu.compute_capability")
    of_package = ("extension.gpu_code of the package", "gpu.compute_capability")
    yield _derived(own + "gpus_without_code", without, *of_file)
    yield _derived(own + "lacks_gpu_code", lacks, *of_file)
    yield _derived(own + "gpus_served_elsewhere", elsewhere, *of_package)
    yield _derived(own + "gpus_package_lacks", nowhere, *of_package)


def _codes(state: State) -> tuple[str, ...]:
    return _texts(state.value) if isinstance(state, Known) else ()


def _spelled(gpus: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(f"{major}.{minor}" for major, minor in gpus)


def _of_promotions(facts: FactSet) -> Iterator[Fact]:
    """The code that changed a dtype before a broken attention call: a library's own, or the project's."""
    by_package: dict[str, list[str]] = {}
    for subject in facts.subjects("promotion"):
        own = f"promotion.{subject}."
        place = facts.text(own + "place")
        package = _owner_of(place.rpartition(":")[0], facts) if place else ""
        if place:
            state: State = Known(package) if package else Absent("the line is in no known package")
            yield _derived(own + "package", state, own + "place")
        if package and facts.value(own + "verdict") in ("raises", "silently mixed"):
            function = facts.text(own + "function") or "?"
            by_package.setdefault(package, []).append(f"{function} ({place})")
    for package, where in by_package.items():
        yield _derived(f"package.{package}.promotes", Known(tuple(dict.fromkeys(where))), "promotion.*.place")


def _owner_of(file: str, facts: FactSet) -> str:
    """The known, installed package with the module that contains this file; empty when there is none."""
    for package in facts.subjects("package"):
        known = BY_NAME.get(package)
        folder = facts.text(f"package.{package}.path")
        if known is None or not folder or facts.value(f"package.{package}.version") is None:
            continue
        if any(file.startswith(f"{folder}/{inner}{known.module}/") for inner in ("", "src/")):
            return package
    return ""


def _texts(value: Value) -> tuple[str, ...]:
    return tuple(str(item) for item in (value if isinstance(value, tuple) else (value,)))


def _major(version: Value) -> int:
    head = str(version).partition(".")[0]
    return int(head) if head.isdigit() else -1


def _newer(needed: Value, offered: Value) -> bool:
    return Version(str(needed)) > Version(str(offered))
