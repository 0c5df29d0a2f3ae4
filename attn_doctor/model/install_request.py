"""Requests to a package installer, and the packages that the installer must not change.

Used for the commands printed for a person (fix/packages/install_commands.py) and for plans that are carried out
(fix/packages/resolve.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attn_doctor.quick_dataclasses import dataclass

#: An extension built for another torch or CUDA does not load, so these packages stay as they are unless the request
# names torch.
BOUND_TO_TORCH = ("torch", "triton", "pytorch-triton", "torchvision", "torchaudio")
#: Released together with torch, each for exactly one release of it: they change when torch changes.
COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """Packages to install in one call of the installer."""

    requirements: tuple[str, ...]
    no_deps: bool = False
    no_cache: bool = False
    reinstall: bool = False
    """The named packages are installed again even if present; their dependencies are not."""
    builds: tuple[str, ...] = ()
    """Exact releases to build from source."""
    wheels: tuple[str, ...] = ()
    """Packages for which a wheel file was named."""
    torch_backend: str = ""
    """The build in torch's own package index (cu130) to install from; `auto`: uv picks it by the node's GPU."""
    limits: tuple[str, ...] = ()
    """Releases that the resolver may not choose, as constraints: what the shelf's tables and recipes leave."""

    @property
    def names(self) -> frozenset[str]:
        """Canonical names of the requested packages."""
        return frozenset(name_of(one) for one in self.requirements)

    @property
    def moves_torch(self) -> bool:
        """True when the request names torch; every other request must leave torch as it is."""
        return "torch" in self.names

    def with_companions(self, installed: Mapping[str, str]) -> tuple[str, ...]:
        """The requirements; if torch will change, also the installed companions that must change with it.

        `installed`: canonical name -> version. If the request names the installed torch, it stays, and so do they: an
        installer adds only what is missing.
        """
        if not self.moves_torch or self._leaves_torch(installed.get("torch")):
            return self.requirements
        return self.requirements + tuple(one for one in COMPANIONS if one in installed and one not in self.names)

    def _leaves_torch(self, version: str | None) -> bool:
        if version is None or self.reinstall or self.torch_backend not in ("", version.partition("+")[2]):
            return False
        pins = [text for text in self.requirements if name_of(text) == "torch"]
        return set(pins) <= {f"torch=={version}", f"torch=={version.partition('+')[0]}"}

    def held(self, installed: Mapping[str, str]) -> tuple[str, ...]:
        """Pins for the packages that must not change: canonical name -> installed version, as its metadata spells it.

        `==2.13.0` also holds 2.13.0+cu130; `==2.13.0+cpu` holds that build alone.
        """
        if self.moves_torch:
            return ()
        return tuple(
            f"{name}=={version}"
            for name, version in installed.items()
            if is_bound_to_torch(name) and name not in self.names
        )


def is_bound_to_torch(name: str) -> bool:
    """True when this package (canonical name) fits only one release of torch, or is a CUDA library that torch
    requires.
    """
    return name in BOUND_TO_TORCH or name.startswith("nvidia-")


def name_of(requirement: str) -> str:
    """The canonical name at the start of a requirement."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
