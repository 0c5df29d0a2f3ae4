"""One release of a package: the names of its modules, classes and functions, star imports and bases followed."""

from __future__ import annotations

import builtins
import re
from functools import cached_property
from pathlib import PurePosixPath

from bench.python_names import GONE_TABLES, Names

#: Not for callers, or nobody's import.
_NOT_OURS = re.compile(
    r"(?:^|\.)(?:tests?|conftest|_internal|benchmarks?|examples?|third_party|csrc|dummy_\w+_objects|dummy_\w+|test_\w+"
    r"|(?<!networkx\.)convert_\w+)(?:\.|$)|^transformers\.models\.\w+\.(?:modular|diff)_"
)
#: What torch's own __init__ lifts out of its compiled module at import.
DTYPES = "dtypes of torch"
_LIFTED = {"torch": ("torch._C", "torch._C._VariableFunctions", DTYPES)}
#: Made from the list of torch's operators; other stubs are written by hand, and may learn of a name a release late.
GENERATED_STUBS = {"torch._C._VariableFunctions", "torch._C._nn"}
_LAZY_BELOW = {"transformers": "transformers.models."}


def module_of(file: str, root: str) -> str | None:
    """The dotted name of a file of a wheel or an sdist; None for what lies elsewhere than below the import root."""
    parts = list(PurePosixPath(file).parts)
    for start in range(min(4, len(parts))):
        if parts[start] == root and all(one not in {"build", "csrc", "tests", "docs"} for one in parts[:start]):
            break
    else:
        return None
    last = parts[-1].partition(".")[0]
    words = [*parts[start:-1], *([] if last == "__init__" else [last])]
    module = ".".join(words)
    if not all(one.isidentifier() for one in words) or _NOT_OURS.search(module):
        return None
    return module


def merge_stub(source: Names, stub: Names) -> Names:
    """A module with what its stub tells of functions that the module only assigns."""
    if source.get("stubbed"):  # lazy_loader reads the stub when the module is asked
        defs = sorted({*source.get("defs", ()), *stub.get("defs", ())})
        every = [*source.get("stars", ()), *stub.get("stars", ())]
        return {**source, "defs": defs, "stars": every, "imports": {**stub.get("imports", {}), **source["imports"]}}
    defined = source.get("functions", {})
    told = {name: found for name, found in stub.get("functions", {}).items() if name not in defined and "." not in name}
    bound = set(source.get("defs", ()))
    return {**source, "functions": {**{one: found for one, found in told.items() if one in bound}, **defined}}


class ReleasedNames:
    """The modules of one release."""

    def __init__(self, root: str, modules: dict[str, Names]) -> None:
        self.root = root
        self.modules = modules
        self._bound: dict[str, frozenset[str]] = {}

    @cached_property
    def packages(self) -> dict[str, set[str]]:
        """Package -> its submodules; folders without an __init__ as well."""
        found: dict[str, set[str]] = {}
        for module in self.modules:
            while "." in module:
                parent, _, last = module.rpartition(".")
                found.setdefault(parent, set()).add(last)
                module = parent
        return found

    @cached_property
    def makers(self) -> dict[str, list[str]]:
        """Class -> the modules that make one of this name."""
        found: dict[str, list[str]] = {}
        for module, names in self.modules.items():
            for name in names.get("classes", ()):
                found.setdefault(name, []).append(module)
        return found

    def is_vague(self, module: str, name: str) -> bool:
        """Whether the name is known from a stub written by hand alone, which says nothing of releases without it."""
        vague = [one for one in _LIFTED.get(module, ()) if self.modules.get(one, {}).get("stub")]
        return any(
            one not in GENERATED_STUBS and name in self.public(one) for one in vague
        ) and name not in self.modules.get(DTYPES, {}).get("defs", ())

    def may_answer(self, module: str, name: str) -> bool:
        """Whether a module's own __getattr__, or that of one whose names it takes, may know a name."""
        names = self.modules.get(module, {})
        places = [self.absolute(module, level, target) for level, target in names.get("stars", ())]
        return name in names.get("maybe", ()) or any(
            name in self.modules.get(place, {}).get("maybe", ()) for place in places
        )

    def gone(self, module: str) -> set[str]:
        """The names that a module says are gone, from a table of its own or one that it imports."""
        names = self.modules.get(module, {})
        found = set(names.get("gone", ()))
        for name, (level, target, there) in names.get("imports", {}).items():
            if there == name and GONE_TABLES.search(name):
                found.update(self.modules.get(self.absolute(module, level, target), {}).get("gone", ()))
        return found

    def has_module(self, module: str) -> bool:
        """Can it be imported?"""
        return module in self.modules or module in self.packages

    def bound(self, module: str) -> frozenset[str]:
        """Every name that `from module import …` finds."""
        if module not in self._bound:
            self._bound[module] = frozenset()  # of a circle of star imports, nothing
            self._bound[module] = frozenset(self._find_bound(module))
        return self._bound[module]

    def _find_bound(self, module: str) -> set[str]:
        names = self.modules.get(module, {})
        found = {*names.get("defs", ()), *names.get("imports", ()), *self.packages.get(module, ())}
        found.update(names.get("lazy", ()))
        if names.get("lazy") or "__getattr__" in found or self._looks_below(names):
            found.update(names.get("typing", ()))
        if self._looks_below(names):
            below = _LAZY_BELOW.get(module, f"{module}.")
            for other, theirs in self.modules.items():
                if other.startswith(below):
                    found.update(theirs.get("all", ()))
        for level, target in names.get("stars", ()):
            found |= self.public(self.absolute(module, level, target))
        for lifted in _LIFTED.get(module, ()):
            found |= self.public(lifted)
        return found

    def _looks_below(self, names: Names) -> bool:
        return "define_import_structure" in names.get("imports", ())

    def public(self, module: str) -> set[str]:
        """What `from module import *` brings."""
        names = self.modules.get(module, {})
        listed = None if names.get("open") else names.get("all")
        bound = self.bound(module)
        return set(listed) & bound if listed else {one for one in bound if not one.startswith("_")}

    def absolute(self, module: str, level: int, target: str) -> str:
        """The module that a relative import means."""
        if not level:
            return target
        is_package = self.modules.get(module, {}).get("package", False)
        words = module.split(".")
        words = words[: len(words) - level + (1 if is_package else 0)]
        return ".".join([*words, target]) if target else ".".join(words)

    def origin(self, module: str, name: str, depth: int = 0) -> tuple[str, str]:
        """Where a name that a module binds is made, as far as the release's own files tell."""
        names = self.modules.get(module, {})
        if name in names.get("classes", ()) or name in names.get("functions", ()) or depth > 8:
            return module, name
        if name in names.get("imports", ()):
            level, target, there = names["imports"][name]
            place = self.absolute(module, level, target)
            if not there:
                return place, ""
            if f"{place}.{there}" in self.modules and there not in self.bound(place):
                return f"{place}.{there}", ""
            return self.origin(place, there, depth + 1) if self.has_module(place) else (place, there)
        for level, target in names.get("stars", ()):
            place = self.absolute(module, level, target)
            if name in self.public(place):
                return self.origin(place, name, depth + 1)
        made_below = [one for one in self.makers.get(name, ()) if one.startswith(f"{module}.")]
        if len(made_below) == 1 and name in self.bound(module):  # a lazy module shows it
            return made_below[0], name
        return module, name

    def names_of_class(
        self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> tuple[set[str], set[tuple[str, str]]]:
        """What a class and its bases have; and bases, as package and name, that lie elsewhere ("" where unknown)."""
        made = self.modules.get(module, {}).get("classes", {}).get(name)
        if made is None or (module, name) in seen:
            return set(), set()
        found, elsewhere = set(made["names"]), set()
        for base in made["bases"]:
            place, last = self._place_of(module, base)
            if last in self.modules.get(place, {}).get("classes", ()):
                more, others = self.names_of_class(place, last, seen | {(module, name)})
                found |= more
                elsewhere |= others
            elif "." in base or last not in _EMPTY_BASES:
                root = place.partition(".")[0]
                elsewhere.add(("" if root == self.root else root, last))
        return found, elsewhere

    def fields_of_class(self, module: str, name: str, depth: int = 0) -> tuple[set[str], set[tuple[str, str]]] | None:
        """The parameters of a dataclass, its bases' as well; and bases elsewhere. None for other classes."""
        made = self.modules.get(module, {}).get("classes", {}).get(name)
        if made is None or made["fields"] is None or depth > 8:
            return None
        found, elsewhere = set(made["fields"]), set()
        for base in made["bases"]:
            place, last = self._place_of(module, base)
            below = self.fields_of_class(place, last, depth + 1)
            if below is not None:
                found |= below[0]
                elsewhere |= below[1]
            elif last not in self.modules.get(place, {}).get("classes", ()) and last not in _EMPTY_BASES:
                root = place.partition(".")[0]
                elsewhere.add(("" if root == self.root else root, last))
        return found, elsewhere

    def parameters(self, module: str, name: str) -> tuple[set[str], bool, set[tuple[str, str]]]:
        """Those of a function or of a dataclass, whether it takes any other, and bases that may add some."""
        written = self.modules[module].get("functions", {}).get(name)
        if written is not None:
            return set(written[0]), written[1], set()
        fields = self.fields_of_class(module, name.rpartition(".")[0])
        return (set(), True, set()) if fields is None else (fields[0], False, fields[1])

    def _place_of(self, module: str, base: str) -> tuple[str, str]:
        first, _, rest = base.partition(".")
        place, name = self.origin(module, first)
        if not rest:
            return place, name
        owner = f"{place}.{name}" if name else place
        inner, _, last = rest.rpartition(".")
        owner = f"{owner}.{inner}" if inner else owner
        return self.origin(owner, last) if self.has_module(owner) else (owner, last)


#: Bases that bring no attribute that a message would miss.
_EMPTY_BASES = {
    *dir(builtins), "ABC", "Enum", "Protocol", "Generic", "NamedTuple", "TypedDict", "IntEnum", "OrderedDict",
    "Function", "StrEnum",
}  # fmt: skip
