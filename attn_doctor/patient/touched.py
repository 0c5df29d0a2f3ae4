"""What of an environment a process asked for, so that its answers can be kept while something else of it changes.

An answer holds for another environment if all that its process imported, looked for or opened is the same there. Python
tells of every import and every open file by audit events (PEP 578); what native code opens by itself is not among them,
so whoever keeps an answer must know that no shared library changes.

Elsewhere: which names change, and whether answers may be kept at all (the doctor).
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple


class Touched:
    """Listens from now on, in this process and those that it forks."""

    def __init__(self) -> None:
        self._names: Set[str] = {name.partition(".")[0] for name in sys.modules}
        self._files: Set[str] = set()
        sys.addaudithook(self._heard)

    def names(self) -> List[str]:
        """Modules by their top-level name, entries of folders on sys.path of which a file was opened, and such files of
        metadata.
        """
        plain = {entry.rstrip("/") + "/" for entry in sys.path if entry}
        folders = tuple(plain | {os.path.realpath(entry) + "/" for entry in plain})
        files, self._files = self._files, set()
        for file in files:
            path = os.path.normpath(file) if "/." in file or "//" in file else file
            for folder in folders:
                if path.startswith(folder):
                    entry, _, rest = path[len(folder) :].partition("/")
                    # torch reads the entry points of every package: its metadata is no package that is touched as one.
                    self._names.add(entry + "/" + rest if entry.endswith(".dist-info") else entry)
        return sorted(self._names)

    def _heard(self, event: str, arguments: Tuple[Any, ...]) -> None:
        if event == "import":
            if isinstance(arguments[0], str):
                self._names.add(arguments[0].partition(".")[0])
        elif event == "open" and isinstance(arguments[0], (str, bytes)):
            self._files.add(os.fsdecode(arguments[0]))


class Earlier:
    """The answers of an examination, and what the process of each had touched; for another one, after a change."""

    def __init__(self) -> None:
        self.answers: Dict[str, Any] = {}
        self._touched: Dict[str, Optional[Set[str]]] = {}
        self.changed: Optional[FrozenSet[str]] = None
        """Names that change since; None as long as nothing does."""

    def note(self, child: str, touched: Optional[Iterable[str]]) -> None:
        """Notes what a child touched; None where it did not come to tell. A name may come several times."""
        before = self._touched.get(child, set())
        self._touched[child] = None if touched is None or before is None else before | set(touched)

    def answer(self, name: str, *children: str) -> Any:
        """The answer that these children gave, if it holds after the change; None otherwise."""
        if self.changed is None or name not in self.answers:
            return None
        seen = [self._touched.get(child) for child in children]
        if not seen or any(one is None or not self.changed.isdisjoint(one) for one in seen):
            return None
        return self.answers[name]


def led(value: Any, pairs: List[List[str]]) -> Any:
    """The value with paths below each folder in a pair led to the folder that stands for it."""
    if isinstance(value, str):
        for folder, other in pairs:
            if folder in value:
                value = _led(_led(value, other, folder), folder, other)  # the other one may lie below the folder
        return value
    if isinstance(value, dict):
        return {name: led(one, pairs) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [led(one, pairs) for one in value]
    return value


def _led(text: str, folder: str, other: str) -> str:
    return re.sub(r"(?<![\w./-])" + re.escape(folder) + r"(?![\w.-])", lambda _: other, text)


def stand_in(pairs: List[List[str]]) -> None:
    """Lets this process, which has imported nothing that changes, take another environment for its own."""
    for folder, other in pairs:
        for name in ("prefix", "exec_prefix", "executable"):
            if hasattr(sys, name):
                setattr(sys, name, _moved(getattr(sys, name), folder, other))
        sys.path[:] = [_moved(entry, folder, other) for entry in sys.path]
        for module, names in (("site", ("PREFIXES",)), ("sysconfig", ("_PREFIX", "_EXEC_PREFIX"))):
            loaded = sys.modules.get(module)
            for name in names if loaded is not None else ():
                value = getattr(loaded, name, None)
                if isinstance(value, list):
                    value[:] = [_moved(entry, folder, other) for entry in value]
                elif isinstance(value, str):
                    setattr(loaded, name, _moved(value, folder, other))
    config = sys.modules.get("sysconfig")
    if config is not None and not hasattr(config, "_CONFIG_VARS_INITIALIZED"):
        config._CONFIG_VARS = None  # type: ignore[attr-defined]  # read anew, as newer Pythons do by themselves
    sys.path_importer_cache.clear()


def _moved(path: str, folder: str, other: str) -> str:
    if not path or path.startswith(other):
        return path
    for one in (path, os.path.realpath(path)):
        if one == folder or one.startswith(folder + os.sep):
            return other + one[len(folder) :]
    return path
