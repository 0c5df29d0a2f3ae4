"""What is known of one attention library, as data and as functions that import it or torch when they are called.

The doctor's side reads the data of a record without running its file (model/libraries.py): what is data is therefore
written out in `LIBRARY = Library(...)` as literals.
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
    """The attention of the recording now running: who is told of calls."""

    @property
    def recorder(self) -> Pausing: ...

    @property
    def conditions(self) -> Conditions: ...


class Conditions(Protocol):
    """Under which GPU the calls are judged."""

    @property
    def capability(self) -> Tuple[int, int]: ...


class Meet(Protocol):
    """Judges a call of the function `name` of the module `where`, and runs it: `run()` is what stands in for it."""

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
"""Puts into a module what stands in for a library."""


@dataclasses.dataclass(frozen=True)
class Answered:
    """A call whose kernel could not run, and an output of the shape of q to make its answer of."""

    name: str
    """The function's."""
    given: Given
    """Its arguments."""
    operands: Dict[str, Tensor]
    """Tensors by role."""
    out: Tensor
    version: str
    """Of the library; empty where it is not known."""
    module: str
    """Where the function is from."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """One kernel that can be tried, or one way to one. kernels/registry.py fills in what is the library's."""

    name: str
    title: str
    calls: Optional[str] = None
    """Module beside the library's, or its own, with `prepare(problem, backend)`; None: preview, its contract alone is
    known."""
    contract: Optional[Callable[[Cell, Place], Optional[str]]] = None
    """(cell, place) -> why it is not offered, or None; by itself what the library's clauses say."""
    distribution: Optional[str] = None
    """Whose metadata tells the version; the library's first by itself; None: torch's own."""
    module: Optional[str] = None
    """What must be there to import; the library's module by itself."""
    alone: bool = True
    """No other distribution brings a module of that name; False: the distribution must be there as well."""
    apart_from: str = ""
    """Another backend whose operators have the same names: torch lets one library of a process register them."""
    linear: bool = False
    """No softmax: the module of `calls` has its problems and a reference, `make_problem` and `reference`."""
    compiled: bool = False
    """Compiled when it is first called: seconds a cell, so that few are run."""
    compiled_as: Optional[str] = None
    """How its Triton kernels come to be known without a GPU: "sample", "inductor", "call"; None: it has none."""
    variants: Tuple[str, ...] = ("",)
    """Choices of its own tuning that it is held to, one after the other; each is right or the kernel is not."""
    promises: Tuple[str, ...] = ()
    """Directions in which the same inputs are promised to give the same bits."""
    chooses: bool = False
    """It has several kernels and picks one: the module of `calls` has `chosen(problem)` that names it."""
    sample: str = ""
    """The sample, without its dtype, whose launches are compiled where there is no GPU."""
    more_dtypes: Tuple[str, ...] = ()
    """Offered besides those that everything is asked for."""
    whole: bool = False
    """A model that is told to use the library meets this kernel, and no other of it."""


@dataclasses.dataclass(frozen=True)
class Sampled:
    """A forward and backward pass through one function or layer, run in each half precision."""

    name: str
    """Without its dtype and without dots: the subject of facts."""
    words: str
    """What it is, for a person, without its dtype."""
    factory: str
    """module:function; the module lies beside the library's, or is its own."""
    arguments: Dict[str, str] = dataclasses.field(default_factory=dict)
    autocast: bool = False
    """The half precision is autocast's; otherwise it is the argument `dtype`."""
    group: str = ""
    """On a real GPU each group has a child of its own: compiling its kernels takes long."""


@dataclasses.dataclass(frozen=True)
class Library:
    """One library."""

    name: str
    order: int
    """Its place in lists: lower first."""
    module: str
    """What it is imported as."""
    distributions: Tuple[str, ...] = ()
    """Names it is published under, the usual one first; none: it is torch's own."""
    also_called: Tuple[str, ...] = ()
    """Distributions that nothing but builds from source bear: asked for the version after the others."""
    imports: str = ""
    """What is imported to see that it works, where the module alone does not tell."""
    extensions: Tuple[str, ...] = ()
    """Compiled modules that lie outside its folder."""
    kernels_in: Tuple[str, ...] = ()
    """Compiled modules whose absence is worth a word in a fingerprint."""
    apart: Tuple[str, ...] = ()
    """Packages whose version beside it recipes judge, who know more than its metadata asks for."""
    attn_implementation: str = ""
    """What transformers calls it."""
    errors: str = ""
    """Pattern of what an error says that is about it; of several libraries' the longest match decides."""
    in_logs: Tuple[str, ...] = ()
    """Patterns of its name as logs spell it before a version."""
    checkouts: Tuple[str, ...] = ()
    """Folders that its source is cloned into, which frames in logs show."""
    symbols: Tuple[Tuple[str, str], ...] = ()
    """Pattern of plain C symbols, and the shared library of it that has them."""
    functions: Tuple[Tuple[str, str], ...] = ()
    """Pattern of its modules, and of their functions that take q, k and v."""
    methods: Tuple[Tuple[str, str, str], ...] = ()
    """Pattern of its modules, a class of theirs, and its method that takes them."""
    clauses: Optional[Callable[[Call], List[Clause]]] = None
    """Its contract; None where it states none."""
    answer: Optional[Callable[[Answered], object]] = None
    """What its functions give back where the kernel cannot run; None: an output like q."""
    modules: Optional[Callable[[Attention, Meet, str], Dict[str, Fill]]] = None
    """(attention, meet, version) -> the modules that stand in for it; None: nothing does."""
    words: str = ""
    """How it is told that something stood in; `{}` is for the version."""
    newest: str = ""
    """The version that stands in where none is installed; empty: nothing stands in."""
    refusals: Tuple[str, ...] = ()
    """With which its kernels say when they are called that they do not offer this, which nothing but a call tells."""
    backends: Tuple[Backend, ...] = ()
    """Its kernels that can be tried."""
    samples: Tuple[Sampled, ...] = ()

    @property
    def top_level(self) -> str:
        """The name that its distribution brings."""
        return self.module.partition(".")[0]

    @property
    def key(self) -> str:
        """The usual distribution as a Python name: how a request names what is to stand in."""
        return self.distributions[0].replace("-", "_") if self.distributions else self.name
