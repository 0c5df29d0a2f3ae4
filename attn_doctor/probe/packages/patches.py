"""Patches by `fix` in installed packages, and the code at places with a known patch. Nothing is imported.

`fix` records each patched file in the distribution's own `dist-info/attn-doctor.json`, which RECORD lists: an upgrade
removes the record together with the patch, and a copy of the environment keeps both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attn_doctor.model.digests import sha256
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.keyword_calls import NotThere, keyword, transposed_value
from attn_doctor.probe.packages.packages import Inventory

NOTE = "attn-doctor.json"
_MOST_BYTES = 4_000_000
#: https://github.com/fla-org/flash-linear-attention/blob/v0.2.1/fla/ops/gsa/chunk.py
_GSA = ("fla/ops/gsa/chunk.py", "chunk_gsa_bwd_k", "chunk_fwd_h", "states_in_fp32")


def probe(inventory: Inventory) -> tuple[Fact, ...]:
    """Facts about patches in place, and about flash-linear-attention's gated slot attention."""
    notes = FactNotes()
    count = 0
    for dist in inventory.distributions:
        for patch in _noted(dist.info):
            file = dist.folder / str(patch.get("file"))
            if _sha256(file) != patch.get("sha256"):
                continue  # upgraded, or changed by another program: the patch is gone
            own = f"patch.{count}."
            how = f"{dist.info / NOTE}"
            notes.known(own + "path", str(file), how)
            notes.known(own + "package", dist.name, how)
            notes.known_or_absent(own + "version", dist.version, how)
            notes.known(own + "finding", str(patch.get("finding") or ""), how)
            count += 1
    notes.known("listed.patch", count, f"{NOTE} in the dist-info folders")
    _gated_slot_attention(notes, inventory)
    _transposed_tile(notes, inventory)
    return notes.facts()


def _gated_slot_attention(notes: FactNotes, inventory: Inventory) -> None:
    name = "source.gsa_states_in_fp32"
    file, function, call, word = _GSA
    dist = next((one for one in (inventory.of("fla-core"), inventory.of("flash-linear-attention")) if one), None)
    if dist is None:
        notes.absent(name, file, "flash-linear-attention is not installed")
        return
    path = (dist.editable_at or dist.folder) / file
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise NotThere("the file is too large")
        found = keyword(path.read_bytes(), function, call, word).value
    except FileNotFoundError:
        notes.absent(name, str(path), "there is no such file")
        return
    except OSError as error:
        notes.unknown(name, str(path), f"the file cannot be read: {error.strerror}")
        return
    except NotThere as error:
        notes.unknown(name, str(path), str(error))
        return
    if isinstance(found, bool):
        notes.known(name, found, f"{path}, {function}")
    else:
        notes.unknown(name, str(path), f"{word} is {found!r}")


def _transposed_tile(notes: FactNotes, inventory: Inventory) -> None:
    """Adds the place where gated slot attention's kernels use a transposed tile as an ordinary value."""
    name = "source.transposed_tile"
    dist = next((one for one in (inventory.of("fla-core"), inventory.of("flash-linear-attention")) if one), None)
    if dist is None:
        notes.absent(name, _GSA[0], "flash-linear-attention is not installed")
        return
    path = (dist.editable_at or dist.folder) / _GSA[0]
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise NotThere("the file is too large")
        line = transposed_value(path.read_bytes())
    except FileNotFoundError:
        notes.absent(name, str(path), "there is no such file")
    except OSError as error:
        notes.unknown(name, str(path), f"the file cannot be read: {error.strerror}", asked=False)
    except NotThere as error:
        notes.unknown(name, str(path), str(error), asked=False)
    else:
        notes.known_or_absent(name, None if line is None else f"{path}:{line}", str(path), "none is used so")


def _noted(info: Path) -> list[dict[str, Any]]:
    try:
        if info.is_file() or (info / NOTE).stat().st_size > _MOST_BYTES:
            return []
        written = json.loads((info / NOTE).read_bytes())
        found = written["patched"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _sha256(file: Path) -> str | None:
    try:
        return sha256(file.read_bytes()).hexdigest() if file.stat().st_size < _MOST_BYTES else None
    except OSError:
        return None
