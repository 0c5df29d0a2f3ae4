"""`install-packages` and `install-wheel`: what one call of the installer for the whole plan would install."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from attn_doctor.fix.packages.checkout_diff import diff_of
from attn_doctor.fix.packages.installed import Installed, conda_names, every_installed
from attn_doctor.fix.packages.installers import Installer
from attn_doctor.fix.packages.ownership import broken_requirements, check_origin
from attn_doctor.fix.packages.releases import Release
from attn_doctor.fix.packages.scheme import scheme_for, sites
from attn_doctor.fix.packages.wheel_file import WheelFile
from attn_doctor.fix.refusal import InCheckout, Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.install_request import InstallRequest, is_bound_to_torch
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.recipes.data.torch_releases import index_of

#: Evaluates downloaded files as if they were installed; raises Refused.
Judge = Callable[[Install, Path], None]


def resolve(
    request: InstallRequest,
    find: Callable[[], Installer],
    *,
    wheels: Mapping[str, WheelFile] | None = None,
    build_environment: Mapping[str, str] | None = None,
    allow_unmet: bool = False,
    judge: Judge | None = None,
) -> Install:
    """Asks the installer what it would install; files that the user named are checked immediately. Raises Refused."""
    for one in request.requirements:
        _requirement(one)
    builds = tuple(_exact(one) for one in request.builds)
    installer = find()
    target = installer.target
    every = every_installed(sites(target))
    here = {one.name: one for one in reversed(every)}
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
    scheme = scheme_for((one.name for one in changes), target)
    try:
        origins = check_origin(changes, every)
    except InCheckout as error:
        (change,) = (one for one in changes if one.name == error.name)
        diff, words = diff_of(installer, change, Path(error.checkout) if error.checkout else None)
        raise InCheckout(f"{error}; {words}", name=error.name, checkout=error.checkout, diff=diff) from None
    _check_requirements(changes, target, allowed=allow_unmet)
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
        users_base=scheme.data if scheme.users else "",
        kept_bytes=sum(_size(here[one.name]) for one in changes if one.name in here),
        warnings=(*_warnings(changes, here, installer), *origins),
    )
    if named and judge is not None:
        into = installer.folder / "brought"
        into.mkdir(exist_ok=True)
        try:
            for wheel in found.wheels:
                shutil.copyfile(wheel, into / Path(wheel).name)
        except OSError as error:
            raise Refused(f"the wheel cannot be read: {error.strerror}") from None
        judge(found, into)
    return found


def _check_requirements(changes: tuple[PackageChange, ...], target: Target, *, allowed: bool) -> None:
    """Raises Refused when a package that stays needs another release of one that changes."""
    markers = {key: str(value) for key, value in (target.told.get("markers") or {}).items()}
    found = broken_requirements(changes, every_installed(map(str, target.search_path)), markers)
    if found and not allowed:
        raise Refused(
            f"the fix would break requirements that are met today and is not started: {'; '.join(found)} "
            "(--allow-unmet does it all the same)"
        )


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
            return installer.preview(requirements, (*rest, *request.limits), no_deps=False, reinstall=request.reinstall)
        except Refused:
            pass  # something has to change: the resolver's own choice, except torch
    return installer.preview(
        requirements, (*pins, *request.limits), no_deps=request.no_deps, reinstall=request.reinstall
    )


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
    return Release(name=canonical_name(found.name), version=pins[0].version, source="built from source here", sha256="")


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
