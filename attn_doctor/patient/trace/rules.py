"""The device rules of a trace: a real GPU's, or CUDA's autocast on CPU tensors, real or fake."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import tempfile
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional, Tuple

import torch

from ..simulate.cuda import simulated_gpu, stage
from . import redirect
from .hollow import Hollow

if TYPE_CHECKING:
    from ..simulate.cuda.simulated_gpu import Described
    from . import answer
    from .hollow.mode import _Hollow

GPU, ON_CPU, ON_FAKE = "gpu", "cuda rules on cpu tensors", "cuda rules on fake tensors"

ASSUMED_GPU: Described = {**stage.ASSUMED, "assumed": True, "named": False}


def capability_of(gpu: Described) -> Tuple[int, int]:
    """(major, minor) of the GPU in a request. Raises ValueError."""
    return simulated_gpu.capability(gpu.get("compute_capability") or ASSUMED_GPU["compute_capability"])


class Rules:
    """The rules that apply, and in words what they cannot show."""

    def __init__(self, name: str, gpu: Optional[Described] = None, scratch: Optional[str] = None) -> None:
        self.name = name
        self.gpu: Described = {**(gpu or ASSUMED_GPU)}
        self.autocast_source: Optional[str] = None
        self.notes: List[str] = []
        self.stood_in: Callable[[], List[str]] = list
        """Function that returns, in words, the libraries that were replaced by stand-ins because they cannot be
        used.
        """
        self.redirect: Optional[redirect.Redirect] = None
        self.virtual: Optional[simulated_gpu.Gpu] = None
        """The GPU whose rules apply: the simulated one, or the real one as far as it is known."""
        self._parent = scratch
        """An existing folder for Triton's caches; None: the system's."""
        self.hollow: Optional[_Hollow] = None
        """The mode that creates tensors without values, after it was entered."""

    @property
    def simulated(self) -> bool:
        return self.name != GPU

    @property
    def device(self) -> str:
        return "cuda"

    def as_json(self) -> answer.Rules:
        words = {
            GPU: "ran on a real GPU, with its real kernels",
            ON_CPU: "no GPU: CUDA's autocast rules on real CPU tensors",
            ON_FAKE: "no GPU: CUDA's autocast rules on tensors with dtypes and shapes; only small ones have values",
        }
        notes = list(self.notes)
        if self.redirect is not None:
            notes.extend(self.redirect.notes)
        return {
            "name": self.name,
            "words": words[self.name],
            "gpu": self.gpu,
            "autocast_source": self.autocast_source,
            "torch": str(torch.__version__),
            "fake": self.name == ON_FAKE,
            "not_simulated": notes,
            "stood_in": self.stood_in(),
        }

    @contextlib.contextmanager
    def hold(self) -> Iterator[Rules]:
        """Enter before user libraries are imported: decorators such as @autocast act at import."""
        with contextlib.ExitStack() as stack:
            if self.simulated:
                from ..simulate.autocast.rules import cuda_autocast_rules
                from ..simulate.cuda.torch_cuda import virtual_cuda

                self.virtual = simulated_gpu.from_request(self.gpu)
                stack.enter_context(virtual_cuda(self.virtual))
                self.redirect = stack.enter_context(redirect.Redirect())
                stack.enter_context(self._triton())
                autocast = stack.enter_context(cuda_autocast_rules())
                self.autocast_source = autocast.source
                if autocast.unlisted:
                    self.notes.append(
                        "autocast casts these ops on CUDA in a way that is not known: " + ", ".join(autocast.unlisted)
                    )
            else:
                index = torch.cuda.current_device()
                major, minor = torch.cuda.get_device_capability(index)
                self.gpu = {
                    "name": torch.cuda.get_device_name(index),
                    "compute_capability": "{}.{}".format(major, minor),
                    "index": index,
                    "assumed": False,
                    "named": False,
                }
                with contextlib.suppress(ValueError):  # a GPU newer than the table: SDPA's choice stays unknown
                    self.virtual = simulated_gpu.from_request(self.gpu)
            stack.enter_context(_eager(self))
            yield self

    @contextlib.contextmanager
    def _triton(self) -> Iterator[None]:
        """Makes the GPU Triton's active driver: libraries look for one while they are imported."""
        if importlib.util.find_spec("triton") is None:
            yield
            return
        from ..simulate.triton.driver import virtual_driver

        scratch = tempfile.mkdtemp(prefix="attn-doctor-trace-", dir=self._parent)
        try:
            with contextlib.ExitStack() as stack:
                try:
                    if self.virtual is None:
                        raise ValueError("nothing is known of GPUs of its compute capability")
                    stack.enter_context(virtual_driver(self.virtual, scratch))
                except Exception as error:
                    self.notes.append("Triton could not be given a GPU: {}: {}".format(type(error).__name__, error))
                yield
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def fake_mode(self) -> Iterator[None]:
        """Hollow tensors if these rules use them, else a context that does nothing."""
        if self.name != ON_FAKE:
            yield
            return
        # One mode for the whole session: it must recognize its tensors.
        if self.hollow is None:
            self.hollow = Hollow()
        with self.hollow:
            yield


@contextlib.contextmanager
def _eager(rules: Rules) -> Iterator[None]:
    """torch.compile hides the operations that it fuses, and takes minutes: compiled functions run as written."""
    original = getattr(torch, "compile", None)
    if original is None:
        yield
        return

    def compile(model: object = None, **kwargs: object) -> object:  # noqa: A001 - it stands for torch.compile
        note = "torch.compile was set aside: the code ran as written"
        if note not in rules.notes:
            rules.notes.append(note)
        return (lambda function: function) if model is None else model

    torch.compile = compile
    try:
        yield
    finally:
        torch.compile = original
