"""Facts from torch's own files, without importing it: version, CUDA, commit, ABI, GPU code."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes

_ATTRIBUTES = {"version": "__version__", "cuda": "cuda", "hip": "hip", "git_version": "git_version"}


def probe(modules: Mapping[str, Path]) -> tuple[Fact, ...]:
    """Facts from torch/version.py; `modules` are the top-level modules on the path."""
    notes = FactNotes()
    folder = modules.get("torch")
    if folder is None:
        for name in (*_ATTRIBUTES, "path", "cxx11_abi", "arch_list"):
            notes.absent(f"torch.{name}", "torch on the interpreter's sys.path", "no torch")
        return notes.facts()
    notes.known("torch.path", str(folder), "torch on the interpreter's sys.path")
    file = folder / "version.py"
    try:
        said = _assigned(file.read_text(errors="replace"))
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError) as error:
        for name in _ATTRIBUTES:
            notes.unknown(f"torch.{name}", str(file), f"torch/version.py cannot be read: {error}")
        return notes.facts()
    for name, attribute in _ATTRIBUTES.items():
        if attribute not in said:
            notes.unknown(f"torch.{name}", str(file), f"torch/version.py does not set {attribute}")
        else:
            notes.known_or_absent(f"torch.{name}", said[attribute], str(file), f"{attribute} = None")
    return notes.facts()


def _assigned(source: str) -> dict[str, str | None]:
    """Top-level assignments of strings and None."""
    found: dict[str, str | None] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str)):
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id] = value.value
    return found
