"""Records the Triton kernels that a user's function launches, without a GPU: calls it on CPU tensors under CUDA's
rules.

Each call of the plan is made once, forward and backward, with its launches recorded instead of made
(../simulate/triton/record.py), so results computed from kernel outputs are meaningless. A call that raises, or needs a
real GPU, is reported as not examined. Nothing is compiled here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Sequence

import torch

from ..torch_facts import telling_line
from ..trace.meet.attention import Conditions
from ..trace.rules import capability_of
from ..trace.run import run as tracer
from ..trace.run.session import Recording, Session
from . import offers, own_function, problems
from .cells import Cell
from .registry import backend

if TYPE_CHECKING:
    from ..simulate.cuda.simulated_gpu import Described
    from ..simulate.triton.record import Launch

_LONGEST = 300
_SET_ASIDE = "torch.compile was set aside"
_at_import: List[str] = []
"""The error of importing a function's module, kept so that another function does not import it again."""


@dataclasses.dataclass
class Seen:
    """The launches of the calls."""

    launches: List[Launch] = dataclasses.field(default_factory=list)
    """In the form that triton_compile takes."""
    calls: List[str] = dataclasses.field(default_factory=list)
    """For each launch, the first call that made it."""
    error: Optional[str] = None
    """Why some calls did not run to their end."""
    nothing: Optional[str] = None
    """Set when every call ran and none launched a kernel: a message."""


def record(cells: Sequence[Cell], gpu: Described, scratch: str, deadline: float, at: Callable[[Cell], None]) -> Seen:
    """Calls the function once for each cell, until `deadline` (time.monotonic()). `at` is called before each one."""
    rules = tracer.pick_rules({"rules": "cpu", "gpu": gpu, "scratch": scratch})
    conditions = Conditions(capability=capability_of(rules.gpu), backward=True, stand_ins=("none but those installed",))
    seen = Seen()
    raised: Dict[str, List[Cell]] = {}
    made = 0
    with Session(rules, conditions) as session:
        kernels = session.kernels
        assert kernels is not None  # without a GPU they are recorded
        for cell in cells:
            if time.monotonic() > deadline:
                break
            at(cell)
            before = len(kernels.launches)
            error = _called(cell, session, first=cell is cells[0])
            made += 1
            if error is not None and not any(words in str(error) for words in offers.OWN_WORDS):
                raised.setdefault(telling_line(error)[:_LONGEST], []).append(cell)
            seen.calls += [cell.words] * (len(kernels.launches) - before)
        seen.launches = list(kernels.launches)
        set_aside = _set_aside(session) or _at_import
    gaps = [
        "{} of {} calls raised, and what they launch after that was not seen: {} ({})".format(
            len(which), len(cells), words, which[0].words
        )
        for words, which in raised.items()
    ]
    if made < len(cells):
        gaps.append("{} of {} calls were not reached in time".format(len(cells) - made, len(cells)))
    if set_aside:
        gaps.append("it uses torch.compile, and what that would make was not seen")
    seen.error = "; ".join(gaps) or None
    if not seen.launches and not gaps:
        seen.nothing = "it launched no Triton kernel in any of {} calls".format(made)
    return seen


def _set_aside(session: Session) -> List[str]:
    return [note for note in session.rules.notes if note.startswith(_SET_ASIDE)]


def _called(cell: Cell, session: Session, first: bool) -> Optional[BaseException]:
    """The exception that the call raised, or None."""
    trains = cell.direction == "train"
    try:
        with session.preparing(), tracer.building(session):
            problem = problems.make_problem(cell, "cuda", 1, problems.SMALL)
            compute = own_function.prepare(problem, backend(cell.backend))
        if first:
            _at_import.extend(_set_aside(session))
    except (Exception, SystemExit) as error:
        return error
    recording: Recording
    with session.recorded() as recording, contextlib.nullcontext() if trains else torch.no_grad():
        out = compute()
        if trains:
            out.backward(problem.out_gradient)
    return recording.error
