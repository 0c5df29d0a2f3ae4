"""Distributions with one import name that wrote the same files: what was installed last lies over the other's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from attn_doctor.probe.packages.dist_info import Distribution
from attn_doctor.probe.packages.known_packages import BY_NAME


def overlaps(distributions: Iterable[Distribution]) -> Iterator[tuple[str, str]]:
    """Pairs of installed distributions whose RECORDs list one file with two hashes.

    RECORDs are read for those alone that share an import name: fla-core and an old flash-linear-attention, sgl-kernel
    and sglang-kernel.
    """
    sharing: dict[tuple[str, str], list[Distribution]] = {}
    for one in distributions:
        if one.name in BY_NAME and one.editable_at is None:
            sharing.setdefault((BY_NAME[one.name].module, str(one.folder)), []).append(one)
    for (module, _), those in sharing.items():
        for first, second in combinations(those, 2):
            if first.name == second.name:
                continue  # installed twice, which is told apart
            ours, theirs = _hashes(first, module), _hashes(second, module)
            if any(theirs.get(file, given) != given for file, given in ours.items()):
                yield first.name, second.name


def _hashes(one: Distribution, module: str) -> dict[bytes, bytes]:
    """File -> hash, for the files below its import name; none without a RECORD."""
    try:
        lines = (one.info / "RECORD").read_bytes().splitlines()
    except OSError:
        return {}
    own = f"{module}/".encode()
    rows = (line.split(b",") for line in lines if line.startswith(own))
    return {row[0]: row[1] for row in rows if len(row) == 3 and row[1] and not row[0].endswith(b".pyc")}
