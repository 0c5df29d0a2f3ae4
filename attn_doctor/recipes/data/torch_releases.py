"""CUDA builds of each torch release, and the releases of other packages made for it.

The table is data (recipes/torch/releases.toml) with its sources; this module looks entries up and never guesses a
missing one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from attn_doctor.model.package_versions import accepts, canonical_name
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data.drivers import is_later_minor, is_older, oldest_for_cuda
from attn_doctor.recipes.data.gpu_table import runs
from attn_doctor.recipes.shelf import table

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

TABLE = "torch/releases.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A published CUDA build of torch."""

    torch: str
    """Without local version: 2.13.0."""
    cuda: str
    """major.minor"""

    @property
    def name(self) -> str:
        """Name of its index and local version: cu130."""
        return _name(self.cuda)

    @property
    def version(self) -> str:
        """Version on its own index: 2.13.0+cu130."""
        return f"{self.torch}+{self.name}"


class NoBuild(Exception):
    """No published build of torch is known for this node; the message is the reason, for people."""


def index_of(build: str) -> str:
    """The index on which torch's authors publish this build (`cu130`) and matching packages."""
    return str(_table()["index"].format(build=build))


def partner_for(package: str, torch: str, python: str | None = None) -> str | None:
    """The release of the package made for this torch; None when the table has none, or none for this Python."""
    base = _base(torch)
    name = canonical_name(package)
    rows = next((one["for"] for one in _table()["partner"] if one["package"] == name), ())
    if base is None:
        return None
    fits = (row for row in rows if python is None or Version(python) < Version(row.get("python_below", "4")))
    return next((str(row["release"]) for row in fits if accepts(row["torch"], str(base))), None)


def is_before_table(package: str, torch: str) -> bool:
    """True for a torch older than every one that the table has a release of the package for: nothing is known of it."""
    base, name = _base(torch), canonical_name(package)
    rows = next((one["for"] for one in _table()["partner"] if one["package"] == name), ())
    oldest = min((Version(row["torch"].lstrip("=>")) for row in rows), default=None)
    return base is not None and oldest is not None and base < oldest


def torch_of_partner(package: str, release: str) -> str | None:
    """What torch that release of a partner is made for, as a specifier; None when the table has no such release."""
    name = canonical_name(package)
    rows = next((one["for"] for one in _table()["partner"] if one["package"] == name), ())
    return next((str(row["torch"]) for row in rows if row["release"] == release.partition("+")[0]), None)


#: Builds of torch's own index that are for no CUDA; AMD's own index has longer numbers, and none of these names.
_NOT_CUDA = re.compile(r"cpu|rocm\d\.\d|xpu")


def backend_for(package: str, *, installed: str | None, cuda: str | None, release: str | None = None) -> str | None:
    """The build of torch's own index (cu130) from which the package must come; None when any registry will do.

    `installed` is torch's version as its metadata spells it: with a local part it came from such an index itself, and
    the builds of one index go together. `cuda` is the CUDA release it was built for: a registry has one build of each
    release, which may be for another CUDA major. A build for CPUs, ROCm or XPU needs its partners' builds for the same:
    the registry's are for CUDA on Linux. Older releases may lie in the registry alone.
    """
    name = canonical_name(package)
    partner = next((one for one in _table()["partner"] if one["package"] == name), None)
    local = (installed or "").partition("+")[2]
    if partner is not None and _NOT_CUDA.fullmatch(local) and partner.get("cpu_builds"):
        return local
    if partner is None or cuda is None:
        return None
    if release is not None and "index_from" in partner and Version(release) < Version(partner["index_from"]):
        return None
    if local.startswith("cu"):
        return local
    majors = partner.get("registry_cuda_majors")
    return "cu" + cuda.replace(".", "") if majors and int(cuda.partition(".")[0]) not in majors else None


def build_for(
    *,
    torch: str | None,
    driver: str | None,
    gpus: Iterable[str],
    machine: str = "x86_64",
    cuda_major: int | None = None,
    driver_cuda: str | None = None,
    among: SpecifierSet | None = None,
) -> Build:
    """The published CUDA build that a node with these GPUs can run, of this torch's release if it has one.

    `driver` is the NVIDIA driver's version, None when there is none to check (for a GPU named with --gpu). Among the
    builds of a release the newest CUDA that the driver supports is used, preferring `cuda_major`, and of the driver's
    major one that is no later than `driver_cuda`. If the release has no such build, the nearest later release that has
    one is taken (the last patch of its minor), then the nearest earlier one: the packages around torch were made for
    its neighbours. Without a release the newest is taken. `among`: only these releases. Raises NoBuild.
    """
    wanted = tuple(dict.fromkeys(gpus))
    if not wanted:
        raise NoBuild("no GPU is known here")
    base = _base(torch) if torch else None
    for release in _nearest_first(base):
        if among is not None and not among.contains(release):
            continue
        cudas = sorted(_cudas(release, machine), key=Version, reverse=True)
        for cuda in sorted(cudas, key=lambda one: (Version(one).major != cuda_major, is_later_minor(one, driver_cuda))):
            build = Build(torch=release, cuda=cuda)
            try:
                if against(build, driver=driver, gpus=wanted, machine=machine) is None:
                    return build
            except InvalidVersion:
                raise NoBuild(f"the driver's version {driver!r} cannot be compared") from None
    raise NoBuild(
        f"no published build of torch is known for compute capability {', '.join(wanted)}"
        + (f" and driver {driver}" if driver else "")
        + f" on {machine}"
    )


def against(build: Build, *, driver: str | None, gpus: Iterable[str], machine: str) -> str | None:
    """Why a node cannot run this build; None when it can. This one rule decides for `check`, `fix` and `plan`.

    "gpu": it holds no code for one of these compute capabilities; "driver": the driver is older than its CUDA needs.
    Raises InvalidVersion for a driver's version that cannot be compared.
    """
    code = _cudas(build.torch, machine).get(build.cuda, [])
    if not all(runs(gpu, code) for gpu in gpus):
        return "gpu"
    if driver is None:
        return None
    oldest = oldest_for_cuda(Version(build.cuda).major)
    return "driver" if oldest is None or is_older(driver, oldest) else None


def _nearest_first(base: Version | None) -> list[str]:
    """All releases: this one, later ones by minor (its last patch first), then earlier ones from the newest on."""
    newest_first = sorted(releases(), key=Version, reverse=True)
    if base is None:
        return newest_first
    later = [one for one in newest_first if Version(one) > base]
    return [
        *(one for one in newest_first if Version(one) == base),
        *sorted(later, key=lambda one: Version(one).release[:2]),  # stable: within a minor the newest stays first
        *(one for one in newest_first if Version(one) < base),
    ]


def index_needed(
    release: str,
    *,
    installed: str | None,
    driver: str | None,
    gpus: Iterable[str],
    machine: str = "x86_64",
    cuda_major: int | None = None,
) -> str | None:
    """The build of torch's own index (cu126) that this release has to come from; empty where any registry's will do.

    `installed` is the build that the metadata of the installed torch names: it is kept where it serves, so that what
    came with it still fits; then the registry's. `gpus` may be none, then the CUDA alone decides. None where no
    published build serves them.
    """
    if release not in releases():
        return installed or ""
    if installed == "cpu" and not tuple(gpus):
        return installed
    row = next(one for one in _table()["release"] if release in one["versions"])
    registry = row.get("registry") if machine == "x86_64" else None
    published = sorted(_cudas(release, machine), key=Version, reverse=True)
    wanted = tuple(gpus)
    fitting = [
        one
        for one in published
        if against(Build(torch=release, cuda=one), driver=driver, gpus=wanted, machine=machine) is None
    ]
    fitting = [one for one in fitting if Version(one).major == cuda_major] or fitting
    kept = next((one for one in fitting if _name(one) == installed), None)
    if kept is not None:
        return _name(kept)
    if not fitting:
        return None
    return "" if registry in fitting else _name(fitting[0])


def index_on_windows(specifier: str, *, installed: str | None, gpus: Iterable[str]) -> str | None:
    """The build of torch's own index (cu126) that a request has to name on Windows, for which registries hold torch for
    CPUs alone: of the newest release that the specifier takes. `installed` is kept where that release has it. None
    where no published build serves these GPUs.
    """
    release = next((one for one in _nearest_first(None) if not specifier or accepts(specifier, one)), None)
    if release is None:
        return None
    code, wanted = _cudas(release, "x86_64"), tuple(gpus)
    serving = [one for one in sorted(code, key=Version) if all(runs(gpu, code[one]) for gpu in wanted)]
    if installed and installed in [_name(one) for one in serving]:
        return installed
    of_12 = [one for one in serving if Version(one).major == 12]
    # The newest 12, else the oldest 13: most drivers run these.
    return _name(of_12[-1] if of_12 else serving[0]) if serving else None


def _name(cuda: str) -> str:
    return "cu" + cuda.replace(".", "")


def flash_attn_3_build(cuda: str) -> str | None:
    """The build of torch's own index that has flash-attn-3's wheels for this CUDA release of torch."""
    found: str | None = _table()["flash_attn_3"].get(cuda.partition(".")[0])
    return found


def triton_series(torch: str) -> str | None:
    """Triton's series (3.4) that goes with a release of torch; None when the table does not say."""
    found: str | None = _table()["triton"].get(".".join(torch.split(".")[:2]))
    return found


def releases_by_torch(package: str) -> tuple[tuple[str, str], ...]:
    """Which torch (2.9.1, or 2.14.0+ for all from there on) takes which release of a partner, or which series of
    triton, newest first: the last torch of each minor release from 2.0 on. Empty for a package that the table lacks.
    """
    name = canonical_name(package)
    rows = next((one["for"] for one in _table()["partner"] if one["package"] == name), ())
    told = [(str(row["torch"]).lstrip("=>") + "+" * (row["torch"][0] == ">"), str(row["release"])) for row in rows]
    if name in ("triton", "triton-windows"):
        told = list(_table()["triton"].items())
    newest_first = sorted(told, key=lambda pair: Version(pair[0].rstrip("+")), reverse=True)
    last = {Version(torch.rstrip("+")).release[:2]: (torch, release) for torch, release in reversed(newest_first)}
    return tuple(last[minor] for minor in sorted(last, reverse=True) if minor >= (2, 0))


def partners() -> frozenset[str]:
    """Packages in the table with releases that are each made for one torch."""
    return frozenset(one["package"] for one in _table()["partner"])


def releases() -> frozenset[str]:
    """The releases of torch in the table."""
    return frozenset(one for row in _table()["release"] for one in row["versions"])


def newest_known() -> str:
    """The newest release of torch in the table."""
    return max(releases(), key=Version)


def builds(release: str, machine: str = "x86_64") -> tuple[Build, ...]:
    """The CUDA builds published of this release: the registry's first, then those of torch's own indexes, newest first.

    Empty for a release that the table lacks.
    """
    if release not in releases():
        return ()
    registry = registry_cuda(release) if machine == "x86_64" else None
    newest_first = sorted(_cudas(release, machine), key=Version, reverse=True)
    return tuple(Build(torch=release, cuda=cuda) for cuda in sorted(newest_first, key=lambda one: one != registry))


def registry_cuda(release: str) -> str | None:
    """The CUDA of the build for x86_64 that package registries hold; None for a release that the table lacks."""
    row: dict[str, Any] = next((one for one in _table()["release"] if release in one["versions"]), {})
    found: str | None = row.get("registry")
    return found


def gpu_code(build: Build, machine: str = "x86_64") -> tuple[str, ...]:
    """The machine code in that build, as compute capabilities."""
    return tuple(_cudas(build.torch, machine).get(build.cuda, ()))


def code_of_wheel(version: str) -> tuple[str, ...]:
    """The machine code (sm_90) in the wheels of a version such as 2.7.0+cu128, of every machine; empty for one that the
    table lacks.
    """
    release, _, build = version.partition("+")
    if release not in releases():
        return ()
    row = next(one for one in _table()["release"] if release in one["versions"])
    tables = [row[machine] for machine in ("x86_64", "aarch64") if machine in row]
    found = {gpu for table in tables for cuda, gpus in table.items() if _name(cuda) == build for gpu in gpus}
    return tuple(f"sm_{gpu.replace('.', '')}" for gpu in sorted(found, key=Version))


def has_new_abi(build: Build) -> bool | None:
    """True when the build for x86_64 has the new C++ ABI; None for a release that the table lacks."""
    row = next((one for one in _table()["release"] if build.torch in one["versions"]), None)
    if row is None:
        return None
    return build.cuda in row["new_abi"] if "new_abi" in row else True


def registry_cuda_majors(package: str) -> tuple[int, ...] | None:
    """The CUDA majors of a partner's builds in package registries; None when any will do."""
    name = canonical_name(package)
    partner: dict[str, Any] = next((one for one in _table()["partner"] if one["package"] == name), {})
    return tuple(partner.get("registry_cuda_majors", ())) or None


def _cudas(release: str, machine: str) -> dict[str, list[str]]:
    row = next(one for one in _table()["release"] if release in one["versions"])
    return dict(row.get(machine, {}))


def _base(torch: str) -> Version | None:
    """The release without its local part; None for a version that is no release: containers' builds and nightlies."""
    try:
        version = Version(torch)
    except InvalidVersion:
        return None
    return None if version.is_prerelease else Version(version.base_version)


def _table() -> dict[str, Any]:
    return table(TABLE)
