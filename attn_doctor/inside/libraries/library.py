"""What is known of one attention library, as data and as functions that import it or torch when they are called."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple

from .contract import Call, Clause


@dataclasses.dataclass(frozen=True)
class Answered:
    """A call whose kernel could not run, and an output of the shape of q to make its answer of."""

    name: str
    """The function's."""
    given: Dict[str, Any]
    """Its arguments."""
    operands: Dict[str, Any]
    """Tensors by role."""
    out: Any
    version: str
    """Of the library; empty where it is not known."""
    module: str
    """Where the function is from."""


@dataclasses.dataclass(frozen=True)
class Library:
    """One library."""

    name: str
    distributions: Tuple[str, ...]
    """Names it was published under, the usual one first."""
    functions: Tuple[Tuple[str, str], ...] = ()
    """Pattern of its modules, and of their functions that take q, k and v."""
    methods: Tuple[Tuple[str, str, str], ...] = ()
    """Pattern of its modules, a class of theirs, and its method that takes them."""
    clauses: Optional[Callable[[Call], List[Clause]]] = None
    """Its contract; None where it states none."""
    answer: Optional[Callable[[Answered], Any]] = None
    """What its functions give back where the kernel cannot run; None: an output like q."""
    modules: Optional[Callable[[Any, Any, str], Dict[str, Callable[[Any], None]]]] = None
    """(attention, meet, version) -> the modules that stand in for it; None: nothing does."""
    words: str = ""
    """How it is told that something stood in; `{}` is for the version."""
    newest: str = ""
    """The version that stands in where none is installed."""
    top_level: str = ""
    """The module that its distribution brings."""
