"""Facts computed from other facts, for questions that a single condition cannot express.

Computed again after --assume and --gpu, so that an assumed GPU is treated like a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from packaging.version import InvalidVersion

from attn_doctor.diagnose import requirements
from attn_doctor.diagnose.assume import supposed
from attn_doctor.diagnose.conditions import capability
from attn_doctor.diagnose.derivation import NotComputed, as_texts, derived_fact, gpu_capabilities, major_of, values_of
from attn_doctor.diagnose.derived_of_extensions import extensions_beside, facts_of_extension
from attn_doctor.diagnose.derived_of_torch import (
    facts_of_torch,
    releases_for_torch,
    torch_lacks_code,
    wheel_named_for,
)
from attn_doctor.diagnose.gpu_targets import runs
from attn_doctor.diagnose.missing_modules import requirement_for
from attn_doctor.diagnose.torch_to_come import Outlook, outlook
from attn_doctor.machine import faults
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown, Value
from attn_doctor.model.outcomes import BROKEN, Outcome
from attn_doctor.model.package_versions import accepts
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.recipes.data.checked import is_newer, newest_checked
from attn_doctor.recipes.data.drivers import is_older, oldest_cuda, oldest_for_cuda, unfit_for
from attn_doctor.recipes.data.torch_releases import builds, gpu_code, partners


def derive(facts: FactSet) -> FactSet:
    """The facts with every derived one computed again; when that fails for a subject, its derived facts are unknown.

    A fact computed from an assumption is marked.
    """
    gpus = faults.survive("computing of facts of the GPUs", lambda: gpu_capabilities(facts), NotComputed)
    found = [*_survived("node", "", lambda: _of_node(facts)), *_survived("driver", "", lambda: _of_driver(facts))]
    ahead = faults.survive(
        "computing of the torch to come", lambda: outlook(facts, lacks_code=torch_lacks_code(facts)), _nothing_known
    )
    found += _survived("torch", "", lambda: facts_of_torch(facts, ahead))
    for index in facts.subjects("gpu"):
        found += _survived("gpu", index, partial(_of_gpu, facts, index))
    for package in facts.subjects("package"):
        found += _survived("package", package, partial(_of_package, facts, package, ahead))
    told = facts.text("subject.package")
    if told in partners() and told not in facts.subjects("package"):
        # A log is about it, and need not say which release is there.
        found += _survived("package", told, partial(releases_for_torch, facts, f"package.{told}", told, ahead))
    beside = faults.survive("computing of facts of the extensions", lambda: extensions_beside(facts), NotComputed)
    for module in facts.subjects("extension"):
        found += _survived("extension", module, partial(facts_of_extension, facts, module, gpus, beside, ahead))
    for module in facts.subjects("import"):
        found += _survived("import", module, partial(_of_import, facts, module))
    for sample in facts.subjects("sample"):
        found += _survived("sample", sample, partial(_of_sample, facts, sample))
    found += _survived("import", "torch", lambda: _settled_of_torch(facts))
    found += _survived("environment", "", lambda: requirements.derived(facts))
    found += _survived("promotion", "", lambda: _of_promotions(facts))
    return facts.with_facts(supposed(found, facts))


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


def _of_node(facts: FactSet) -> Iterator[Fact]:
    every = [facts.fact(f"gpu.{index}.compute_capability").state for index in facts.subjects("gpu")]
    lacking = any(isinstance(one, Known) and capability(str(one.value)) < (8, 0) for one in every)
    state: State = Known(not lacking)
    if not lacking and (not every or not all(isinstance(one, Known) for one in every)):
        state = Unknown("no GPU is known here; --gpu names one", asked=False)
    yield derived_fact("node.bf16_native", state, "gpu.*.compute_capability")
    listed = facts.fact("listed.gpu")
    state = listed.state
    if isinstance(state, Known):
        how = "assumed, not seen" if listed.origin is Origin.ASSUMED else "seen"
        state = Known(f"{state.value} ({how})" if state.value else "none")
    yield derived_fact("node.gpus", state, "listed.gpu")


def _of_gpu(facts: FactSet, index: str) -> Iterator[Fact]:
    name = f"gpu.{index}.compute_capability"
    got = values_of(facts, name)
    yield derived_fact(
        f"gpu.{index}.bf16_native",
        Known(capability(str(got[0])) >= (8, 0)) if isinstance(got, tuple) else got,
        name,
    )
    has = values_of(facts, name, "torch.arch_list")
    has_code: State = (
        Known(any(runs(code, capability(str(has[0]))) for code in as_texts(has[1]))) if isinstance(has, tuple) else has
    )
    if isinstance(has_code, Unknown) and _published_with_code(facts, name):
        has_code = Known(True)
    if isinstance(has_code, Unknown) and _older_than_the_gpu(facts, name):
        has_code = Known(False)
    yield derived_fact(f"gpu.{index}.torch_has_code", has_code, name, "torch.arch_list")

    yield derived_fact(f"gpu.{index}.needs_driver", _needed_driver(facts, index), name, "driver.version")


def _older_than_the_gpu(facts: FactSet, name: str) -> bool:
    """torch was built by a CUDA whose nvcc knows no GPU of this generation: it holds no code for it."""
    got = values_of(facts, name, "torch.cuda")
    if not isinstance(got, tuple):
        return False
    first = oldest_cuda(str(got[0]))
    return first is not None and is_older(str(got[1]), first)


def _published_with_code(facts: FactSet, name: str) -> bool:
    """The build of torch's own index that is there is known to hold code for this GPU, though nobody asked torch."""
    got = values_of(facts, name, "torch.version")
    if not isinstance(got, tuple):
        return False
    release, _, local = str(got[1]).partition("+")
    gpu = capability(str(got[0]))
    # A build that the table leaves out as experimental (cu129) has the code of the one before it, of the same major.
    published = builds(release)
    like = [one for one in published if one.name == local or (one.name[:4] == local[:4] and one.name < local)]
    held = [any(runs(f"sm_{code.replace('.', '')}", gpu) for code in gpu_code(one)) for one in like or published]
    # Which build a release without its local version is nobody knows: each of them has to hold the code.
    return gpu >= (7, 5) and bool(held) and (any(held) if like else not local and all(held))


def _needed_driver(facts: FactSet, index: str) -> State:
    """The drivers that know a GPU which was named; a GPU that was listed here is known to its driver."""
    own = facts.fact(f"gpu.{index}.compute_capability")
    if own.origin is not Origin.ASSUMED or facts.value(f"gpu.{index}.uuid") is not None:
        return Absent("the driver lists this GPU")
    got = values_of(facts, str(own.name), "driver.version")
    if not isinstance(got, tuple):
        return got
    try:
        unfit = unfit_for(str(got[1]), [str(got[0])])
    except InvalidVersion:
        return Unknown(f"the driver's version {got[1]!r} cannot be compared")
    return Known(unfit.words) if unfit is not None else Absent("the driver knows this GPU")


def _of_driver(facts: FactSet) -> Iterator[Fact]:
    got = values_of(facts, "torch.cuda", "driver.version")
    state: State = got if not isinstance(got, tuple) else Unknown("no driver minimum is known for this CUDA")
    if isinstance(got, tuple):
        oldest = oldest_for_cuda(major_of(got[0]))
        if oldest is not None:
            try:
                state = Known(is_older(str(got[1]), oldest))
            except InvalidVersion:
                state = Unknown(f"the driver's version {got[1]!r} cannot be compared")
    yield derived_fact("driver.too_old", state, "torch.cuda", "driver.version")


def _nothing_known(reason: str) -> Outlook:
    return Outlook(Unknown(reason), Unknown(reason), Unknown(reason))


def _of_package(facts: FactSet, package: str, ahead: Outlook) -> Iterator[Fact]:
    version = f"package.{package}.version"
    if package in ("triton", "pytorch-triton", "pytorch-triton-rocm"):
        got = values_of(facts, version, "torch.triton_requirement")
        state = _accepts(got[1], got[0]) if isinstance(got, tuple) else got
        yield derived_fact(f"package.{package}.fits_torch", state, version, "torch.triton_requirement")
    elif FactName("package", package, "requires_torch") in facts and package != "torch":
        asked = f"package.{package}.requires_torch"
        got = values_of(facts, asked, "torch.version")
        state = _accepts(got[0], got[1]) if isinstance(got, tuple) else got
        yield derived_fact(f"package.{package}.fits_torch", state, asked, "torch.version")
    if package in newest_checked():
        got = values_of(facts, version)
        newer = is_newer(package, str(got[0])) if isinstance(got, tuple) else None
        state = got if not isinstance(got, tuple) else Unknown("the version cannot be compared")
        yield derived_fact(f"package.{package}.newer_than_checked", state if newer is None else Known(newer), version)
        yield derived_fact(
            f"package.{package}.newest_checked", Known(newest_checked()[package]), "recipes/checked.toml"
        )
    if package in partners():
        yield from releases_for_torch(facts, f"package.{package}", package, ahead)
    if package != "torch":
        pin = ahead.pins_apart(facts, package)
        state = Known(pin) if pin else Absent("its metadata names no torch but the one that is, or will be, there")
        yield derived_fact(f"package.{package}.made_for_torch", state, "requirement.*.specifier", "torch.version")
        state = Known(package) if pin else Absent("not needed")
        yield derived_fact(f"package.{package}.name", state, f"package.{package}.made_for_torch")
        yield from wheel_named_for(facts, package)


def _accepts(requirement: Value, version: Value) -> State:
    try:
        return Known(accepts(str(requirement), str(version)))
    except ValueError as error:
        return Unknown(f"cannot be compared: {error}")


def _settled_of_torch(facts: FactSet) -> Iterator[Fact]:
    """Facts decided by a successful import of torch."""
    if facts.value("import.torch.outcome") == Outcome.IMPORTED and facts.value("torch.missing_libraries") is not None:
        yield derived_fact("torch.missing_libraries", Absent("torch was imported"), "import.torch.outcome")


def _of_import(facts: FactSet, module: str) -> Iterator[Fact]:
    got = values_of(facts, f"import.{module}.missing_module")
    wanted: State = got if not isinstance(got, tuple) else Absent("no metadata asks for a package of that name")
    if isinstance(got, tuple) and (requirement := requirement_for(facts, str(got[0]))):
        wanted = Known(requirement)
    yield derived_fact(
        f"import.{module}.missing_requirement", wanted, f"import.{module}.missing_module", "requirement.*"
    )
    package = distribution_of(module, facts.subjects("package"))
    yield derived_fact(f"import.{module}.package", Known(package), "the module's name")


def _of_sample(facts: FactSet, sample: str) -> Iterator[Fact]:
    library = facts.fact(f"sample.{sample}.library")
    state = library.state
    if isinstance(state, Known):
        state = Known(distribution_of(str(state.value), facts.subjects("package")))
    yield derived_fact(f"sample.{sample}.package", state, library.name)


def _of_promotions(facts: FactSet) -> Iterator[Fact]:
    """The code that changed a dtype before a broken attention call: a library's own, or the project's."""
    by_package: dict[str, list[str]] = {}
    for subject in facts.subjects("promotion"):
        own = f"promotion.{subject}."
        place = facts.text(own + "place")
        package = _owner_of(place.rpartition(":")[0], facts) if place else ""
        if place:
            state: State = Known(package) if package else Absent("the line is in no known package")
            yield derived_fact(own + "package", state, own + "place")
        if package and facts.value(own + "verdict") in BROKEN:
            function = facts.text(own + "function") or "?"
            by_package.setdefault(package, []).append(f"{function} ({place})")
    for package, where in by_package.items():
        yield derived_fact(f"package.{package}.promotes", Known(tuple(dict.fromkeys(where))), "promotion.*.place")


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
