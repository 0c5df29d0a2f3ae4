"""Runs a library's samples under the dtype tracer, in a forked child that imports the library once.

Each sample is reported before its start and after its end, so that one which kills the process loses only its own
result: the parent starts another child for the rest. An alarm ends a sample that hangs.

Elsewhere: the list of samples (catalogue.py), their results (verdicts.py), Triton's canary.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Iterator, List, Optional

import torch

from .. import outcomes
from ..torch_facts import last_line  # noqa: TID252 - in the patient this package bears another name
from . import verdicts
from .catalogue import Sample

if TYPE_CHECKING:
    from ..arguments import Keywords, Positional
    from ..forked import Tell
    from ..simulate.cuda.simulated_gpu import Described
    from ..torch_facts import Device
    from ..trace.answer import Request
    from .verdicts import SampleEntry


def run(
    library: str,
    samples: List[Sample],
    device: Optional[Device],
    simulated_gpu: Optional[Described],
    timeout: float,
    scratch: str,
    tell: Tell,
) -> None:
    """Runs in a forked child. `device` (from torch_facts) is the GPU to run on; None: CUDA's rules without a GPU.

    Sends {"started": name} and {"sample": entry} for each, and {"stopped": reason} when the rest was skipped; `timeout`
    seconds for each, including the import.
    """
    prepare(scratch)
    # An alarm's default action needs no Python: it also ends a hang inside a kernel or a lock.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.register(signal.SIGALRM, file=2, all_threads=False, chain=True)
    if device is not None:
        torch.cuda.set_device(device["index"])
    with _first_configuration() if device is not None else contextlib.nullcontext():
        for sample in samples:
            tell({"started": sample.name})
            signal.setitimer(signal.ITIMER_REAL, timeout)
            entry = _one(sample, device, simulated_gpu)
            lost = device is not None and _lost(entry)
            signal.setitimer(signal.ITIMER_REAL, 0)
            tell({"sample": entry})
            if lost:
                os._exit(
                    72
                )  # after an error on the GPU, everything else in this process would fail with the same error
            if entry["outcome"] == outcomes.UNASKED and library not in sys.modules:
                # It cannot be imported: trying again for each sample takes seconds and shows nothing new.
                tell({"stopped": entry["error"]})
                return


def _one(sample: Sample, device: Optional[Device], simulated_gpu: Optional[Described]) -> SampleEntry:
    from ..trace.run import run as tracer  # noqa: TID252

    request: Request = {
        "kind": "factory",
        "target": sample.target,
        "kwargs": sample.arguments,
        "autocast": sample.autocast,
        "backward": sample.backward,
        "rules": "cpu" if device is None else "gpu",
        "gpu": simulated_gpu,
        # A library that is not installed must not appear installed: other libraries would take another code path.
        "stand_ins": ["none but those installed"],
    }
    try:
        answer = tracer.trace(request)
    except Exception as error:  # a bug of the tracer, or a GPU that it does not support
        return verdicts.blank(sample, outcomes.UNASKED, "{}: {}".format(type(error).__name__, error))
    where = "cpu" if device is None else "cuda:{}".format(device["index"])
    return verdicts.entry(sample, answer, device is None, where)


def _lost(entry: SampleEntry) -> bool:
    """Waits for the GPU, because a kernel's error belongs to the sample that launched it."""
    try:
        torch.cuda.synchronize()
    except Exception as error:
        if entry["outcome"] == outcomes.RAN:
            entry["outcome"], entry["error"] = "raised", last_line(error)
        return True
    return False


def prepare(scratch: str) -> None:
    """Disables downloads, and all writes outside `scratch`."""
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": os.path.join(scratch, "huggingface"),
        "TRITON_HOME": scratch,
        "TRITON_CACHE_DIR": os.path.join(scratch, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(scratch, "inductor"),
        "TORCH_EXTENSIONS_DIR": os.path.join(scratch, "extensions"),
        "TOKENIZERS_PARALLELISM": "false",
    }.items():
        os.environ[name] = value
    torch.set_num_threads(1)


@contextlib.contextmanager
def _first_configuration() -> Iterator[None]:
    """Makes autotuned kernels use the first configuration that compiles: trying all takes minutes with a cold cache."""
    try:
        from triton.runtime import autotuner
    except Exception:
        yield
        return
    tuner = autotuner.Autotuner
    original = tuner.run

    def run_first(self: Any, *args: object, **kwargs: object) -> object:
        configurations = self.configs
        trouble: Optional[Exception] = None
        try:
            for configuration in _pruned(self, args, kwargs):
                self.configs = [configuration]
                try:
                    return original(self, *args, **kwargs)
                except Exception as error:  # does not fit this GPU: the tuner would have skipped it as well
                    if type(error).__name__ not in ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError"):
                        raise
                    trouble = error
        finally:
            self.configs = configurations
        assert trouble is not None
        raise trouble

    tuner.run = run_first
    try:
        yield
    finally:
        tuner.run = original


def _pruned(tuner: Any, args: Positional, kwargs: Keywords) -> List[object]:
    """The configurations that the tuner itself would try for these arguments."""
    if len(tuner.configs) < 2:
        return list(tuner.configs)
    tuner.nargs = dict(zip(tuner.arg_names, args))
    return list(tuner.prune_configs(kwargs)) or list(tuner.configs)
