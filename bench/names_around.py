"""What the table of names lists of the packages around attention: what their users import and call.

Of numpy, torchvision or gradio no subject is of more interest than another. Listed are the names of public modules, not
too far below the root, and methods and parameters of the classes and functions that such a module shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.released_names import ReleasedNames

#: `numpy.fft.helper`; modules further below are the makers' own.
_DEEPEST = 3
#: Modules that nobody imports from.
_UNUSED = re.compile(
    r"(?:^|\.)(?:_\w*|tests?|testing|conftest|version|setup(?:_\w+)?|__main__|distutils|f2py|src|legacy|mypy_plugin|sphinxext"
    r"|externals|cli|commands|cython\w*|benchmarks?|backend_\w+|_?vendor\w*|extern|packaged_modules|interpreter|lib2to3"
    r"|(?<=numpy\.)core|typing|array_api|dev|hub|tools|node|themes|templates|media|monkey_patches|scripts)(?:\.|$)"
)
#: But for these, which were moved or taken out, and are still asked for.
_ASKED_FOR = re.compile(r"^(?:sklearn\.externals|setuptools\.command|numpy\.testing|pandas\.util\.testing)(?:\.\w+)?$")
#: Where parts lie that another module shows, and that none but the makers calls.
_MAKERS = re.compile(
    r"^jax\.(?:_src\.(?:pallas|interpreters|export|state|lax|custom_\w+)|experimental\.(?:pallas|mosaic|jet))\b"
)
#: What stands behind a package in the key of a row of modules.
MODULES = "./"


class Around:
    """Which modules and names count, over all the releases of a package."""

    def __init__(self, looked_at: list[ReleasedNames]) -> None:
        self._shown: set[str] = set()
        for one in looked_at:
            for module in one.modules:
                if self.has_module(module):
                    self._shown.update(one.bound(module))

    def has_module(self, module: str) -> bool:
        """Whether its names are listed."""
        return module.count(".") < _DEEPEST and (not _UNUSED.search(module) or bool(_ASKED_FOR.match(module)))

    def shows(self, module: str, name: str) -> bool:
        """Whether a public module shows the class or function of a module, which may be given with a method behind it;
        the method has to be a public one, or the constructor.
        """
        if _MAKERS.match(module):
            return False
        owner, _, last = name.partition(".")
        return owner in self._shown and not owner.startswith("_") and (last == "__init__" or not last.startswith("_"))


def is_unbroken(at: list[int]) -> bool:
    """Whether the releases follow each other."""
    return at[-1] - at[0] + 1 == len(at)


def partial(present: list[int], of: Mapping[str, list[int]]) -> Iterator[tuple[str, list[int]]]:
    """Names that came or left while what holds them stayed, and did so once."""
    for name, at in of.items():
        if at and at != present and is_unbroken(at):
            yield name, at


def turned_into_names(
    looked_at: list[ReleasedNames], package: str, always: set[str]
) -> Iterator[tuple[str, str, list[int]]]:
    """Modules that only some releases have, where the others have something else of that name: jax.config."""
    of: dict[str, list[int]] = {}
    for index, one in enumerate(looked_at):
        for name in one.packages.get(package, ()):
            of.setdefault(name, []).append(index)
    present = [index for index, one in enumerate(looked_at) if one.has_module(package)]
    for name, at in partial(present, of):
        if name in always and not name.startswith("_"):
            yield f"{package}{MODULES}", name, at
