"""`install-packages` and `install-wheel`: one call of the installer for the whole plan, with a preview, and restored
from copies on undo."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from attn_doctor.fix.journal.backups import keep, to_json
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.fix.journal.listing import Roots, listing
from attn_doctor.fix.journal.run_steps import Stale, StepFailed
from attn_doctor.fix.packages.installed import Installed, conda_names, installed
from attn_doctor.fix.packages.installers import Installer
from attn_doctor.fix.packages.releases import Release
from attn_doctor.fix.packages.wheel_file import WheelFile
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import sha256_of
from attn_doctor.machine.target import Target
from attn_doctor.model.install_request import InstallRequest, is_bound_to_torch
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.recipes.data.torch_releases import index_of

#: Evaluates downloaded files as if they were installed; raises Refused.
Judge = Callable[[Install, Path], None]


def roots_of(target: Target) -> Roots:
    """The folders that an installation writes to."""
    told = target.told
    return Roots.of(str(told["purelib"]), str(told["platlib"]), str(target.python.parent))


def resolve(
    request: InstallRequest,
    find: Callable[[], Installer],
    *,
    stash: bool,
    wheels: Mapping[str, WheelFile] | None = None,
    build_environment: Mapping[str, str] | None = None,
    judge: Judge | None = None,
) -> Install:
    """Asks the installer what it would install; files that the user named are checked immediately. Raises Refused."""
    for one in request.requirements:
        _requirement(one)
    builds = tuple(_exact(one) for one in request.builds)
    installer = find()
    target = installer.target
    here = installed((str(target.told["purelib"]), str(target.told["platlib"])))
    names = request.names
    requirements = request.with_companions({name: one.version for name, one in here.items()})
    pins = request.held({name: pin.partition("==")[2] for name, one in here.items() if (pin := one.pin)})
    releases = _previewed(installer, request, requirements, pins, here, names) if requirements else ()
    _check_build(installer, releases)
    named = [(wheels or {})[one] for one in request.wheels]
    changes = tuple(
        PackageChange(
            name=one.name,
            before=here[one.name].version if one.name in here else None,
            after=one.version,
            source=one.source,
            sha256=one.sha256,
        )
        for one in (
            *(one for one in releases if _moves(one, here) or (request.reinstall and one.name in names)),
            *builds,
            *(Release(name=one.package, version=one.version, source=one.path.name, sha256=one.sha256) for one in named),
        )
    )
    if not changes:
        raise Refused("the installer finds nothing to change: what the fix asks for is installed already")
    moved = [one.name for one in changes if is_bound_to_torch(one.name) and one.before is not None]
    moved = [] if request.moves_torch else [one for one in moved if one not in names]
    if moved:
        raise Refused(f"the fix would change {', '.join(moved)}, which its recipe does not say")
    found = Install(
        installer=installer.kind,
        requirements=requirements,
        no_deps=request.no_deps,
        no_cache=request.no_cache,
        reinstall=request.reinstall,
        changes=changes,
        builds=tuple(f"{one.name}=={one.version}" for one in builds),
        build_environment=tuple(sorted((build_environment or {}).items())) if builds else (),
        wheels=tuple(str(one.path) for one in named),
        torch_backend=installer.sources.torch_backend,
        index_url=_without_secrets(installer.sources.index_url),
        no_index=installer.sources.no_index,
        find_links=installer.sources.find_links,
        stash=stash,
        stash_bytes=sum(_size(here[one.name]) for one in changes if one.name in here),
        warnings=_warnings(changes, here, installer),
    )
    if named and judge is not None:
        into = installer.folder / "brought"
        try:
            installer.bring(found.wheels, into)
        except OSError as error:
            raise Refused(f"the wheel cannot be read: {error.strerror}") from None
        judge(found, into)
    return found


def _check_build(installer: Installer, releases: tuple[Release, ...]) -> None:
    """pip goes on where an index does not answer, and takes a build of another one. Raises Refused."""
    wanted = installer.sources.torch_backend
    for one in releases if installer.kind == "pip" and wanted else ():
        if one.name == "torch" and one.version.partition("+")[2] != wanted:
            raise Refused(
                f"pip found torch {one.version} and not its build {wanted}: {index_of(wanted)} did not give it. "
                "Name a mirror of that index with --index-url"
            )


def _moves(one: Release, here: Mapping[str, Installed]) -> bool:
    return one.name not in here or here[one.name].version != one.version


def _previewed(
    installer: Installer,
    request: InstallRequest,
    requirements: tuple[str, ...],
    pins: tuple[str, ...],
    here: Mapping[str, Installed],
    names: frozenset[str],
) -> tuple[Release, ...]:
    if installer.kind == "uv" and not request.no_deps:
        # uv's compiler ignores installed versions and takes the newest: ask first with everything pinned.
        rest = tuple(one.pin for one in here.values() if one.pin and one.name not in names)
        try:
            return installer.preview(requirements, rest, no_deps=False, reinstall=request.reinstall)
        except Refused:
            pass  # something has to change: the resolver's own choice, except torch
    return installer.preview(requirements, pins, no_deps=request.no_deps, reinstall=request.reinstall)


def _requirement(text: str) -> Requirement:
    """Raises Refused unless the text is a plain `name<specifier>`: no URLs, paths, options or markers from a recipe."""
    try:
        found = Requirement(text)
    except InvalidRequirement:
        raise Refused(f"no requirement: {text[:80]!r}") from None
    if found.url is not None or found.marker is not None or text.startswith("-") or "\n" in text:
        raise Refused(f"a recipe may not name a place to install from, nor an option: {text[:80]!r}")
    return found


def _exact(text: str) -> Release:
    """A release to build: named exactly, since it is not resolved."""
    found = _requirement(text)
    pins = list(found.specifier)
    if len(pins) != 1 or pins[0].operator != "==" or found.extras or "*" in pins[0].version:
        raise Refused(f"what is built has to be named exactly: {text[:80]!r}")
    return Release(
        name=canonicalize_name(found.name), version=pins[0].version, source="built from source here", sha256=""
    )


def _warnings(changes: tuple[PackageChange, ...], here: dict[str, Installed], installer: Installer) -> tuple[str, ...]:
    target = installer.target
    found = []
    owned = conda_names(target.prefix)
    for one in changes:
        old = here.get(one.name)
        if old is not None and (old.installer == "conda" or old.name in owned):
            found.append(f"conda installed {one.name} {old.version}; conda will not know that it was replaced")
        if one.name == "torch" and one.before is not None:
            found.append("torch changes: every package that was compiled against the old one has to be looked at again")
    if installer.whose:
        found.append(f"done with {installer.whose}")
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


def apply(change: Install, run: Run, number: int, *, installer: Installer, judge: Judge | None = None) -> None:
    """Downloads and builds, checks the files, makes backups, installs, and journals the result.

    Raises StepFailed with the installer's last message, Stale, OSError.
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
    wheels = _named(change)
    pins = tuple(f"{one.name}=={one.after}" for one in change.changes if one.name not in wheels)
    pins = tuple(pin for pin in pins if pin not in change.builds)
    told = dict(change.build_environment)
    fetched = run.folder / "fetched"
    shutil.rmtree(fetched, ignore_errors=True)  # left by a run that was interrupted here
    try:
        brings = installer.fetch(pins, fetched, no_cache=change.no_cache)
        if change.builds:
            brings = installer.build(change.builds, fetched, no_cache=change.no_cache, told=told)
        if wheels:
            brings = installer.bring(tuple(wheels.values()), fetched)
        _check_hashes(change, fetched, installer.kind)
        if judge is not None:
            judge(change, fetched)
    except Refused as error:
        raise StepFailed("the releases could not be had", about=str(error), hint="Nothing was changed.") from None
    boundary("fetched")
    new = _places(brings, target, roots, uv=installer.kind == "uv")
    old = [file for one in change.changes if one.name in here for file in here[one.name].files()]
    # Without backups, new files are still recorded, so that they can be removed; old files are not copied.
    inside = [real for real in map(_real, (*old, *new)) if _inside(real, target)] if change.stash else []
    before = listing(roots)
    kept = keep([*inside], run, number)
    if listing(roots) != before:
        raise Stale("the environment is being changed by somebody else", about=str(target.prefix), hint="Try again.")
    run.write(f"listing-{number}.json", before.to_json())
    step = {
        "kind": "install-packages",
        # Missing files follow from the listing, except outside the folders that it covers.
        "kept": [one for one in to_json(kept) if one["sha256"] or one["link"] or not roots.cover(one["file"])],
        "listing": f"listing-{number}.json",
        "roots": roots.to_json(),
        "pins": list(pins),
        "stash": change.stash,
        "installer": change.installer,
        "before": {one.name: one.before for one in change.changes},
    }
    run.write(f"step-{number}.json", {**step, "after": {}})
    run.note("changing", step=number, kind="install-packages", pins=list(pins), stash=change.stash)
    try:
        installer.install(pins, fetched, reinstall=change.reinstall, builds=change.builds, wheels=wheels, told=told)
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


def _named(change: Install) -> dict[str, str]:
    """Package -> wheel file of a plan; the file must be the one shown with the plan. Raises Stale."""
    found = {}
    for path in change.wheels:
        match = [one for one in change.changes if one.source == Path(path).name]
        if len(match) != 1 or sha256_of(Path(path)) != match[0].sha256:
            raise Stale("the wheel is not the file that the plan was shown for", about=path, hint="Make a new plan.")
        found[match[0].name] = path
    return found


def _places(brings: tuple[str, ...], target: Target, roots: Roots, *, uv: bool) -> list[Path]:
    """Where the releases' files will be installed; data files may go below the prefix as well as into site-packages."""
    found = []
    for one in brings:
        head, _, rest = one.partition("/")
        found.append(target.python.parent / rest if head == "bin" and rest else Path(roots.site) / one)
        if head in ("share", "etc", "include", "man", "lib"):
            found.append(target.prefix / one)
    return [*found, target.prefix / ".lock"] if uv else found  # uv leaves its lock file


def _real(file: Path) -> Path:
    """The path as in the listing: site-packages may be reached through a link."""
    return Path(os.path.realpath(file.parent)) / file.name


def _inside(real: Path, target: Target) -> bool:
    """True for a path in the target's own folders. RECORD is not trusted: other paths are neither copied nor
    restored.
    """
    return real.is_relative_to(os.path.realpath(target.prefix)) or any(
        real.is_relative_to(folder) for folder in roots_of(target).folders
    )


def _check_hashes(change: Install, fetched: Path, kind: str) -> None:
    if kind != "pip":
        return  # uv keeps no wheel: the unpacked files are checked instead
    for one in change.changes:
        if one.source.endswith(".whl") and one.sha256:
            file = fetched / one.source
            if not file.is_file() or sha256_of(file) != one.sha256:
                raise Refused(f"{one.source} is not the file that the plan was shown for")
