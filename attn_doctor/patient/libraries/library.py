"""The record of one attention library: data, and functions that import the library or torch when they are called.

The doctor's side reads the data without running the file (model/libraries.py); therefore `LIBRARY = Library(...)`
contains data as literals.
"""

from __future__ import annotations

import dataclasses
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Protocol, Tuple

from .contract import Call, Clause

if TYPE_CHECKING:
    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from ..kernels.cells import Cell, Place


class Pausing(Protocol):
    """A recorder, which sees nothing while it is paused."""

    paused: int


class Attention(Protocol):
    """The attention of the active recording, which receives the calls."""

    @property
    def recorder(self) -> Pausing: ...

    @property
    def conditions(self) -> Conditions: ...


class Conditions(Protocol):
    """The GPU for which calls are judged."""

    @property
    def capability(self) -> Tuple[int, int]: ...


class Meet(Protocol):
    """Judges a call of the function `name` of the module `where`, and runs it: `run()` calls the stand-in."""

    def __call__(
        self,
        name: str,
        where: str,
        given: Given,
        args: Positional,
        kwargs: Keywords,
        frame: FrameType,
        run: Callable[[], object],
    ) -> object: ...


Fill = Callable[[ModuleType], None]
"""Fills a stand-in module."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """A call whose kernel could not run, with an output of q's shape from which the return value is made."""

    name: str
    """Name of the function."""
    given: Given
    """Its arguments."""
    operands: Dict[str, Tensor]
    """Tensors by role."""
    out: Tensor
    version: str
    """Version of the library; empty when unknown."""
    module: str
    """Module of the function."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """One kernel that can be tried, or one way to call it. kernels/registry.py fills empty fields from the library."""

    name: str
    title: str
    calls: Optional[str] = None
    """Module with `prepare(problem, backend)`: in the library's folder, or the library's own file; None: preview, only
    the contract is known."""
    contract: Optional[Callable[[Cell, Place], Optional[str]]] = None
    """(cell, place) -> why it is not offered, or None. Default: the library's clauses."""
    distribution: Optional[str] = None
    """Distribution whose metadata has the version. Default: the library's first; None: part of torch."""
    module: Optional[str] = None
    """Module that must be importable. Default: the library's."""
    alone: bool = True
    """No other distribution installs a module of that name. False: the distribution is required as well."""
    apart_from: str = ""
    """Another backend whose operators have the same names: torch lets only one library per process register them."""
    linear: bool = False
    """Has no softmax: the module of `calls` has its own problems and reference, `make_problem` and `reference`."""
    compiled: bool = False
    """Compiled at the first call, which takes seconds per cell, so that few cells are run."""
    compiled_as: Optional[str] = None
    """How its Triton kernels are found without a GPU: "sample", "inductor", "call"; None: it has none."""
    variants: Tuple[str, ...] = ("",)
    """Tuning choices to which it is fixed in turn; it is right only if each of them is."""
    promises: Tuple[str, ...] = ()
    """Directions in which equal inputs are documented to give equal bits."""
    chooses: bool = False
    """It chooses among several kernels: the module of `calls` has `chosen(problem)`, which returns the choice."""
    sample: str = ""
    """The sample, without its dtype, whose launches are compiled when there is no GPU."""
    more_dtypes: Tuple[str, ...] = ()
    """Dtypes that it supports in addition to the default ones."""
    takes: Tuple[str, ...] = ()
    """Situations in which it is tried although only backends that name them are (kernels/situations.py, `asked`)."""
    plans: bool = False
    """It spends a fraction of a second of the processor's time on each new shape: tried in processes of its own, beside
    the others."""
    whole: bool = False
    """A model that uses the library runs this kernel and no other of it."""


@dataclasses.dataclass(frozen=True)
class Sampled:
    """A forward and backward pass through one function or layer, run in each half precision."""

    name: str
    """Without dtype and without dots: the subject of facts."""
    words: str
    """Description for people, without dtype."""
    factory: str
    """module:function; the module is in the library's folder, or is its own file."""
    arguments: Dict[str, str] = dataclasses.field(default_factory=dict)
    autocast: bool = False
    """The half precision is autocast's; otherwise it is the argument `dtype`."""
    group: str = ""
    """On a real GPU each group has a child of its own, because compiling its kernels takes long."""


@dataclasses.dataclass(frozen=True)
class Library:
    """One attention library."""

    name: str
    order: int
    """Position in lists: lower first."""
    module: str
    """Import name."""
    distributions: Tuple[str, ...] = ()
    """Names of its distributions, the usual one first; empty: part of torch."""
    also_called: Tuple[str, ...] = ()
    """Distribution names used only by builds from source; their versions are read after the others."""
    imports: str = ""
    """Module imported as a test, when the top-level module is not enough."""
    extensions: Tuple[str, ...] = ()
    """Compiled modules outside its folder."""
    kernels_in: Tuple[str, ...] = ()
    """Compiled modules whose absence is recorded in a fingerprint."""
    apart: Tuple[str, ...] = ()
    """Packages whose versions are judged by recipes, which contain more than the requirements in its metadata."""
    attn_implementation: str = ""
    """Its name in transformers' attn_implementation."""
    model_types: Tuple[str, ...] = ()
    """Architectures, as transformers calls them, whose layers are its own, or are computed by it where it is there."""
    errors: str = ""
    """Pattern of error messages about it; when several libraries match, the longest match decides."""
    in_logs: Tuple[str, ...] = ()
    """Patterns of its name as logs spell it before a version."""
    in_messages: Tuple[str, ...] = ()
    """Patterns of its name as sentences of messages spell it; where several packages match at one place, the longest
    match decides."""
    operators: Tuple[str, ...] = ()
    """Patterns of its operators' names, which name it where a message names no package."""
    parts: Tuple[str, ...] = ()
    """Compiled modules inside its folder whose names are its alone."""
    checkouts: Tuple[str, ...] = ()
    """Folders into which its source is cloned, as frames in logs show them."""
    sources: Tuple[str, ...] = ()
    """Other folders with the setup.py from which it is built."""
    symbols: Tuple[Tuple[str, str], ...] = ()
    """Pattern of plain C symbols, and the shared library that exports them."""
    functions: Tuple[Tuple[str, str], ...] = ()
    """Pattern of its modules, and of their functions that take q, k and v."""
    methods: Tuple[Tuple[str, str, str], ...] = ()
    """Pattern of its modules, a class in them, and its method that takes q, k and v."""
    loops: str = ""
    """Pattern of functions of other packages that compute its kernels in torch where it is missing; `what` is the
    kernel."""
    clauses: Optional[Callable[[Call], List[Clause]]] = None
    """Its contract; None when it checks nothing."""
    answer: Optional[Callable[[Answered], object]] = None
    """The return value of its functions when the kernel cannot run; None: an output like q."""
    modules: Optional[Callable[[Attention, Meet, str], Dict[str, Fill]]] = None
    """(attention, meet, version) -> stand-in modules; None: there is no stand-in."""
    words: str = ""
    """Text that reports the stand-in; `{}` is the version."""
    newest: str = ""
    """The version of the stand-in when none is installed; empty: no stand-in then."""
    refusals: Tuple[str, ...] = ()
    """Messages with which its kernels report an unsupported call, for limits that only a call reveals."""
    backends: Tuple[Backend, ...] = ()
    """Its kernels that can be tried."""
    samples: Tuple[Sampled, ...] = ()

    @property
    def top_level(self) -> str:
        """The top-level module that its distribution installs."""
        return self.module.partition(".")[0]

    @property
    def key(self) -> str:
        """The usual distribution as a Python name: identifies the stand-in in a request."""
        return self.distributions[0].replace("-", "_") if self.distributions else self.name
