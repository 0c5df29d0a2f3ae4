"""Which NVIDIA drivers run a CUDA release, and which know a GPU; data in recipes/gpus.toml with its sources."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.gpu_table import TABLE
from attn_doctor.recipes.shelf import table

#: Where the first and the last driver of a GPU are told.
SOURCE = "https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitDriver:
    """A driver that does not know a GPU."""

    capability: str
    branch: str
    """The nearest branch that does: 570."""
    is_older: bool
    """The driver is older than the GPU's first; else newer than its last."""

    @property
    def words(self) -> str:
        """The drivers that know it: `driver 570 or later`."""
        return f"driver {self.branch} or {'later' if self.is_older else 'earlier'}"


def oldest_for_cuda(major: int) -> str | None:
    """The oldest Linux driver for that CUDA major (minor-version compatibility); None when it is not known."""
    return next((str(row["oldest"]) for row in table(TABLE)["driver"] if row["cuda"] == major), None)


def oldest_cuda(capability: str) -> str | None:
    """The first CUDA whose nvcc compiles for a GPU of that major compute capability; None when it is not known."""
    major = capability.partition(".")[0]
    rows = (row for row in table(TABLE)["architecture"] if row["compute_capability"].partition(".")[0] == major)
    return next((row["oldest_cuda"] for row in rows if "oldest_cuda" in row), None)


def is_later_minor(cuda: str, driver_cuda: str | None) -> bool:
    """True for a CUDA of the driver's own major and a later minor than the driver names: PTX of it does not load there
    (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html). False where none is known.
    """
    try:
        its = Version(driver_cuda or "")
    except InvalidVersion:
        return False
    return Version(cuda).major == its.major and Version(cuda) > its


def is_older(driver: str, oldest: str) -> bool:
    """True when that driver is older. A branch (`580`) stands for its releases: compared by as much as it names.

    Raises InvalidVersion for a version that cannot be compared.
    """
    here = Version(driver).release
    return here < Version(oldest).release[: len(here)]


def unfit_for(driver: str, gpus: Iterable[str]) -> UnfitDriver | None:
    """Why a driver runs none of these compute capabilities' GPUs; None when it runs all, or that is not known.

    Raises InvalidVersion for a driver's version that cannot be compared.
    """
    branch = Version(driver).release[0]
    wanted = tuple(gpus)
    rows = [row for row in table(TABLE)["architecture"] if row["compute_capability"] in wanted]
    for row in sorted(rows, key=lambda one: -one.get("oldest_driver", 0)):
        if branch < row.get("oldest_driver", 0):
            return UnfitDriver(capability=row["compute_capability"], branch=str(row["oldest_driver"]), is_older=True)
    for row in rows:
        if branch > row.get("newest_driver", branch):
            return UnfitDriver(capability=row["compute_capability"], branch=str(row["newest_driver"]), is_older=False)
    return None
