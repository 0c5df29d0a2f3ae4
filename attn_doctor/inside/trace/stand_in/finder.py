"""Stand-in modules, found by import and by importlib.metadata where the library itself cannot run.

Frameworks ask `importlib.metadata.version("flash_attn")` and `find_spec("flash_attn")` before they use it, so
the stand-in answers both; nothing is written to disk.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import flash_attn, xformers


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version

    def read_text(self, filename: str) -> Optional[str]:
        if filename == "METADATA":
            return "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(self._name, self._version)
        if filename == "top_level.txt":
            return self._name
        return None

    def locate_file(self, path: Any) -> Any:
        return path


class _Loader(importlib.abc.Loader):
    def __init__(self, fill: Callable[[Any], None]) -> None:
        self.fill = fill

    def create_module(self, spec: Any) -> Any:
        return None

    def exec_module(self, module: Any) -> None:
        module._attn_doctor_stand_in = True
        self.fill(module)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: Dict[str, Callable[[Any], None]], distributions: Dict[str, str]) -> None:
        self.modules = modules
        self.distributions = distributions
        self.used: List[str] = []

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        fill = self.modules.get(name)
        if fill is None:
            return None
        self.used.append(name)
        package = any(other.startswith(name + ".") for other in self.modules)
        return importlib.machinery.ModuleSpec(name, _Loader(fill), is_package=package, origin="stand-in")

    def find_distributions(self, context: Any = None) -> Any:
        wanted = getattr(context, "name", None)
        normal = (wanted or "").replace("-", "_").lower()
        return [_Distribution(n, v) for n, v in self.distributions.items() if wanted is None or n == normal]


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@contextlib.contextmanager
def installed(attention: Any, conditions: Any) -> Iterator[Finder]:
    """Stand-ins in place of what cannot run without a GPU. `attention` is told of every call they get.

    A library that is not installed is stood in for only where `conditions.stand_ins` names it: code that asks
    `try: import xformers` would otherwise take a road here that it does not take on the GPU node.
    """
    modules: Dict[str, Callable[[Any], None]] = {}
    distributions: Dict[str, str] = {}
    version = conditions.flash_attn_version
    if _installed("flash_attn"):
        version = conditions.flash_attn_version = importlib.metadata.version("flash_attn")
    elif "flash_attn" in conditions.stand_ins:
        distributions["flash_attn"] = version
    if _installed("flash_attn") or "flash_attn" in conditions.stand_ins:
        modules.update(flash_attn.modules(attention, version))
    if _installed("xformers"):
        modules.update(xformers.modules(attention))
    elif "xformers" in conditions.stand_ins:
        distributions["xformers"] = "0.0.35"
        modules.update(xformers.modules(attention))
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in _tops(modules)}
    finder = Finder(modules, distributions)
    sys.meta_path.insert(0, finder)
    try:
        yield finder
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] in _tops(modules)]:
            if isinstance(sys.modules[name], types.ModuleType):
                del sys.modules[name]
        sys.modules.update(hidden)


def _tops(modules: Dict[str, Any]) -> Any:
    return {name.split(".")[0] for name in modules}
