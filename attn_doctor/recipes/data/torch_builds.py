"""Which CUDA builds a release of torch was published as, whatever GPUs they are for.

Data in recipes/torch/releases.toml: the builds of each release with the GPUs that they hold code for, and `further`
ones of which that is not told. Nothing is guessed of a release that is not in it.
"""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from attn_doctor.recipes.data.torch_releases import TABLE
from attn_doctor.recipes.shelf import table

#: Up to here every build is in the table. Later releases may have one that their authors call experimental; an older
#: CUDA than those in the table never came back.
_COMPLETE = Version("2.7.1")


def builds_of(release: str) -> tuple[str, ...]:
    """The builds of a release as its index names them, by their CUDA: cu118, cu121. Empty for an unknown release."""
    return tuple(f"cu{cuda.replace('.', '')}" for cuda in sorted(_cudas(release), key=Version))


def is_made(release: str, build: str) -> bool | None:
    """Whether the release was published as that build (cu118); None where the table does not say."""
    known = builds_of(release)
    if not known or not build.removeprefix("cu").isdecimal():
        return None
    if build in known:
        return True
    return False if Version(release) <= _COMPLETE or _number(build) < min(map(_number, known)) else None


def nearest_with(release: str, build: str) -> str | None:
    """The release next to this one that was published as that build; None where the table has none."""
    having = sorted((one for row in _rows() for one in row["versions"] if build in builds_of(one)), key=Version)
    before = [one for one in having if Version(one) < Version(release)]
    return before[-1] if before else next(iter(having), None)


def _number(build: str) -> tuple[int, int]:
    """(11, 8) of cu118; CUDA 9.2 to 9.x are cu92."""
    digits = build.removeprefix("cu")
    return int(digits[:-1]), int(digits[-1])


def _cudas(release: str) -> list[str]:
    row: dict[str, Any] = next((one for one in _rows() if release in one["versions"]), {})
    return [*dict.fromkeys((*row.get("x86_64", {}), *row.get("further", ())))]


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [*table(TABLE)["release"], *table(TABLE)["older"]]
    return rows
