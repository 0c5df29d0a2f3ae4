"""What a remedy asks of an installer, and what it must leave as it is: one truth for commands that are printed for a
person (fix/packages/install_commands.py) and for plans that are carried out (fix/packages/run_installer.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: An extension bound to another torch or CUDA does not load: these stay unless a request names torch.
BOUND_TO_TORCH = ("torch", "triton", "pytorch-triton", "torchvision", "torchaudio")
#: Released together with torch, each bound to one: they follow it.
COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRequest:
    """Packages to be installed, by one call of the installer."""

    requirements: tuple[str, ...]
    no_deps: bool = False
    no_cache: bool = False
    reinstall: bool = False
    """What is named is installed anew where it is there already; what it needs is not."""
    builds: tuple[str, ...] = ()
    """Exact releases to be built from source."""
    wheels: tuple[str, ...] = ()
    """Packages whose wheel a person named."""
    torch_backend: str = ""
    """The build of torch's own index (cu130) that the request is for; `auto`: uv picks it by the node."""

    @property
    def names(self) -> frozenset[str]:
        """The packages that are named, canonically."""
        return frozenset(name_of(one) for one in self.requirements)

    @property
    def moves_torch(self) -> bool:
        """Whether it says so; anything else has to leave torch as it is."""
        return "torch" in self.names

    def with_companions(self, installed: Iterable[str]) -> tuple[str, ...]:
        """The requirements, and where torch is among them the installed packages that have to follow it."""
        if not self.moves_torch:
            return self.requirements
        here = set(installed)
        return self.requirements + tuple(one for one in COMPANIONS if one in here and one not in self.names)

    def held(self, installed: Mapping[str, str]) -> tuple[str, ...]:
        """Pins of what must stay: installed versions by canonical name, as their metadata spells them.

        `==2.13.0` holds 2.13.0+cu130 as well, `==2.13.0+cpu` that build alone.
        """
        if self.moves_torch:
            return ()
        return tuple(
            f"{name}=={version}"
            for name, version in installed.items()
            if is_bound_to_torch(name) and name not in self.names
        )


def is_bound_to_torch(name: str) -> bool:
    """Whether this package (canonical name) goes with one torch alone, or is a CUDA library that torch brings."""
    return name in BOUND_TO_TORCH or name.startswith("nvidia-")


def name_of(requirement: str) -> str:
    """The canonical name at the beginning of a requirement."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
