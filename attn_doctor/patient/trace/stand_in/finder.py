"""Stand-in modules, found by import and by importlib.metadata, for libraries that cannot run.

Frameworks call `importlib.metadata.version("flash_attn")` and `find_spec("flash_attn")` before they use it, so the
stand-in supports both; nothing is written to disk.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Set

import torch

from ...libraries import LIBRARIES, Library, flash_attn_2, version_of
from ..meet import functions
from ..meet.roles import Signature

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from ...arguments import Given, Keywords, Positional
    from ...libraries.library import Fill, Meet
    from ..meet.attention import Attending, Conditions


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version

    def read_text(self, filename: str) -> Optional[str]:
        if filename == "METADATA":
            return "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(self._name, self._version)
        if filename == "top_level.txt":
            return next(library.top_level for library in _STAND_INS if library.key == self._name)
        return None

    def locate_file(self, path: object) -> Any:
        return path


class _Loader(importlib.abc.Loader):
    def __init__(self, fill: Fill) -> None:
        self.fill = fill

    def create_module(self, spec: object) -> Any:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["_attn_doctor_stand_in"] = True
        self.fill(module)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, modules: Dict[str, Fill], distributions: Dict[str, str]) -> None:
        self.modules = modules
        self.distributions = distributions
        self.used: List[str] = []
        self.reasons: Dict[str, str] = {}
        """Distribution -> reason for its stand-in; none for those that only lack a GPU."""

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        fill = self.modules.get(name)
        if fill is None:
            return None
        self.used.append(name)
        package = any(other.startswith(name + ".") for other in self.modules)
        return importlib.machinery.ModuleSpec(name, _Loader(fill), is_package=package, origin="stand-in")

    def words(self) -> List[str]:
        """The stand-ins for libraries that the program imported and that cannot really be imported, in words."""
        return [words for library, words in self.reasons.items() if any(_of(name) == library for name in self.used)]

    def find_distributions(self, context: object = None) -> List[_Distribution]:
        wanted = getattr(context, "name", None)
        normal = (wanted or "").replace("-", "_").lower()
        return [_Distribution(n, v) for n, v in self.distributions.items() if wanted is None or n == normal]


_STAND_INS = tuple(library for library in LIBRARIES if library.modules is not None)


def _meeting(attention: Attending, words: str) -> Meet:
    """A function that judges calls of a library's functions before their stand-ins run."""

    def meet(
        name: str,
        where: str,
        given: Given,
        args: Positional,
        kwargs: Keywords,
        frame: FrameType,
        run: Callable[[], object],
    ) -> object:
        tensors = functions.tensors_of(Signature.of_names(list(given)), name, (), given)
        return attention.attend(
            name,
            where.split(".")[0],
            {role: one for role, one in tensors.items() if isinstance(one, torch.Tensor)},
            functions.contract_for(where, name, attention, given),
            run,
            stand_in=words,
            frame=frame,
            given=given,
        )

    return meet


def _modules(attention: Attending, versions: Dict[str, str]) -> Dict[str, Fill]:
    """The stand-in modules of these libraries: code tries the newest first, and uses the first it finds."""
    found: Dict[str, Fill] = {}
    for library in _there(versions):
        version = versions[library.key]
        if library.modules is not None:
            found.update(library.modules(attention, _meeting(attention, library.words.format(version)), version))
    for library in _there(versions):
        found.setdefault(library.top_level, _namespace)
    return found


def _there(versions: Dict[str, str]) -> List[Library]:
    return [library for library in _STAND_INS if library.key in versions]


def _of(module: str) -> str:
    """The library of a stand-in module: of two in one namespace, the one with the longer matching prefix."""
    names = [(len(one.module), one.key) for one in _STAND_INS if (module + ".").startswith(one.module + ".")]
    return max(names)[1] if names else module.split(".")[0]


def _namespace(module: ModuleType) -> None:
    """The parent package of a library in another library's namespace, when only that one is installed."""
    module.__path__ = []


@contextlib.contextmanager
def installed(attention: Attending, conditions: Conditions) -> Iterator[Finder]:
    """Installs stand-ins for libraries that cannot run without a GPU. `attention` receives every call to them.

    A library that is not installed gets a stand-in only if `conditions.stand_ins` names it: otherwise code such as
    `try: import xformers` would take another path here than on the GPU node.
    """
    modules: Dict[str, Fill] = {}
    distributions: Dict[str, str] = {}
    versions = {}
    reasons = {}
    for library in _STAND_INS:
        name = library.key
        found = version_of(library) or None
        if conditions.missing:  # a real GPU: libraries that work there stay unchanged
            if name not in conditions.missing:
                continue
            reasons[name] = "{} cannot be imported here: its calls were stood in for".format(name)
        if found is None and name in (*conditions.stand_ins, *conditions.missing):
            found = conditions.flash_attn_version if library is flash_attn_2.LIBRARY else library.newest
            distributions[name] = found
            words = "{} is not installed here: its calls were stood in for, as version {} takes them"
            reasons[name] = words.format(name, found)
        if found is not None:
            versions[name] = found
    conditions.flash_attn_version = versions.get(flash_attn_2.LIBRARY.key, conditions.flash_attn_version)
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


def _tops(modules: Dict[str, Fill]) -> Set[str]:
    return {name.split(".")[0] for name in modules}
