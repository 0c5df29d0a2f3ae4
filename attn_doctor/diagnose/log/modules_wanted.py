"""Tells what has to be installed where a module is missing: its distribution, or the checkout that brings it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.modules import distribution_called, distribution_with, repository_with

_MISSING = when_used(r"No module named [`'\"]?(?P<module>[A-Za-z_]\w{0,60})[`'\"]?(?![\w.])")
#: What a message tells its reader to install, by name alone.
_ASKED = when_used(
    r"(?:No package metadata was found for |\bpip3? install (?:-U |--upgrade )?)[`'\"]?(?P<name>[A-Za-z][\w-]{1,50})"
    r"[`'\"]?(?=[\s.)]|$)"
)
_INSTALLED = when_used(r"(?:site|dist)-packages/|/lib/python\d|/[Ll]ib/\w|^<")
#: What checkouts of packages have in their top folder, with programs that import the package.
_OF_A_CHECKOUT = when_used(r"/(?:examples?|src|scripts|tests|benchmarks?)/")
#: Folders that many checkouts have: which of them is meant, their name does not tell.
_COMMON = frozenset({"src", "lib", "utils", "models", "model", "data", "tools", "scripts", "common", "core", "config"})


def with_what_brings_it(facts: FactSet, paths: Iterable[str], message: str) -> FactSet:
    """The facts, with what brings the module that a message misses. `paths`: of the files in its frames."""
    return facts.with_facts(_told(facts, paths, message))


def _told(facts: FactSet, paths: Iterable[str], message: str) -> Iterator[Fact]:
    missing = _MISSING.search(message)
    module = facts.text("log.module") or (missing["module"] if missing else "")
    asked = _ASKED.search(message)
    if not module and asked is None:
        return  # most messages: the table is not read for them
    wanted = distribution_with(module)
    if wanted is None and asked is not None:
        wanted = distribution_called(asked["name"])
    folder = checkout_of(module, paths)
    # A folder of a person's own may be called like a well-known package, too.
    if folder and (wanted is None or any(_OF_A_CHECKOUT.match(path.replace("\\", "/"), len(folder)) for path in paths)):
        yield _fact("log.module_folder", folder)
    elif address := repository_with(module):
        yield _fact("log.module_repository", address)
    elif wanted is not None:
        yield _fact("log.module_package" if wanted.around_torch else "log.module_plain", wanted.requirement)


def checkout_of(module: str, paths: Iterable[str]) -> str | None:
    """The folder of the checkout that is called like the module and has one of these files."""
    wanted = _plain(module)
    if wanted in _COMMON or len(wanted) < 3:
        return None
    for path in paths:
        folders = path.replace("\\", "/").split("/")[:-1]
        named = next((number for number, folder in enumerate(folders) if _plain(folder) == wanted), None)
        if named and not _INSTALLED.search(path.replace("\\", "/")):
            # What lies in a folder of that name twice is the package in its checkout.
            return "/".join(folders[: named + 1])
    return None


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", re.sub(r"-(?:main|master)$", "", name.lower()))


def _fact(name: str, value: str) -> Fact:
    return Fact(name=FactName.parse(name), state=Known(value), how="recipes/modules.toml", origin=Origin.DERIVED)
