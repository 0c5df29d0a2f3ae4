"""What a run exchanges: each file with its state before and after, decided and on disk before the first one moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.fix.journal.file_state import FileState
from attn_doctor.fix.journal.journal import JournalUnusable, Run
from attn_doctor.quick_dataclasses import asdict, dataclass, replace

_FILE = "swap.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One path: what lies there goes to `kept`, what was staged comes in its place."""

    file: str
    """Absolute path; links in its folders are resolved."""
    owner: str
    """Canonical name of the distribution; empty for a file that is edited."""
    before: FileState | None
    after: FileState | None
    kept: str
    """Where the old one goes, relative to the run's folder."""
    staged: str
    """Where the new one was prepared, relative to the run's folder."""

    @property
    def is_bytecode(self) -> bool:
        """True for compiled code, which any import may write anew."""
        return self.file.endswith(".pyc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that comes or goes with its files."""

    path: str
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A distribution that changes."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """All of a run."""

    exchanges: tuple[Exchange, ...] = ()
    made: tuple[Folder, ...] = ()
    """Folders that are new, outermost first."""
    emptied: tuple[Folder, ...] = ()
    """Folders of old files, outermost first: removed where nothing is left in them."""
    distributions: tuple[Moved, ...] = ()
    sites: tuple[str, ...] = ()
    """The folders that hold metadata of distributions."""

    def joined(self, other: Swap) -> Swap:
        """Both together."""
        return Swap(
            exchanges=(*self.exchanges, *other.exchanges),
            made=tuple(dict.fromkeys((*self.made, *other.made))),
            emptied=tuple(dict.fromkeys((*self.emptied, *other.emptied))),
            distributions=(*self.distributions, *other.distributions),
            sites=tuple(dict.fromkeys((*self.sites, *other.sites))),
        )

    def without(self, owners: Collection[str]) -> Swap:
        """What is left when these distributions stay as they are."""
        exchanges = tuple(one for one in self.exchanges if one.owner not in owners)
        old = {str(above) for one in exchanges if one.before is not None for above in Path(one.file).parents}
        return replace(
            self,
            exchanges=exchanges,
            emptied=tuple(one for one in self.emptied if one.path in old),
            distributions=tuple(one for one in self.distributions if one.name not in owners),
        )

    def write(self, run: Run) -> None:
        """Puts it on disk, in the run's folder. Raises OSError."""
        run.write(_FILE, asdict(self))

    @classmethod
    def read(cls, run: Run) -> Swap:
        """Reads it back. Raises JournalUnusable."""
        written = run.read(_FILE)
        try:
            return cls(
                exchanges=tuple(_exchange(one) for one in written["exchanges"]),
                made=tuple(Folder(**one) for one in written["made"]),
                emptied=tuple(Folder(**one) for one in written["emptied"]),
                distributions=tuple(Moved(**one) for one in written["distributions"]),
                sites=tuple(written["sites"]),
            )
        except (KeyError, TypeError) as error:
            raise JournalUnusable(f"the journal is damaged: {error!r}", about=str(run.folder / _FILE)) from None


def _exchange(written: Mapping[str, Any]) -> Exchange:
    states = {key: FileState(**written[key]) if written[key] else None for key in ("before", "after")}
    return Exchange(**{**written, **states})


def folder_like(path: Path, like: Path) -> Folder:
    """A folder with mode and owner of another one. Raises OSError."""
    seen = like.stat()
    return Folder(path=str(path), mode=seen.st_mode & 0o7777, uid=seen.st_uid, gid=seen.st_gid)
