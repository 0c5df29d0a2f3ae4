"""Wheels that authors publish with their releases instead of on a package index: which one fits a node.

The table is data (recipes/*/wheels.toml) with its sources; this module looks entries up and never guesses: an
address without a file costs more than the answer that there is no wheel.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from attn_doctor.formats import toml
from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.package_versions import specifier_set
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.gpu_table import runs
from attn_doctor.recipes.kept import bundled_folder

#: Package with known published wheels -> its table, relative to recipes/.
TABLES = {name: f"{name}/wheels.toml" for name in ("flash-attn", "causal-conv1d", "mamba-ssm")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Properties of this node that appear in a wheel's name."""

    torch: str
    """major.minor"""
    cuda: str
    """major.minor"""
    new_abi: bool
    python: str
    """major.minor"""
    platform: str
    """linux_x86_64"""
    glibc: str | None = None
    gpus: tuple[str, ...] = ()
    """Compute capabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One published file."""

    package: str
    version: str
    file: str
    url: str


class NoWheel(Exception):
    """No published wheel fits; the message is the reason, for people."""


class NotTold(NoWheel):
    """Whether a wheel fits is undecidable, because something about the node is unknown."""


def node_of(facts: FactSet) -> Node:
    """Makes a Node from an examination's facts.

    Raises NotTold when one of them is unknown, NoWheel when torch is no CUDA build of a release.
    """
    torch = _known(facts, "torch.version")
    try:
        version = Version(torch)
    except InvalidVersion:
        raise NoWheel(f"torch calls itself {torch!r}, which is no version") from None
    if version.is_prerelease or version.is_devrelease:
        # NVIDIA's containers and nightlies: their C++ interface is that of no release.
        raise NoWheel(f"torch {torch} is no release: published wheels are for releases")
    if isinstance(facts.fact("torch.cuda").state, Absent):
        raise NoWheel(f"torch {torch} is no CUDA build")
    abi = facts.value("torch.cxx11_abi")
    if not isinstance(abi, bool):
        raise NotTold("which C++ ABI torch has could not be looked at")
    glibc, system = facts.text("libc.version"), facts.text("node.system")
    if not glibc and not system:
        raise NotTold("node.system is not known")
    kernel = "linux" if glibc else str(system).lower()
    gpus = (facts.text(f"gpu.{subject}.compute_capability") for subject in facts.subjects("gpu"))
    return Node(
        torch=_minor(torch),
        cuda=_minor(_known(facts, "torch.cuda")),
        new_abi=abi,
        python=_minor(_known(facts, "python.version")),
        platform=f"{kernel}_{_known(facts, 'node.machine')}",
        glibc=glibc,
        gpus=tuple(dict.fromkeys(one for one in gpus if one)),
    )


def fitting(package: str, node: Node, wanted: str = "") -> Wheel:
    """The newest published wheel that fits; `wanted` is a specifier for its version.

    Raises NoWheel with the reason why there is none.
    """
    table = _table(package)
    if node.platform not in table["platforms"]:
        raise NoWheel(f"{package} has published wheels for {', '.join(table['platforms'])}, not for {node.platform}")
    try:
        allowed = specifier_set(wanted)
    except ValueError:  # filled from an unknown fact
        raise NotTold(f"which release of {package} is wanted is not known ({wanted})") from None
    if Version(node.python) < min(Version(one) for release in table["release"] for one in release["python"]):
        raise NotTold(f"what was published of {package} for Python {node.python} is not in the table")
    reasons: list[tuple[bool, str]] = []
    for release in sorted(table["release"], key=lambda one: Version(one["versions"][-1]), reverse=True):
        versions = [one for one in release["versions"] if allowed.contains(one, prereleases=True)]
        if not versions:
            continue
        reason = _against(release, node)
        if reason:
            reasons.append((node.torch not in release["torch"], reason))
            continue
        version = max(versions, key=Version)
        file = table["file"].format(
            version=version,
            cuda=_tag(release, node),
            torch=node.torch,
            abi="TRUE" if node.new_abi else "FALSE",
            python=_python_tag(node.python),
            python_abi=_abi_tag(node.python),
            platform=node.platform,
        )
        url = release.get("url", table["url"]).format(version=version, file=file.replace("+", "%2B"))
        return Wheel(package=package, version=version, file=file, url=url)
    named = f"{package} {wanted}".strip()
    # The newest release's reason is reported, of those that have wheels for this torch at all.
    reason = min(reasons, key=lambda one: one[0])[1] if reasons else "no such release"
    raise NoWheel(f"{named} has no published wheel for this node: {reason}")


def newest_for_torch(package: str, facts: FactSet, wanted: str = "") -> str | None:
    """The newest release with a published wheel for the minor release of torch, where nothing is known but that and
    perhaps Python and CUDA; None where torch is not known, or has no wheel of the releases that are wanted.
    """
    try:
        torch = _minor(str(Version(facts.text("torch.version") or "")))
        allowed = specifier_set(wanted)
    except (InvalidVersion, ValueError):
        return None
    here = {"torch": {torch}}
    if python := facts.text("python.version"):
        here["python"] = {_minor(python)}
    if cuda := facts.text("torch.cuda"):
        here["cuda"] = {_minor(cuda), cuda.split(".")[0]}
    found = [
        version
        for release in _table(package)["release"]
        if all(there & set(release[key]) for key, there in here.items())
        and not any(
            all(value in here.get(key, ()) for key, value in left_out.items())
            for left_out in release.get("without", ())
        )
        for version in release["versions"]
        if allowed.contains(version, prereleases=True)
    ]
    return max(found, key=Version, default=None)


def has_none_for(package: str, facts: FactSet, wanted: str = "") -> bool:
    """True where torch and Python are known, and no release has a published wheel for both, whatever the CUDA is."""
    known = all(facts.text(name) for name in ("torch.version", "python.version"))
    return known and newest_for_torch(package, facts, wanted) is None


def page_of(package: str) -> str:
    """The page on which its authors list all wheels of the package."""
    return str(_table(package)["url"]).partition("/download/")[0]


def name_to_read(package: str) -> str:
    """A wheel's name as its authors write it, of the newest release, for a person who looks for their own."""
    table = _table(package)
    newest = max(table["release"], key=lambda one: Version(one["versions"][-1]))
    python = max(newest["python"], key=Version)
    return str(
        table["file"].format(
            version=newest["versions"][-1],
            cuda=next(iter(newest["cuda"].values())),
            torch=max(newest["torch"], key=Version),
            abi=newest["abi"][-1],
            python=_python_tag(python),
            python_abi=_abi_tag(python),
            platform=table["platforms"][0],
        )
    )


def versions(package: str) -> tuple[str, ...]:
    """The releases of that package whose wheels are known; none when it has no table."""
    return tuple(one for row in _table(package)["release"] for one in row["versions"]) if package in TABLES else ()


def torches(package: str) -> tuple[str, ...]:
    """The minor releases of torch that any published wheel is for, oldest first."""
    found = {one for release in _table(package)["release"] for one in release["torch"]}
    return tuple(sorted(found, key=Version))


def _against(release: dict[str, Any], node: Node) -> str:
    """Why the wheels of these releases do not fit; empty when one does."""
    newest = release["versions"][-1]
    if node.torch not in release["torch"]:
        return f"those of {newest} are for torch {_span(release['torch'])}, not {node.torch}"
    tag = _tag(release, node)
    if not tag:
        return f"those of {newest} are for CUDA {', '.join(release['cuda'])}, and this torch is for {node.cuda}"
    if node.python not in release["python"]:
        return f"those of {newest} are for Python {_span(release['python'])}, not {node.python}"
    if ("TRUE" if node.new_abi else "FALSE") not in release["abi"]:
        return f"those of {newest} are not for the {'new' if node.new_abi else 'old'} C++ ABI that this torch has"
    here = {"torch": {node.torch}, "python": {node.python}, "cuda": _cudas(node)}
    for left_out in release.get("without", ()):
        if all(value in here[key] for key, value in left_out.items()):
            return f"{newest} has none for torch {node.torch}, CUDA {node.cuda} and Python {node.python} together"
    needed = release.get("glibc")
    if needed and node.glibc and Version(node.glibc) < Version(needed):
        return f"those of {newest} need glibc {needed}, and this node has {node.glibc}"
    code = next(value for key, value in release["gpu_code"].items() if key in _cudas(node))
    lacking = [gpu for gpu in node.gpus if not runs(gpu, code)]
    if lacking:
        return f"those of {newest} hold no code for compute capability {', '.join(lacking)}"
    return ""


def _span(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def _tag(release: dict[str, Any], node: Node) -> str:
    return next((tag for key, tag in release["cuda"].items() if key in _cudas(node)), "")


def _python_tag(python: str) -> str:
    return f"cp{python.replace('.', '')}"


def _abi_tag(python: str) -> str:
    """cp38; up to Python 3.7 with a letter behind it."""
    return _python_tag(python) + ("m" if Version(python) < Version("3.8") else "")


def _cudas(node: Node) -> set[str]:
    return {node.cuda, node.cuda.split(".")[0]}


def _known(facts: FactSet, name: str) -> str:
    text = facts.text(name)
    if text is None:
        raise NotTold(f"{name} is not known")
    return text


def _minor(text: str) -> str:
    return ".".join(text.split("+")[0].split(".")[:2])


@cache
def _table(package: str) -> dict[str, Any]:
    file: Path = bundled_folder() / TABLES[package]
    table: dict[str, Any] = toml.parse(file.read_text())
    return table
