"""The version of the ptxas that Triton would assemble its kernels with, read in its file: nothing is run.

Triton brings one of its own; TRITON_PTXAS_PATH replaces it. Two releases of ptxas make different code of the same PTX.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes

_PLACES = ("backends/nvidia/bin/ptxas", "third_party/cuda/bin/ptxas")
_MARK = b"Cuda compilation tools, release"
_VERSION = re.compile(rb"Cuda compilation tools, release [\d.]+, V(\d+\.\d+\.\d+)")


def probe(modules: Mapping[str, Path], environment: Mapping[str, str], *, quick: bool) -> tuple[Fact, ...]:
    """`triton.ptxas` and its path; `quick`: the file, which is large, is not read."""
    notes = FactNotes()
    how = "the file that Triton would start"
    folder = modules.get("triton")
    named = environment.get("TRITON_PTXAS_PATH")
    places = [Path(named)] if named else [folder / place for place in _PLACES] if folder is not None else []
    file = next((one for one in places if one.is_file()), None)
    if file is None:
        reason = f"TRITON_PTXAS_PATH names no file: {named}" if named else "no Triton, or one without a ptxas"
        for name in ("triton.ptxas", "triton.ptxas_path"):
            notes.absent(name, how, reason)
        return notes.facts()
    notes.known("triton.ptxas_path", str(file), how)
    if quick:
        notes.unknown("triton.ptxas", how, "not asked for (--quick)", asked=False)
        return notes.facts()
    try:
        version = _version(file)
    except (OSError, ValueError) as error:
        notes.unknown("triton.ptxas", how, f"{file} cannot be read: {error}")
        return notes.facts()
    if version is None:
        notes.unknown("triton.ptxas", how, f"{file} does not say its version")
    else:
        notes.known("triton.ptxas", version, f"{how}: {file}")
    return notes.facts()


def _version(file: Path) -> str | None:
    import mmap  # which --quick does without

    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(_MARK)
        match = None if at < 0 else _VERSION.match(content[at : at + 80])
    return None if match is None else match[1].decode()
