"""The kernels that can be tried: those in each library's file, in the order of the libraries. Needs no torch."""

from __future__ import annotations

import dataclasses
from typing import Dict, Tuple

from ..libraries import LIBRARIES
from ..libraries.library import Backend, Library
from . import offers


def _filled_in(backend: Backend, library: Library) -> Backend:
    """Fills the kernel's empty fields with those of its library."""
    published = next(iter(library.distributions), None)
    contract = backend.contract
    if contract is None and library.clauses is not None:
        contract = offers.by(library.clauses)
    return dataclasses.replace(
        backend,
        contract=contract,
        distribution=backend.distribution or published,
        module=backend.module or (library.module if published else None),
    )


BACKENDS: Tuple[Backend, ...] = tuple(
    _filled_in(backend, library) for library in LIBRARIES for backend in library.backends
)

_BY_NAME: Dict[str, Backend] = {backend.name: backend for backend in BACKENDS}


def own(name: str) -> Backend:
    """A user's function, `module:function`, with the arguments of scaled_dot_product_attention."""
    module = name.partition(":")[0]
    return Backend(
        name, name, calls=OWN, contract=offers.own, module=module, compiled_as="call", takes=("expanded",), plans=True
    )


def backend(name: str) -> Backend:
    """The backend of that name. Raises KeyError."""
    return own(name) if ":" in name else _BY_NAME[name]


OWN = "own_function"
"""`calls` for a user's function: kernels/own_function.py."""

__all__ = ["BACKENDS", "OWN", "Backend", "backend", "own"]
