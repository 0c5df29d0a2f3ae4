"""What somebody else changed since a run, judged by distribution: nobody wants half of two releases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.fix.journal.exchange import Exchange, Moved, Swap
from attn_doctor.fix.journal.file_state import is_as, there
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.swap import set_aside
from attn_doctor.fix.packages.installed import Installed, every_installed, installed
from attn_doctor.quick_dataclasses import dataclass

#: Most files named of one distribution.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A distribution, or an edited file, that is not as the run left it."""

    owner: str
    """Canonical name of the distribution; empty for an edited file."""
    words: str


def changed_since(run: Run, swap: Swap) -> tuple[Changed, ...]:
    """The distributions and files that somebody else changed since. Raises OSError."""
    whole = run.reached("swapped") and not run.reached("undoing")
    foreign: dict[tuple[str, str], list[str]] = {}
    for one in swap.exchanges:
        if not one.is_bytecode and _is_foreign(one, run, whole=whole):
            key = (one.owner, "" if one.owner else one.file)
            foreign.setdefault(key, []).append(one.file)
    now = installed(swap.sites) if any(owner for owner, _ in foreign) else {}
    moved = {one.name: one for one in swap.distributions}
    return tuple(
        Changed(
            owner=owner, words=_of_distribution(moved[owner], now.get(owner), files) if owner in moved else files[0]
        )
        for (owner, _), files in foreign.items()
    )


def _is_foreign(one: Exchange, run: Run, *, whole: bool) -> bool:
    file = Path(one.file)
    if whole:
        return there(file) if one.after is None else not is_as(file, one.after)
    present = there(file)
    taken = one.before is not None and there(run.folder / one.kept)
    if not present:
        return one.before is not None and not taken
    if one.before is not None and is_as(file, one.before):
        return False
    ours = one.after is not None and is_as(file, one.after)
    return not ours or (one.before is not None and not taken)


def _of_distribution(moved: Moved, now: Installed | None, files: list[str]) -> str:
    if now is None:
        return f"{moved.name}: the run left {moved.after}, and it was removed since"
    if now.version not in (moved.after, moved.before):
        return f"{moved.name}: the run left {moved.after}, and it is {now.version} now"
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"{moved.name} {now.version}: {', '.join(files[:_NAMED])}{more}"


def set_aside_others(run: Run, swap: Swap, owners: Iterable[str]) -> None:
    """Moves what was installed since under these names to the run's folder `found`, whole: metadata last, so that an
    interrupted attempt can be taken up again.

    Raises OSError.
    """
    ours = {one.file: one.after for one in swap.exchanges if one.after is not None}
    everything = every_installed(swap.sites)
    wanted = set(owners)
    others = {file for one in everything if one.name not in wanted for file in one.files()}
    for one in everything:
        if one.name not in wanted:
            continue
        files = [file for file in one.files() if file not in others and file.parent != one.info]
        for file in (*files, *sorted(one.info.glob("*"))):
            state = ours.get(str(file))
            if not there(file) or file.is_dir() or (state is not None and is_as(file, state)):
                continue
            if any(file.is_relative_to(site) for site in swap.sites) or str(file) in ours:
                set_aside(file, run)
        for folder in sorted({file.parent for file in files} | {one.info}, reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
