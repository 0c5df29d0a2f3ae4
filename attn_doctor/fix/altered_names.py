"""Which names of an environment an exchange alters, for a process that started before and would go on after it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.fix.journal.exchange import Exchange, Swap
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.shadow import is_library

#: Read by every Python when it starts.
_AT_THE_START = ("sitecustomize", "usercustomize")
_GROUP = re.compile(r"^\s*\[\s*([^]\s]+)\s*\]", re.MULTILINE)
#: Entry points that only make scripts; any other may be loaded by whom nobody expects (torch.backends, by torch).
_OF_SCRIPTS = frozenset({"console_scripts", "gui_scripts"})


def altered_names(swap: Swap, run: Run, sites: Iterable[str]) -> frozenset[str] | None:
    """Modules, entries of the folders `sites` and files of metadata that are other ones after the exchange.

    None where more may change for a process than what it imports or opens under these names: a shared library, what
    Python reads when it starts, a module that comes or goes, an entry point, a file outside of these folders.
    """
    names: dict[str, list[bool]] = {}
    metadata: set[str] = set()
    for one in swap.exchanges:
        site = next((site for site in sites if one.file.startswith(f"{site}/")), None)
        if site is None:
            if one.owner and Path(one.file).parent.name == "bin":
                continue  # a script, which no import reads
            return None
        entry, _, below = one.file[len(site) + 1 :].partition("/")
        module = entry.partition(".")[0]
        if is_library(one.file) or entry.endswith(".pth") or module in _AT_THE_START:
            return None
        if entry.endswith(".dist-info"):
            if below == "entry_points.txt":
                if _has_entry_points(one, run):
                    return None
                continue
            metadata.add(f"{entry}/{below}")
            continue
        here = names.setdefault(entry, [False, False])
        here[0] |= one.before is not None
        here[1] |= one.after is not None
    if any(before != after for before, after in names.values()):
        return None
    return frozenset({*names, *metadata, *(entry.partition(".")[0] for entry in names)})


def _has_entry_points(one: Exchange, run: Run) -> bool:
    found: set[str] = set()
    for state, file in ((one.before, Path(one.file)), (one.after, run.folder / one.staged)):
        if state is not None:
            found.update(_GROUP.findall(file.read_text(errors="replace")))
    return bool(found - _OF_SCRIPTS)
