"""What a release changes, as a diff to apply to a checkout, which no release may replace."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.fix.packages.installers import Installer
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.quick_dataclasses import replace

#: A larger diff, in characters, is for the history of the project, not for a page.
_LONGEST = 100_000


def diff_of(installer: Installer, change: PackageChange, checkout: Path | None) -> tuple[str, str]:
    """(unified diff between the two releases, as `git apply` takes it; what a person should know about it).

    `checkout`: where the sources lie, to find the folder that holds the package there. The diff is empty where there is
    none: the words say why.
    """
    try:
        old = _staged(installer, replace(change, after=str(change.before), source="", sha256=""), "old")
        new = _staged(installer, change, "new")
    except (Refused, OSError) as error:
        return "", f"no diff can be made: {str(error).splitlines()[0]}"
    names = sorted({*old, *new})
    below = _below(checkout, names) if checkout is not None else ""
    text = "".join(part for name in names for part in _differences(f"{below}{name}", old.get(name), new.get(name)))
    if len(text) > _LONGEST:
        lines = text.count("\n")
        return "", f"{change.before} and {change.after} differ in {lines} lines of diff: merge that release instead"
    touched = [name for name in old if f"{below}{name}" in _of(text)]
    same = checkout is None or all(_read(checkout / f"{below}{name}") == old[name] for name in touched)
    words = f"`git apply` takes the diff from {change.before} to {change.after}"
    return text, words if same else f"{words}; the checkout differs from {change.before} there: `git apply --3way`"


def _of(text: str) -> frozenset[str]:
    return frozenset(line[6:].split("\t")[0] for line in text.splitlines() if line.startswith("--- a/"))


def _staged(installer: Installer, change: PackageChange, name: str) -> dict[str, bytes | None]:
    """Module files of a release, installed into a folder of their own: path relative to site-packages -> content."""
    into = installer.folder / f"diff{len(list(installer.folder.glob('diff*')))}-{name}"
    asked = Install(
        installer=installer.kind, requirements=(f"{change.name}=={change.after}",), no_deps=True, no_cache=False,
        reinstall=False, changes=(change,),
    )  # fmt: skip
    installer.install_beside(asked, {}, into, into.with_name(f"{into.name}-fetched"), linked=False)
    return {str(file.relative_to(site)): _read(file) for site in _sites(into) for file in sorted(site.rglob("*.py"))}


def _sites(into: Path) -> Iterator[Path]:
    yield from {info.parent for info in into.rglob("*.dist-info")}


def _below(checkout: Path, names: list[str]) -> str:
    """The folder of the checkout that holds what the release has: its root, src, or another one."""
    inits = [name for name in names if name.count("/") == 1 and name.endswith("/__init__.py")]
    for init in inits or names[:1]:
        for place in (checkout / init, checkout / "src" / init, *sorted(checkout.glob(f"*/{init}"))):
            if place.is_file():
                return str(place.relative_to(checkout))[: -len(init)]
    return ""


def _differences(name: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    if old == new:
        return
    before, after = (
        [] if one is None else one.decode(errors="replace").splitlines(keepends=True) for one in (old, new)
    )
    heads = ("/dev/null" if old is None else f"a/{name}", "/dev/null" if new is None else f"b/{name}")
    for line in difflib.unified_diff(before, after, *heads):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
