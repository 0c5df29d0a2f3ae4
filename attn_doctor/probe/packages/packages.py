"""Facts about the packages of the interpreter under examination, from metadata alone: nothing is imported."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.model.facts import Fact
from attn_doctor.model.package_versions import canonical_name, is_release, specifier_set
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages import requirements
from attn_doctor.probe.packages.dist_info import (
    DistInfo,
    Distribution,
    as_distribution,
    editable_folder,
    listed_modules,
    read_dist_info,
)
from attn_doctor.probe.packages.known_packages import AMBIGUOUS, BY_MODULE, BY_NAME, PACKAGES, Package
from attn_doctor.probe.packages.overlaps import overlaps
from attn_doctor.probe.packages.requirements import RequirementSource, read_line
from attn_doctor.quick_dataclasses import dataclass

_SAID_NAME = re.compile(r"^Name:[ \t]*([\w.-]+)[ \t]*$", re.MULTILINE | re.IGNORECASE)

#: A package compiled against torch requires it in its metadata.
_NEEDS_TORCH = re.compile(rb"^Requires-Dist:\s*torch(?![\w.-])(?!.*extra\s*==)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The packages on the path, for the probes that examine them further."""

    distributions: tuple[Distribution, ...]
    """The relevant distributions; the one that Python would import comes first."""
    modules: Mapping[str, Path]
    """Relevant top-level modules on the path, with or without metadata."""
    count: int
    everything: Mapping[str, RequirementSource]
    """Canonical name -> requirements of each distribution on the path; of duplicates, the one that Python would
    import.
    """
    leftovers: tuple[Path, ...] = ()
    """What pip had set aside when it was ended: it renames what it uninstalls to `~ame`, and ignores such names."""

    def of(self, name: str) -> Distribution | None:
        """The distribution of this canonical name that Python would import."""
        return next((dist for dist in self.distributions if dist.name == name), None)

    def imports(self) -> tuple[str, ...]:
        """Modules to import as a test, without torch."""
        wanted: list[str] = []
        for package in PACKAGES:
            there = self.of(package.name) is not None or (
                package.module in self.modules and not self._is_of_another(package)
            )
            if there and (self.of(package.name) is not None or not package.nested):
                wanted.extend(name for name in package.imports if name != "torch")
        wanted += [name for package in PACKAGES for name in package.extensions if self._holds_kernels(package, name)]
        return tuple(dict.fromkeys(wanted))

    def _holds_kernels(self, package: Package, extension: str) -> bool:
        return extension in package.kernels_in and extension in self.modules

    def _is_of_another(self, package: Package) -> bool:
        """True when the folder is only a namespace that contains another distribution."""
        folder = self.modules[package.module]
        others = [one for one in PACKAGES if one.module == package.module and self.of(one.name) is not None]
        return bool(others) and folder.is_dir() and not (folder / "__init__.py").exists()


def take_inventory(search_path: Iterable[Path]) -> Inventory:
    """Reads the names of all packages on the path, and the metadata of the relevant ones."""
    tops = {package.module for package in PACKAGES} | {name for package in PACKAGES for name in package.extensions}
    found: list[Distribution] = []
    modules: dict[str, Path] = {}
    count = 0
    everything: dict[str, RequirementSource] = {}
    seen: set[Path] = set()
    leftovers: list[Path] = []
    others: list[tuple[DistInfo, Path, Path]] = []
    for folder in search_path:
        real = folder.resolve()
        if real in seen:  # lib64 is often a link to lib
            continue
        seen.add(real)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("~"):
                leftovers.append(entry)
                continue
            top = entry.name.split(".", 1)[0]
            if top in tops and _importable(entry) and (top not in modules or _later_wins(modules[top], entry)):
                modules[top] = entry
            if not entry.name.endswith((".dist-info", ".egg-info")):
                continue
            count += 1
            read = read_dist_info(entry)
            asking = RequirementSource(read.name, read.version, read.requires)
            everything.setdefault(read.name, asking)
            if read.name in BY_NAME or _NEEDS_TORCH.search(read.raw):
                found.append(as_distribution(read, entry, folder))
            if read.name not in BY_NAME:
                others.append((read, entry, folder))
    renamed = _under_other_names(found, others, modules)
    found = [one for one in found if one.info not in {other.info for other in renamed}]
    order = {folder: number for number, folder in enumerate(dict.fromkeys(one.folder for one in (*found, *renamed)))}
    found = sorted((*found, *renamed), key=lambda one: order[one.folder])
    for one in renamed:  # it satisfies requirements on the library
        everything.setdefault(one.name, RequirementSource(one.name, one.version, one.requires))
    return Inventory(
        distributions=tuple(found),
        modules=modules,
        count=count,
        everything=everything,
        leftovers=tuple(leftovers),
    )


def _under_other_names(
    found: Iterable[Distribution], others: Iterable[tuple[DistInfo, Path, Path]], modules: Mapping[str, Path]
) -> list[Distribution]:
    """Known libraries in a distribution with another name, recognized by the module that it contains.

    Forks, vendors' builds and source builds rename distributions, but keep the import name. RECORDs are long: they are
    read only when a module belongs to no known distribution.
    """
    accounted = {BY_NAME[one.name].module for one in found if one.name in BY_NAME}
    wanting = [
        package for package in BY_MODULE.values() if package.module not in accounted and package.module not in AMBIGUOUS
    ]
    lying = {path.parent for package in wanting if (path := modules.get(package.module)) and not _is_namespace(path)}
    renamed = []
    for read, info, folder in others:
        source = editable_folder(info)
        lines = listed_modules(info) if source is None and folder in lying else frozenset()
        for package in wanting:
            brought = (f"{package.module}/__init__.py", f"{package.module}.py")
            if source is not None:
                brings = any((source / inner / one).is_file() for inner in ("", "src") for one in brought)
            else:
                brings = any(one in lines for one in brought)
            if brings:
                renamed.append(as_distribution(read, info, folder, as_name=package.name))
                break
    return renamed


def probe(inventory: Inventory, told: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Facts about the packages; `told` is the interpreter's description of itself (its marker environment)."""
    notes = FactNotes()
    notes.known("listed.package", inventory.count, "dist-info folders on the interpreter's sys.path")
    markers = {key: str(value) for key, value in (told.get("markers") or {}).items()}
    names = dict.fromkeys(dist.name for dist in inventory.distributions)
    for name in names:
        same = [dist for dist in inventory.distributions if dist.name == name]
        _note(notes, same, inventory, markers)
    _note_leftovers(notes, inventory)
    for name, other in overlaps(inventory.distributions):
        notes.known(
            f"package.{name}.overlaps", f"{name} and {other}", "files that both RECORDs list, with other hashes"
        )
    torch = inventory.of("torch")
    how = "Requires-Dist of torch's metadata"
    if torch is not None:
        asked, error = _requirement(torch, ("triton", "pytorch-triton", "pytorch-triton-rocm"), markers)
        if error:
            notes.unknown("torch.triton_requirement", how, error)
        else:
            notes.known_or_absent("torch.triton_requirement", asked, how, "torch asks for no triton here")
    else:
        notes.absent("torch.triton_requirement", how, "no torch distribution")
    return (*notes.facts(), *requirements.probe(inventory.everything, markers))


def _note_leftovers(notes: FactNotes, inventory: Inventory) -> None:
    how = "names that begin with ~ on sys.path"
    notes.known_or_absent("environment.leftovers", tuple(map(str, inventory.leftovers)), how)
    missing: dict[str, None] = {}
    for one in inventory.leftovers:
        read = read_dist_info(one)
        said = _SAID_NAME.search(read.raw.decode(errors="replace"))
        if said is not None and read.version is not None and canonical_name(said[1]) not in inventory.everything:
            missing[f"{said[1]}=={read.version}"] = None
    notes.known_or_absent("environment.uninstalled", tuple(missing), how, "what they are left of is there, or unknown")
    folder = inventory.leftovers[0].parent if inventory.leftovers else None
    notes.known_or_absent("environment.leftovers_in", str(folder) if folder else None, how)


def _note(notes: FactNotes, same: list[Distribution], inventory: Inventory, markers: Mapping[str, str]) -> None:
    dist = same[0]
    own = f"package.{dist.name}."
    how = f"{dist.info}"
    if dist.version is None:
        notes.unknown(own + "version", how, dist.error or "its metadata names no version")
    else:
        notes.known(own + "version", dist.version, how)
    notes.known_or_absent(own + "distribution", dist.called or None, how, "its distribution bears the library's name")
    notes.known(own + "path", str(dist.editable_at or dist.folder), how)
    notes.known_or_absent(own + "wheel_tag", ", ".join(dist.wheel_tags) or None, f"{how}/WHEEL")
    notes.known_or_absent(own + "variant", dist.variant or None, f"{how}/variant.json", "its wheel is no variant")
    notes.known(own + "editable", dist.editable_at is not None, f"{how}/direct_url.json")
    notes.known_or_absent(own + "source", dist.source, f"{how}/direct_url.json")
    notes.known_or_absent(own + "metadata_error", dist.error or None, how)
    others = tuple(f"{other.info} ({other.version or 'no version'})" for other in same[1:])
    notes.known_or_absent(own + "duplicates", others, "dist-info folders of the same name on sys.path")
    known = BY_NAME.get(dist.name)
    if known is not None:
        taken = inventory.modules.get(known.module)
        mine = dist.folder / known.module
        shadow = (
            taken is not None
            and not _is_namespace(taken)  # all parts count: nvidia's wheels share one namespace in several folders
            and dist.editable_at is None
            and taken.parent.resolve() != dist.folder.resolve()
            and any(mine.parent.glob(f"{known.module}*"))
        )
        notes.known_or_absent(own + "shadowed_by", str(taken) if shadow else None, f"first {known.module} on sys.path")
    asked, error = _requirement(dist, ("torch",), markers)
    if error:
        notes.unknown(own + "requires_torch", how, error)
    else:
        notes.known_or_absent(own + "requires_torch", asked, f"Requires-Dist in {how}")


def _importable(entry: Path) -> bool:
    return entry.suffix in (".py", ".so") or (entry.is_dir() and not entry.name.endswith((".dist-info", ".egg-info")))


def _is_namespace(entry: Path) -> bool:
    """True for a folder without __init__: Python imports it only if nothing better is on the rest of the path (PEP
    420).
    """
    return entry.is_dir() and not any(entry.glob("__init__.*"))


def _later_wins(first: Path, entry: Path) -> bool:
    return first.parent != entry.parent and _is_namespace(first) and not _is_namespace(entry)


def _requirement(dist: Distribution, names: tuple[str, ...], markers: Mapping[str, str]) -> tuple[str | None, str]:
    """Its requirement on the named package under this interpreter's markers, and why it is unknown, if so."""
    for text in dist.requires:
        line = read_line(text)
        if line is not None and line.name not in names:
            continue
        if line is not None and not line.marker:
            if is_release(line.specifier):
                return line.specifier, ""
            with contextlib.suppress(ValueError):
                return str(specifier_set(line.specifier)) or ">=0", ""
        # Its parser, which few lines need.
        from packaging.markers import UndefinedEnvironmentName
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(text)
            if canonical_name(requirement.name) not in names:
                continue
            if requirement.marker is None or requirement.marker.evaluate({**markers, "extra": ""}):
                return str(requirement.specifier) or ">=0", ""
        except (InvalidRequirement, UndefinedEnvironmentName, ValueError) as error:
            if any(name in text for name in names):
                return None, f"Requires-Dist {text[:80]!r} cannot be read: {type(error).__name__}"
    return None, ""
