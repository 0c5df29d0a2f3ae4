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

import torch

from ...libraries import flash_attn_2, flash_attn_3, flash_attn_4, xformers
from ..boundaries import functions
from ..boundaries.roles import Signature


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version

    def read_text(self, filename: str) -> Optional[str]:
        if filename == "METADATA":
            return "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(self._name, self._version)
        if filename == "top_level.txt":
            return _TOP_LEVEL.get(self._name, self._name)
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
        self.reasons: Dict[str, str] = {}
        """Distribution -> why it is stood in for; none for those that only want a GPU."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        fill = self.modules.get(name)
        if fill is None:
            return None
        self.used.append(name)
        package = any(other.startswith(name + ".") for other in self.modules)
        return importlib.machinery.ModuleSpec(name, _Loader(fill), is_package=package, origin="stand-in")

    def words(self) -> List[str]:
        """Of the libraries that the program imported, those that are not there to be imported for real."""
        return [words for library, words in self.reasons.items() if any(_of(name) == library for name in self.used)]

    def find_distributions(self, context: Any = None) -> Any:
        wanted = getattr(context, "name", None)
        normal = (wanted or "").replace("-", "_").lower()
        return [_Distribution(n, v) for n, v in self.distributions.items() if wanted is None or n == normal]


_VERSIONS = {"flash_attn": "2.8.3", "flash_attn_3": "3.0.0", "flash_attn_4": "4.0.0", "xformers": "0.0.35"}
"""Distributions that can be stood in for, and the version that stands in where none is installed."""

_ALSO_CALLED = {"flash_attn_3": ("flashattn-hopper",)}
_TOP_LEVEL = {"flash_attn_3": "flash_attn_interface", "flash_attn_4": "flash_attn"}
_OF_FLASH_ATTN_3 = "flash_attn_interface"
_OF_FLASH_ATTN_4 = "flash_attn.cute"


def _version_of(name: str) -> Optional[str]:
    for spelled in (name, *_ALSO_CALLED.get(name, ())):
        try:
            return importlib.metadata.version(spelled)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


_LIBRARIES = {
    "flash_attn": flash_attn_2,
    "flash_attn_3": flash_attn_3,
    "flash_attn_4": flash_attn_4,
    "xformers": xformers,
}


def _meeting(attention: Any, words: str) -> Callable[..., Any]:
    """How the functions of a library are judged when they are called, before anything stands in for them."""

    def meet(name: str, where: str, given: Any, args: Any, kwargs: Any, frame: Any, run: Callable[[], Any]) -> Any:
        tensors = functions.tensors_of(Signature.of_names(list(given)), name, (), given)
        return attention.attend(
            name,
            where.split(".")[0],
            {role: one for role, one in tensors.items() if isinstance(one, torch.Tensor)},
            functions.contract_for(where, name, attention, given),
            run,
            stand_in=words,
            frame=frame,
        )

    return meet


def _modules(attention: Any, versions: Dict[str, str]) -> Dict[str, Callable[[Any], None]]:
    """The modules of those libraries that are there: code tries the newest first, and takes what it finds."""
    found: Dict[str, Callable[[Any], None]] = {}
    for name, version in versions.items():
        library = _LIBRARIES[name]
        found.update(library.modules(attention, _meeting(attention, library.WORDS.format(version)), version))
    if "flash_attn_4" in versions and "flash_attn" not in versions:
        found["flash_attn"] = _namespace
    return found


def _of(module: str) -> str:
    """The distribution that a stood-in module belongs to."""
    if module == _OF_FLASH_ATTN_3:
        return "flash_attn_3"
    return "flash_attn_4" if module.startswith(_OF_FLASH_ATTN_4) else module.split(".")[0]


def _namespace(module: Any) -> None:
    """flash_attn where only flash-attn 4 is installed: nothing of its own."""
    module.__path__ = []


@contextlib.contextmanager
def installed(attention: Any, conditions: Any) -> Iterator[Finder]:
    """Stand-ins in place of what cannot run without a GPU. `attention` is told of every call they get.

    A library that is not installed is stood in for only where `conditions.stand_ins` names it: code that asks
    `try: import xformers` would otherwise take a road here that it does not take on the GPU node.
    """
    modules: Dict[str, Callable[[Any], None]] = {}
    distributions: Dict[str, str] = {}
    versions = {}
    reasons = {}
    for library, default in _VERSIONS.items():
        found = _version_of(library)
        if conditions.missing:  # a real GPU: what works there is left alone
            if library not in conditions.missing:
                continue
            reasons[library] = "{} cannot be imported here: its calls were stood in for".format(library)
        if found is None and library in (*conditions.stand_ins, *conditions.missing):
            found = distributions[library] = conditions.flash_attn_version if library == "flash_attn" else default
            words = "{} is not installed here: its calls were stood in for, as version {} takes them"
            reasons[library] = words.format(library, found)
        if found is not None:
            versions[library] = found
    if "flash_attn" in versions:
        conditions.flash_attn_version = versions["flash_attn"]
    modules.update(_modules(attention, versions))
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in _tops(modules)}
    finder = Finder(modules, distributions)
    finder.reasons = reasons
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
