"""Holds what a wheel needs against a node and a build of torch. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from attn_doctor.diagnose.gpu_targets import lacking
from attn_doctor.model.stack import PlannedNode
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.stack_packages import as_capability, stack_package
from attn_doctor.stack.proof.known import lacking_in_torch, opened_torch
from attn_doctor.stack.proof.wheel_code import LibraryCode, WheelCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the opened wheel says."""

    proven: tuple[str, ...] = ()
    """What was held against the node and torch, and fits."""
    broken: tuple[str, ...] = ()
    """What does not fit."""
    open: tuple[str, ...] = ()
    """What could not be held against anything."""

    @property
    def words(self) -> str:
        """In one line."""
        left = f"; not known: {', '.join(self.open)}" if self.open else ""
        return "; ".join(self.broken) if self.broken else ", ".join(self.proven) + left


def prove(name: str, file: str, code: WheelCode, node: PlannedNode, *, torch: str, cuda: str) -> Proof:
    """The proof. `cuda`: that of torch's build, empty for CPUs; then GPU code and CUDA libraries do not matter."""
    fits: list[str] = []
    broken: list[str] = []
    unknown: list[str] = []
    row = stack_package(name)
    build = f"cu{cuda.replace('.', '')}" if cuda else "cpu"
    libraries = [one for one in code.libraries if not re.search(r"_(rocm|xpu|hip)\d*", one.name)]
    if row is not None and row.bound == "abi-free" and cuda:
        # One library for each CUDA release, of which the one of torch's is loaded.
        own = [one for one in libraries if one.cudart_major == int(cuda.partition(".")[0])]
        if not own and any(one.cudart_major for one in libraries):
            broken.append(f"it holds no library for CUDA {cuda}")
        libraries = own
    tag = _tag(file, node) if node.python else ""
    if tag:
        broken.append(tag)
    for words in _older_glibc(libraries, node):
        broken.append(words)
    if cuda:
        majors = {one.cudart_major for one in libraries if one.cudart_major}
        if majors - {int(cuda.partition(".")[0])}:
            broken.append(f"it needs the CUDA {min(majors)} runtime, torch brings that of {cuda}")
        elif majors:
            fits.append(f"CUDA {min(majors)} runtime")
        _gpu(libraries, node, fits, broken)
    symbols = tuple(dict.fromkeys(symbol for one in libraries for symbol in one.torch_symbols))
    if symbols:
        lacking_ones = lacking_in_torch(symbols, torch, build)
        if lacking_ones is None:
            unknown.append(f"whether torch {torch} ({build}) has its {len(symbols)} symbols of torch")
        elif lacking_ones:
            count = len(lacking_ones)
            broken.append(f"torch {torch} ({build}) lacks {count} of its symbols, {lacking_ones[0]} among them")
        else:
            fits.append(f"{len(symbols)} symbols of torch {torch}")
    unknown += [f"{one.name}: {one.unreadable}" for one in libraries if one.unreadable]
    fits += [] if broken else ["Python tag and glibc"]
    return Proof(proven=tuple(fits), broken=tuple(broken), open=tuple(unknown))


def _gpu(libraries: list[LibraryCode], node: PlannedNode, fits: list[str], broken: list[str]) -> None:
    """A wheel runs on a GPU when one of its libraries does; parts without code for it are named."""
    coded = [one for one in libraries if one.gpu_code]
    for gpu in node.capabilities if coded else ():
        without = [one for one in coded if lacking(one.gpu_code, [as_capability(gpu)])]
        if len(without) == len(coded):
            has = ", ".join(dict.fromkeys(code for one in coded for code in one.gpu_code))
            broken.append(f"its GPU code is for {has}, none for {gpu}")
            continue
        but = f", not in {', '.join(one.name for one in without)}" if without else ""
        fits.append(f"GPU code for {gpu}{but}")


def prove_torch(torch: str, file: str, sha256: str, node: PlannedNode, *, build: str) -> Proof | None:
    """The proof of torch itself by its wheel that was opened; None when none of this build was."""
    opened = opened_torch(torch, build)
    if opened is None:
        return None
    fits: list[str] = []
    broken: list[str] = []
    whole = LibraryCode(name=opened.file, gpu_code=opened.gpu_code)
    _gpu([whole], node, fits, broken)
    tag = _tag(file, node) if file and node.python else ""
    broken += [tag] if tag else []
    same = "" if sha256 == opened.sha256 else f", seen in {opened.file}"
    code = fits or [f"GPU code for {', '.join(opened.gpu_code)}"]
    return Proof(proven=(f"{', '.join(code)}{same}",), broken=tuple(broken))


def _older_glibc(libraries: list[LibraryCode], node: PlannedNode) -> Iterator[str]:
    needed = [tuple(map(int, one.glibc.split("."))) for one in libraries if one.glibc]
    if needed and node.glibc and max(needed) > tuple(map(int, node.glibc.split("."))):
        yield f"it needs glibc {'.'.join(map(str, max(needed)))}, the node has {node.glibc}"


def _tag(file: str, node: PlannedNode) -> str:
    """Why no tag in the wheel's name fits; empty when one does."""
    try:
        tags = parse_wheel_filename(file)[3]
    except InvalidWheelFilename:
        return ""
    major, minor = node.python.split(".")
    for one in tags:
        told = re.fullmatch(r"(cp|py)(\d)(\d*)", one.interpreter)
        if told is None or told[2] != major:
            continue
        is_exact = told[3] == minor
        if told[1] == "py" or is_exact or (one.abi == "abi3" and int(told[3] or 0) <= int(minor)):
            return ""
    return f"its tags are {', '.join(sorted(map(str, tags))[:2])}, not for Python {node.python}"
