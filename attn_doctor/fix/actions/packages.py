"""`install-packages`: one call of the resolver for the whole plan, shown before, put back from copies afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from attn_doctor.fix.apply import Stale, StepFailed
from attn_doctor.fix.installed import Installed, installed
from attn_doctor.fix.installers import Installer, Release
from attn_doctor.fix.journal import Run, boundary
from attn_doctor.fix.kept import keep, to_json
from attn_doctor.fix.make import Wish
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.tree import Roots, listing
from attn_doctor.machine.atomic import sha256_of
from attn_doctor.machine.target import Target
from attn_doctor.model.plans import Install, PackageChange

#: Left as they are unless a plan names torch: an extension bound to another torch or CUDA does not load.
_BOUND_TO_TORCH = ("torch", "triton", "pytorch-triton", "torchvision", "torchaudio")


def roots_of(target: Target) -> Roots:
    """The folders that an installation writes to."""
    told = target.told
    return Roots.of(str(told["purelib"]), str(told["platlib"]), str(target.python.parent))


def resolve(wish: Wish, find: Callable[[], Installer], *, stash: bool) -> Install:
    """Asks the installer what it would do. Raises Refused."""
    wanted = tuple(_requirement(one) for one in wish.requirements)
    installer = find()
    target = installer.target
    here = installed((str(target.told["purelib"]), str(target.told["platlib"])))
    names: set[str] = {canonicalize_name(one.name) for one in wanted}
    free = names if "torch" not in names else {one for one in here if _bound(one)}
    pins = tuple(f"{one.name}=={one.version}" for one in here.values() if _bound(one.name) and one.name not in free)
    releases = _previewed(installer, wish, pins, here, names)
    changes = tuple(
        PackageChange(
            name=one.name,
            before=here[one.name].version if one.name in here else None,
            after=one.version,
            source=one.source,
            sha256=one.sha256,
        )
        for one in releases
        if wish.reinstall or one.name not in here or here[one.name].version != one.version
    )
    if not changes:
        raise Refused("the installer finds nothing to change: what the cure asks for is installed already")
    moved = [one.name for one in changes if _bound(one.name) and "torch" not in names and one.before is not None]
    if moved:
        raise Refused(f"the cure would change {', '.join(moved)}, which its recipe does not say")
    return Install(
        installer=installer.kind,
        requirements=wish.requirements,
        no_deps=wish.no_deps,
        no_cache=wish.no_cache,
        reinstall=wish.reinstall,
        changes=changes,
        index_url=_without_secrets(installer.sources.index_url),
        no_index=installer.sources.no_index,
        find_links=installer.sources.find_links,
        stash=stash,
        stash_bytes=sum(_size(here[one.name]) for one in changes if one.name in here),
        warnings=_warnings(changes, here, target),
    )


def _previewed(
    installer: Installer, wish: Wish, pins: tuple[str, ...], here: dict[str, Installed], names: set[str]
) -> tuple[Release, ...]:
    if installer.kind == "uv" and not wish.no_deps:
        # uv's compiler knows nothing of what is installed and takes the newest: ask first with everything as it is.
        rest = tuple(f"{one.name}=={one.version}" for one in here.values() if one.name not in names)
        try:
            return installer.preview(wish.requirements, rest, no_deps=False, reinstall=wish.reinstall)
        except Refused:
            pass  # something has to move: the resolver's own choice, torch apart
    return installer.preview(wish.requirements, pins, no_deps=wish.no_deps, reinstall=wish.reinstall)


def _requirement(text: str) -> Requirement:
    """Raises Refused for what is no plain `name<specifier>`: no URLs, paths, options or markers from a recipe."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        raise Refused(f"no requirement: {text[:80]!r}") from None
    if found.url is not None or text.startswith("-"):
        raise Refused(f"a recipe may not name a place to install from: {text[:80]!r}")
    return found


def _bound(name: str) -> bool:
    return name in _BOUND_TO_TORCH or name.startswith("nvidia-")


def _warnings(changes: tuple[PackageChange, ...], here: dict[str, Installed], target: Target) -> tuple[str, ...]:
    found = []
    for one in changes:
        old = here.get(one.name)
        if old is not None and old.installer == "conda":
            found.append(f"conda installed {one.name} {old.version}; conda will not know that it was replaced")
        if one.name == "torch" and one.before is not None:
            found.append("torch changes: every package that was compiled against the old one has to be looked at again")
    return tuple(found)


def _size(one: Installed) -> int:
    total = 0
    for file in one.files():
        try:
            total += file.lstat().st_size
        except OSError:
            continue
    return total


def _without_secrets(url: str | None) -> str | None:
    from urllib.parse import urlsplit

    if url is None or "@" not in urlsplit(url).netloc:
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def apply(change: Install, run: Run, number: int, *, installer: Installer) -> None:
    """Fetches, copies aside, installs, and notes what came of it.

    Raises StepFailed with the installer's last words, Stale, OSError.
    """
    target = installer.target
    roots = roots_of(target)
    here = installed((str(target.told["purelib"]), str(target.told["platlib"])))
    for one in change.changes:
        now = here[one.name].version if one.name in here else None
        if now != one.before:
            raise Stale(
                f"{one.name} is {now or 'not installed'}, and the plan was made for {one.before or 'none'}",
                about=str(target.python),
                hint="Make a new plan.",
            )
    pins = tuple(f"{one.name}=={one.after}" for one in change.changes)
    fetched = run.folder / "fetched"
    try:
        brings = installer.fetch(pins, fetched, no_cache=change.no_cache)
        _check_hashes(change, fetched, installer.kind)
    except Refused as error:
        raise StepFailed("the releases could not be fetched", about=str(error), hint="Nothing was changed.") from None
    boundary("fetched")
    new = _places(brings, target, roots, uv=installer.kind == "uv")
    old = [file for one in change.changes if one.name in here for file in here[one.name].files()]
    inside = [file for file in (*old, *new) if _inside(file, target)] if change.stash else []
    before = listing(roots)
    kept = keep([*inside], run, number)
    if listing(roots) != before:
        raise Stale("the environment is being changed by somebody else", about=str(target.prefix), hint="Try again.")
    run.write(f"listing-{number}.json", before.to_json())
    step = {
        "kind": "install-packages",
        # What is not there is told by the listing, except outside of the folders that it covers.
        "kept": [one for one in to_json(kept) if one["sha256"] or one["link"] or not roots.cover(one["file"])],
        "listing": f"listing-{number}.json",
        "roots": roots.to_json(),
        "pins": list(pins),
    }
    run.write(f"step-{number}.json", {**step, "after": {}})
    run.note("changing", step=number, kind="install-packages", pins=list(pins))
    try:
        installer.install(pins, fetched, reinstall=change.reinstall)
    except Refused as error:
        raise StepFailed("the installer failed", about=str(error), hint="What it had changed is put back.") from None
    boundary("installed")
    there = listing(roots)
    mine = {one.file for one in kept}
    foreign = [file for file in before.changed(there) if file not in mine] if change.stash else []
    gone = [file for file in before.files.keys() - there.files.keys() if file not in mine and "__pycache__" not in file]
    if change.stash and (foreign or gone):
        raise StepFailed(
            "the installer changed files that are not its releases'",
            about="\n".join([*foreign, *gone][:5]),
            hint="What can be put back is put back; look at these yourself.",
        )
    fresh = there.files.keys() - before.files.keys()
    elsewhere = {file for file in mine if not roots.cover(file) and Path(file).is_file()}
    changed = sorted({*fresh, *(mine & there.files.keys()), *elsewhere})
    after = {file: sha256_of(Path(file)) for file in changed if not Path(file).is_symlink()}
    run.write(f"step-{number}.json", {**step, "after": after})
    run.note("changed", step=number)
    shutil.rmtree(fetched, ignore_errors=True)


def _places(brings: tuple[str, ...], target: Target, roots: Roots, *, uv: bool) -> list[Path]:
    """Where the files of the releases will go; data files may go below the prefix as well as into site-packages."""
    found = []
    for one in brings:
        head, _, rest = one.partition("/")
        found.append(target.python.parent / rest if head == "bin" and rest else Path(roots.site) / one)
        if head in ("share", "etc", "include", "man", "lib"):
            found.append(target.prefix / one)
    return [*found, target.prefix / ".lock"] if uv else found  # uv leaves its lock behind


def _inside(file: Path, target: Target) -> bool:
    """RECORD files are anybody's text: only what lies in the target's own folders is copied aside and put back."""
    real = Path(os.path.realpath(file.parent)) / file.name
    return real.is_relative_to(os.path.realpath(target.prefix)) or any(
        real.is_relative_to(folder) for folder in roots_of(target).folders
    )


def _check_hashes(change: Install, fetched: Path, kind: str) -> None:
    if kind != "pip":
        return  # uv checks what it fetches itself, and keeps no wheel
    for one in change.changes:
        if one.source.endswith(".whl") and one.sha256:
            file = fetched / one.source
            if not file.is_file() or sha256_of(file) != one.sha256:
                raise Refused(f"{one.source} is not the file that the plan was shown for")
