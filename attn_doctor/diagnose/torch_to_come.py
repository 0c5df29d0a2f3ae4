"""Decides for which torch the packages of an environment are made, and which torch it will have after its fixes.

A package that pins one release of torch (`Requires-Dist: torch==2.13.0`) is compiled for it. If torch differs from the
only release that such packages require, torch is changed back; if one of them is made for the installed torch, or if
they require several releases, torch stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from attn_doctor.model.facts import Absent, FactSet, Known, State, Unknown
from attn_doctor.model.install_request import BOUND_TO_TORCH, COMPANIONS
from attn_doctor.model.package_versions import named_versions, specifier_set
from attn_doctor.probe.packages.requirements import met
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.data.torch_releases import Build, NoBuild, build_for, index_needed, newest_known, partners

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_NO_GPU = Unknown("no GPU is known here; --gpu names one", asked=False)


@dataclass(frozen=True, slots=True)
class AskedTorch:
    """The torch that packages ask for, and that is not there."""

    by: tuple[str, ...]
    requirement: str
    """As a requirement for an installer: torch==2.13.0, or torch when the newest will do."""
    release: str | None
    """None where several would do."""
    backend: str = ""
    """The build of torch's own index that it has to come from; empty where any registry's will do."""
    words: tuple[str, ...] = ()
    """What each of them asks for: `vllm asks for torch==2.13.0`."""
    along: tuple[str, ...] = ()
    """Packages of which they ask for another release than the one there, which changes with torch."""


def asked_torch(facts: FactSet) -> AskedTorch | Absent | Unknown:
    """The torch that has to come because packages are made for it, or why none has to."""
    there = facts.fact("torch.version").state
    if isinstance(there, Unknown):
        return there
    asked = _asked(facts)
    if not asked:
        return Absent("no package asks for one torch alone")
    if isinstance(there, Known):
        found = _instead_of(str(there.value), asked, facts)
    elif facts.text("package.torch.version") is not None:
        found = Absent("torch's metadata is there, its files are not")
    else:
        found = _first(asked, facts)
    if not isinstance(found, AskedTorch):
        return found
    words = (f"{one} asks for torch{'' if asked[one] == 'any' else asked[one]}" for one in found.by)
    return replace(found, words=tuple(words))


def made_for(facts: FactSet, package: str) -> str | None:
    """The one release of torch for which an installed package is made by its metadata, if another one is installed."""
    torch = facts.text("torch.version")
    specifier = facts.text(f"requirement.{package}.torch.specifier") or facts.text(f"package.{package}.requires_torch")
    pin = _pin(specifier) if specifier and package != "torch" else None
    if torch is None or pin is None or specifier is None:
        return None
    versions = [torch, *filter(None, [facts.text("package.torch.version")])]
    return None if any(met(specifier, one) is not False for one in versions) else pin


@dataclass(frozen=True, slots=True)
class Outlook:
    """The plan for the torch of an environment."""

    asked: AskedTorch | Absent | Unknown
    build: Build | Absent | Unknown
    """The published CUDA build that this node's driver and GPUs can run: of the required torch, else of the installed
    torch's release if it has one; or why there is none."""
    release: State
    """The release that the fixes of this environment install; absent when torch stays as it is."""

    def pins_apart(self, facts: FactSet, package: str) -> str | None:
        """The result of `made_for`, when torch will not become that release: then the package has to change.

        None if it changes anyway, because what torch comes for asks for another release of it."""
        by = self.asked.by if isinstance(self.asked, AskedTorch) else ()
        return None if package in by or _replaced([package], by, facts) else made_for(facts, package)


def outlook(facts: FactSet, *, lacks_code: bool) -> Outlook:
    """Combines the requirements of the packages with GPUs and driver; `lacks_code`: torch has no code for a GPU of the
    node.
    """
    asked = asked_torch(facts)
    wanted = asked.release if isinstance(asked, AskedTorch) else None
    build = _build_of(wanted or facts.text("torch.version"), facts)
    is_cpu_build = all(isinstance(facts.fact(f"torch.{one}").state, Absent) for one in ("cuda", "hip"))
    release: State = Absent("torch stays as it is")
    if wanted:
        release = Known(wanted)
    elif isinstance(build, Build) and facts.text("torch.version") and (is_cpu_build or lacks_code):
        release = Known(build.torch)
    return Outlook(asked, build, release)


# --- requirements ---------------------------------------------------------------------------------------------------


def _asked(facts: FactSet) -> dict[str, str]:
    """Package -> its requirement on torch."""
    found = {}
    for subject in facts.subjects("requirement"):
        package, _, on = subject.partition(".")
        specifier = facts.text(f"requirement.{subject}.specifier")
        if on == "torch" and specifier is not None:
            found[package] = specifier
    for package in facts.subjects("package"):
        specifier = facts.text(f"package.{package}.requires_torch")
        if specifier is not None and package not in BOUND_TO_TORCH[:3]:
            found.setdefault(package, specifier)
    return found


def _instead_of(torch: str, asked: Mapping[str, str], facts: FactSet) -> AskedTorch | Absent | Unknown:
    """When a torch is installed."""
    if _is_no_release(torch):
        return Absent("a container's or a nightly build of torch is not replaced by a release")
    unmet = {package: pin for package in asked if (pin := made_for(facts, package))}
    # Packages in the table of releases follow every torch, so they do not decide which one to install.
    leading = {package: pin for package, pin in unmet.items() if package not in partners()}
    held = [one for one, text in asked.items() if one not in unmet and one not in partners() and _pin(text)]
    going = _replaced([*leading, *held], [*leading, *held], facts)
    leading = {package: pin for package, pin in leading.items() if package not in going}
    held = [one for one in held if one not in going]
    pins = set(leading.values())
    if not leading:
        return Absent("no package that has no release for this torch asks for another one")
    if held or len(pins) > 1:
        return Absent("packages here are made for several releases of torch")
    (pin,) = pins
    by = tuple(package for package, its in unmet.items() if _release(its) == _release(pin) and package not in going)
    along = tuple(sorted(_replaced(going, by, facts)))
    found = AskedTorch(by=by, requirement=f"torch=={_release(pin)}", release=_release(pin), along=along)
    return _to_be_had(found, pin, facts)


def _replaced(packages: Iterable[str], by: Iterable[str], facts: FactSet) -> frozenset[str]:
    """Those of the packages of which one of `by` asks for another release by name: what they are made for is not what
    they will be."""
    found = set()
    for package in packages:
        version = facts.text(f"package.{package}.version")
        for other in by if version is not None else ():
            specifier = facts.text(f"requirement.{other}.{package}.specifier")
            if specifier and _pin(specifier) and met(specifier, version or "") is False:
                found.add(package)
    return frozenset(found)


def _first(asked: Mapping[str, str], facts: FactSet) -> AskedTorch | Absent | Unknown:
    """When no torch is installed."""
    going = _replaced(asked, asked, facts)
    leading = {one: text for one, text in asked.items() if one not in partners() and one not in going} or dict(asked)
    together = _together(leading.values())
    if together is None:
        return Absent("what packages here ask of torch cannot be read")
    by = tuple(asked)
    pins = {_pin(text) for text in leading.values()} - {None} or {_pin(text) for text in asked.values()} - {None}
    pin = next((one for one in pins if one is not None and together.contains(one, prereleases=True)), None)
    if pins:
        if pin is None:
            return AskedTorch(by=by, requirement="", release=None)  # they contradict each other
        return _to_be_had(AskedTorch(by=by, requirement=f"torch=={_release(pin)}", release=_release(pin)), pin, facts)
    build = _build_of(None, facts, together)
    if isinstance(build, Build):
        return _from_an_index(AskedTorch(by=by, requirement=f"torch=={build.torch}", release=build.torch), facts)
    newest_will_do = together.contains(newest_known())
    return AskedTorch(by=by, requirement="torch" if newest_will_do else f"torch{together}", release=None)


def _to_be_had(asked: AskedTorch, pin: str, facts: FactSet) -> AskedTorch | Absent:
    """With the index that it has to come from, or why it is of no use on this node."""
    local = pin.partition("+")[2]
    return replace(asked, backend=local) if local else _from_an_index(asked, facts)


def _from_an_index(asked: AskedTorch, facts: FactSet) -> AskedTorch | Absent:
    assert asked.release is not None
    driver = facts.text("driver.version")
    gpus = [facts.text(f"gpu.{index}.compute_capability") for index in facts.subjects("gpu")]
    try:
        backend = index_needed(
            asked.release,
            installed=(facts.text("package.torch.version") or "").partition("+")[2],
            driver=driver and str(Version(driver)),
            gpus=[one for one in gpus if one],
            machine=facts.text("node.machine") or "x86_64",
            cuda_major=_cuda_major(facts),
        )
    except InvalidVersion:
        return replace(asked, backend="")
    if backend is None:
        return Absent(f"no build of torch {asked.release} is published for the GPUs and the driver of this node")
    return replace(asked, backend=backend)


def _build_of(torch: str | None, facts: FactSet, among: SpecifierSet | None = None) -> Build | Absent | Unknown:
    gpus = [facts.text(f"gpu.{index}.compute_capability") for index in facts.subjects("gpu")]
    driver = facts.fact("driver.version").state
    if not gpus or not all(gpus):
        return _NO_GPU
    if isinstance(driver, Unknown):
        return driver
    try:
        return build_for(
            torch=torch,
            driver=str(driver.value) if isinstance(driver, Known) else None,
            gpus=[one for one in gpus if one],
            machine=facts.text("node.machine") or "x86_64",
            cuda_major=_cuda_major(facts),
            driver_cuda=facts.text("driver.cuda"),
            among=among,
        )
    except NoBuild as error:
        return Absent(str(error))


def _cuda_major(facts: FactSet) -> int | None:
    """The CUDA release whose runtime the compiled packages of the environment need, if all of them need the same."""
    found = {
        value
        for module in facts.subjects("extension")
        if facts.text(f"extension.{module}.package") not in COMPANIONS
        and isinstance(value := facts.value(f"extension.{module}.cudart_major"), int)
    }
    return next(iter(found)) if len(found) == 1 else None


def _together(specifiers: Iterable[str]) -> SpecifierSet | None:
    try:
        return specifier_set(",".join(_plain(specifiers)))
    except ValueError:
        return None


def _plain(specifiers: Iterable[str]) -> Iterator[str]:
    for one in specifiers:
        if one not in ("", "any", ">=0"):
            yield one


def _pin(specifier: str) -> str | None:
    """The one version that a specifier accepts by name."""
    try:
        pins = named_versions(specifier)
        return str(Version(pins[0])) if len(pins) == 1 and "*" not in pins[0] else None
    except ValueError:
        return None


def _release(version: str) -> str:
    return version.partition("+")[0]


def _is_no_release(version: str) -> bool:
    try:
        return Version(version).is_prerelease
    except InvalidVersion:
        return True
