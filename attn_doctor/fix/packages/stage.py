"""`install-packages` and `install-wheel`: installs beside the environment, and says which files would be exchanged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from packaging.requirements import Requirement

from attn_doctor.fix.journal.exchange import Exchange, Folder, Moved, Swap, folder_like
from attn_doctor.fix.journal.file_state import state_of, there
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.fix.journal.prepare import Stale, StepFailed
from attn_doctor.fix.packages.installed import Installed, every_installed
from attn_doctor.fix.packages.installers import Installer
from attn_doctor.fix.packages.scheme import Scheme, schemes
from attn_doctor.fix.packages.staged_records import digests, settle
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import sha256_of
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.plans import Install
from attn_doctor.quick_dataclasses import dataclass

_LONGEST_COMPILING = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where staged files will lie: the stage is laid out as the environment's own scheme is."""

    stage: Path
    """The part of the stage that stands for `data`."""
    packages: tuple[str, ...]
    """Below lib or lib64 of it: where modules are, as this installer names that folder below a prefix."""
    data: Path
    """The scheme's folders, links resolved."""
    purelib: Path
    platlib: Path

    @classmethod
    def of(cls, scheme: Scheme, site: Path) -> _Place:
        """`site`: where staged metadata lies, such as STAGE/lib/python3.11/site-packages."""
        data, purelib, platlib = (Path(os.path.realpath(one)) for one in (scheme.data, scheme.purelib, scheme.platlib))
        packages = (site.parent.name, site.name)
        return cls(stage=site.parents[2], packages=packages, data=data, purelib=purelib, platlib=platlib)

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((str(self.purelib), str(self.platlib))))

    def placed(self, staged: Path) -> Path:
        """The path in the environment; links in folders are resolved, since site-packages may be one."""
        parts = staged.relative_to(self.stage).parts
        if parts[1:3] == self.packages:
            plain = (self.platlib if parts[0] == "lib64" else self.purelib).joinpath(*parts[3:])
        else:
            plain = self.data.joinpath(*parts)
        if staged.is_dir() and not staged.is_symlink():
            return Path(os.path.realpath(plain))
        return Path(os.path.realpath(plain.parent)) / plain.name


def stage(change: Install, run: Run, *, installer: Installer) -> Swap:
    """Downloads and builds, installs into the run's folder, and lists what is to be exchanged.

    Raises StepFailed with the installer's last message, Stale, OSError.
    """
    target = installer.target
    scheme = next((one for one in schemes(target) if one.users == bool(change.users_base)), None)
    if scheme is None or (change.users_base and scheme.data != change.users_base):
        raise Stale(f"{change.users_base} is not on this Python's path", about=str(target.python), hint="Plan anew.")
    here = every_installed(scheme.sites)
    _check_versions(change, here, target)
    wheels = _named(change)
    into, fetched = run.folder / "stage", run.folder / "fetched"
    owner = _foreign_owner(Path(scheme.purelib))
    try:
        copies = installer.install_beside(change, wheels, into, fetched, linked=owner is None)
    except Refused as error:
        raise StepFailed("the releases could not be had", about=str(error), hint="Nothing was changed.") from None
    boundary("staged")
    shutil.rmtree(fetched, ignore_errors=True)
    (into / ".lock").unlink(missing_ok=True)  # uv's
    infos = sorted({info.parent for info in into.rglob("RECORD") if info.parent.name.endswith(".dist-info")})
    if not infos:
        raise StepFailed("the installer installed nothing", about=str(into), hint="Nothing was changed.")
    place = _Place.of(scheme, infos[0].parent)
    fresh = every_installed(str(site) for site in dict.fromkeys(info.parent for info in infos))
    _check_staged(change, fresh)
    compiled = _compiled(installer, fresh, place)
    requested = {canonical_name(Requirement(one).name) for one in (*change.requirements, *change.builds)}
    try:
        for one in fresh:
            own = tuple(file for file in one.files() if file.suffix == ".pyc" and file in compiled)
            settle(
                one.info,
                placed=place.placed,
                requested=one.name in requested or one.name in wheels,
                came_from=copies,
                compiled=own,
                lists_compiled=installer.kind == "pip",
            )
    except ValueError as error:
        raise StepFailed(f"staged metadata cannot be read: {error}", about=str(into)) from None
    if owner is not None:
        _give_all(into, owner)
    boundary("settled")
    return _swap(change, run, here, fresh, place)


def _check_versions(change: Install, here: tuple[Installed, ...], target: Target) -> None:
    versions = {one.name: one.version for one in reversed(here)}
    for one in change.changes:
        now = versions.get(one.name)
        if now != one.before:
            raise Stale(
                f"{one.name} is {now or 'not installed'}, and the plan was made for {one.before or 'none'}",
                about=str(target.python),
                hint="Make a new plan.",
            )


def _named(change: Install) -> dict[str, str]:
    """Package -> wheel file of a plan; the file must be the one shown with the plan. Raises Stale."""
    found = {}
    for path in change.wheels:
        match = [one for one in change.changes if one.source == Path(path).name]
        if len(match) != 1 or sha256_of(Path(path)) != match[0].sha256:
            raise Stale("the wheel is not the file that the plan was shown for", about=path, hint="Make a new plan.")
        found[match[0].name] = path
    return found


def _check_staged(change: Install, fresh: tuple[Installed, ...]) -> None:
    wanted = {one.name: one.after for one in change.changes}
    got = {one.name: one.version for one in fresh}
    if set(got) != set(wanted):
        raise StepFailed(
            f"the installer brought {', '.join(sorted(got))}, and the plan is about {', '.join(sorted(wanted))}",
            about="the stage",
            hint="Nothing was changed.",
        )


def _compiled(installer: Installer, fresh: tuple[Installed, ...], place: _Place) -> frozenset[Path]:
    """Compiles what the installer would have compiled, with the paths of the environment in it."""
    if not installer.compiles:
        return frozenset()
    sources = [file for one in fresh for file in one.files() if file.suffix == ".py" and file.is_file()]
    pairs = [[str(file), str(place.placed(file))] for file in sources]
    running, answers = installer.target.start_in_patient("compile_staged", {"files": pairs}, folder=installer.folder)
    running.wait(_LONGEST_COMPILING)
    answer = read_answer(answers / "compiled.json") or {}
    return frozenset(Path(one) for one in answer.get("compiled", ()))


def _foreign_owner(site: Path) -> os.stat_result | None:
    """Whose environment it is, where root works in somebody else's."""
    seen = site.stat()
    return seen if os.geteuid() == 0 and (seen.st_uid, seen.st_gid) != (0, os.getegid()) else None


def _give_all(into: Path, owner: os.stat_result) -> None:
    for place, folders, files in os.walk(into):
        for name in (*folders, *files):
            os.chown(Path(place) / name, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _swap(change: Install, run: Run, here: tuple[Installed, ...], fresh: tuple[Installed, ...], place: _Place) -> Swap:
    """The old files by RECORD, the new ones by what was staged; what another distribution owns stays."""
    moving = {one.name for one in change.changes}
    old: dict[str, str] = {}
    for one in (one for one in here if one.name in moving):
        for file in one.files():
            real = _real(file)
            if _inside(real, place) and there(real) and (real.is_symlink() or not real.is_dir()):
                old.setdefault(str(real), one.name)
    new: dict[str, tuple[Path, str, str]] = {}
    for one in fresh:
        known = digests(one.info)
        for file in one.files():
            if there(file):
                target = str(place.placed(file))
                new.setdefault(target, (file, one.name, known.get(str(file)) or sha256_of(file) or ""))
    others = _owned((one for one in here if one.name not in moving), {*old, *new})
    for path in others & new.keys():
        if not there(Path(path)):
            continue
        if path not in old and sha256_of(Path(path)) != new[path][2]:
            raise StepFailed(
                "a file of the new release lies where another package has one", about=path, hint="Nothing was changed."
            )
        del new[path]
    for path in others & old.keys() - new.keys():
        del old[path]
    exchanges = []
    for number, path in enumerate(sorted({*old, *new})):
        staged, owner, digest = new.get(path, (None, "", ""))
        before = state_of(Path(path))
        exchanges.append(
            Exchange(
                file=path,
                owner=owner or old[path],
                before=before,
                after=None if staged is None else state_of(staged, digest),
                kept=f"kept/{number}",
                staged="" if staged is None else str(staged.relative_to(run.folder)),
            )
        )
    return Swap(
        exchanges=tuple(exchanges),
        made=_made(new, place),
        emptied=_emptied(old, place),
        distributions=tuple(Moved(name=one.name, before=one.before, after=one.after) for one in change.changes),
        sites=place.sites,
    )


def _made(new: Mapping[str, tuple[Path, str, str]], place: _Place) -> tuple[Folder, ...]:
    found: dict[str, Folder] = {}
    for path, (staged, _, _) in new.items():
        folder, like = Path(path).parent, staged.parent
        while str(folder) not in found and not folder.exists():
            found[str(folder)] = folder_like(folder, like)
            folder, like = folder.parent, like.parent
    return tuple(found[path] for path in sorted(found, key=lambda one: one.count("/")))


def _emptied(old: Mapping[str, str], place: _Place) -> tuple[Folder, ...]:
    keep = {*place.sites, str(place.data), *(str(one) for one in place.data.iterdir())}
    found: dict[str, Folder] = {}
    for path in old:
        folder = Path(path).parent
        while str(folder) not in found and str(folder) not in keep and _inside(folder, place):
            found[str(folder)] = folder_like(folder, folder)
            folder = folder.parent
    return tuple(found[path] for path in sorted(found, key=lambda one: one.count("/")))


def _owned(these: Iterable[Installed], wanted: Set[str]) -> set[str]:
    """Which of the wanted paths belong to one of these distributions. Of the thousands of files that they list, only
    those with a wanted end are looked at on disk.
    """
    asked: dict[str, list[str]] = {}
    for path in wanted:
        asked.setdefault(path, []).append(path)
        folder, _, name = path.rpartition("/")
        if folder.endswith("/__pycache__"):  # it belongs to whom its source does
            asked.setdefault(f"{os.path.dirname(folder)}/{name.partition('.')[0]}.py", []).append(path)  # noqa: PTH120
    ends = {_end_of(path) for path in asked}
    found: set[str] = set()
    for one in these:
        info = f"{_real(one.info)}/"
        found.update(path for path in wanted if path.startswith(info))
        for recorded in one.recorded():
            if recorded.startswith("..") or _end_of(recorded) in ends:
                file = str(_real(Path(os.path.normpath(one.info.parent / recorded))))
                found.update(asked.get(file, ()))
    return found


def _end_of(path: str) -> str:
    """Name of a file and of its folder; of a module beside the packages, which has no folder in RECORD, its name."""
    above, _, name = path.rpartition("/")
    folder = above.rpartition("/")[2]
    return name if folder.endswith("-packages") else f"{folder}/{name}" if folder else name


def _real(file: Path) -> Path:
    """The path with links in its folders resolved: site-packages may be reached through one."""
    return Path(os.path.realpath(file.parent)) / file.name


def _inside(real: Path, place: _Place) -> bool:
    """True for a path in the target's own folders. RECORD is not trusted: other paths are neither moved nor
    restored.
    """
    return real.is_relative_to(place.data) or any(real.is_relative_to(site) for site in place.sites)
