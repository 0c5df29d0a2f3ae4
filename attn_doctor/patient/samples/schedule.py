"""Schedules the samples of each library, one forked child per library, and handles children that die.

A library waits until the results of its bare import and the list of GPUs are known. Its answer, `samples-LIBRARY.json`
(`{"samples": [entry]}`, verdicts.py), exists from the beginning and is marked as not examined until then; `canary.json`
is written by simulate/triton/canary.py.

Elsewhere: forking (forked.py), running (library_run.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Optional, Tuple, Union

# Relative: in the patient this package has another name.
from .. import forked, imports, outcomes  # noqa: TID252
from ..libraries import flash_attn_2  # noqa: TID252
from . import catalogue, verdicts

if TYPE_CHECKING:
    from ..forked import Tell
    from ..imports import Outcome
    from ..simulate.cuda.simulated_gpu import Described
    from ..torch_facts import Cuda, Device

_NOT_REACHED = "the examination ended before it came to it"

_FLASH_ATTN = flash_attn_2.LIBRARY.module

_MOST_RESTARTS = 3

Write = Callable[[str, object], None]


def answer_and_child(library: Optional[str]) -> Tuple[str, str]:
    """Names of a library's answer, and of the children that give it."""
    if library == catalogue.CANARY:
        return "canary", "canary"
    return "samples-{}".format(library), "{} samples".format(library)


def needs(library: Optional[str]) -> Tuple[Optional[str], ...]:
    """Libraries whose imports decide which samples a library has."""
    return (library, _FLASH_ATTN) if library == "transformers" else (library,)


class LibrarySamples:
    """The samples of one examination. Each method returns the children that can start now."""

    def __init__(
        self,
        asked: Union[bool, List[str], None],
        modules: Iterable[str],
        simulated_gpu: Optional[Described],
        timeout: float,
        scratch: str,
        write: Write,
    ) -> None:
        """`asked`: True for every library among `modules`, or a list of modules; None and False for none."""
        self.modules = list(modules)
        names = self.modules if asked is True else list(asked or ())
        wanted = {catalogue.library_of(name) for name in names}
        self.libraries = [library for library in catalogue.LIBRARIES if library in wanted]
        self.simulated_gpu = simulated_gpu
        self.timeout = timeout
        self.scratch = scratch
        self._write = write
        self._cuda: Optional[Cuda] = None
        self._imports: Dict[str, Outcome] = {}
        self._started: List[str] = []
        self._found: Dict[str, List[verdicts.SampleEntry]] = {library: [] for library in self.libraries}
        self._restarts: Dict[str, int] = {}
        has_flash_attn = any(catalogue.library_of(name) == _FLASH_ATTN for name in self.modules)
        self.samples = {
            library: catalogue.samples_of(library, has_flash_attn)
            for library in self.libraries
            if library != catalogue.CANARY
        }
        for library in self.libraries:
            self._give_up(library, _NOT_REACHED)

    def cuda(self, answer: Cuda) -> List[forked.Child]:
        """Called with torch's facts about the GPUs."""
        self._cuda = answer
        return self._ready()

    def imported(self, module: str, outcome: Outcome) -> List[forked.Child]:
        """Called with the result of the bare import of `module`."""
        self._imports[module] = outcome
        return self._ready()

    def without_torch(self, reason: str) -> None:
        """Called when torch is missing: only the canary can run."""
        for library in self.samples:
            self._started.append(library)
            self._give_up(library, reason)

    def _ready(self) -> List[forked.Child]:
        if self._cuda is None:
            return []
        children: List[forked.Child] = []
        for library in self.libraries:
            waits_for = [module for one in needs(library) for module in self._modules_of(one)]
            if library in self._started or any(m not in self._imports for m in waits_for):
                continue
            self._started.append(library)
            reason = self._hindrance(self._modules_of(library))
            if reason is not None:
                self._give_up(library, reason)
            elif library == catalogue.CANARY:
                children.append(self._canary())
            else:
                children.extend(self._children(library))
        return children

    def _modules_of(self, library: Optional[str]) -> List[str]:
        return [module for module in self.modules if catalogue.library_of(module) == library]

    def _children(self, library: str) -> List[forked.Child]:
        if library == "transformers":
            works = any(self._imports[m]["outcome"] == outcomes.IMPORTED for m in self._modules_of(_FLASH_ATTN))
            self.samples[library] = catalogue.samples_of(library, works)
        samples = self.samples[library]
        kinds = self._kinds()
        if not kinds:
            return [self._child(library, samples)]
        others = [sample.on(device["index"]) for device in kinds[1:] for sample in samples]
        self.samples[library] = samples + others
        groups = dict.fromkeys((sample.gpu, sample.group) for sample in self.samples[library])
        return [
            self._child(library, [one for one in self.samples[library] if (one.gpu, one.group) == group])
            for group in groups
        ]

    def _kinds(self) -> List[Device]:
        """The GPUs to run on: the first working one of each model, unless a simulated GPU was named."""
        devices = [one for one in (self._cuda["devices"] if self._cuda is not None else ()) if "error" not in one]
        kinds: Dict[Tuple[Optional[str], Optional[str]], Device] = {}
        for device in devices if not self.simulated_gpu else ():
            kinds.setdefault((device.get("name"), device.get("compute_capability")), device)
        return list(kinds.values())

    def _device(self, index: Union[int, str, None] = None) -> Optional[Device]:
        """The GPU of this index, else the first one."""
        kinds = self._kinds()
        return next((one for one in kinds if one["index"] == index), kinds[0] if kinds else None)

    def _hindrance(self, modules: List[str]) -> Optional[str]:
        device = self._device()
        if device is not None and "gcnArchName" in device:
            return "its samples judge by CUDA's rules, and this GPU is AMD's"
        for module in modules:
            outcome = self._imports[module]
            kind = outcome["outcome"]
            # Some libraries need a GPU during import: without one, their sample gets a simulated GPU.
            wants_a_gpu = kind == outcomes.FAILED and not outcome.get("missing_module") and device is None
            if kind == outcomes.IMPORTED or (wants_a_gpu and catalogue.library_of(module) not in catalogue.STOOD_IN):
                continue
            return "import {}: {}".format(module, imports.in_words(outcome))
        return None

    def _give_up(self, library: str, reason: str) -> None:
        if library == catalogue.CANARY:
            self._write("canary", {"outcome": "could_not_look", "message": reason})
        else:
            self._finish(library, outcomes.UNASKED, reason)

    def _finish(self, library: str, outcome: str, reason: str) -> None:
        found = verdicts.missing(self.samples[library], self._found[library], outcome, reason)
        self._write("samples-" + library, {"samples": found})

    def _canary(self) -> forked.Child:
        device = self._device()
        gpu: Optional[Described] = self.simulated_gpu
        if gpu is None and device is not None:
            gpu = {"name": device.get("name"), "compute_capability": device["compute_capability"]}

        def work(tell: Tell) -> None:
            from ..simulate.triton import canary  # noqa: TID252

            tell(canary.look({"scratch": self.scratch, "gpu": gpu, "timeout": self.timeout}))

        def done(ended: forked.Ended) -> None:
            told = imports.outcome(ended)
            if told["outcome"] == outcomes.TOLD:
                self._write("canary", told["value"])
            else:
                self._give_up(catalogue.CANARY, imports.in_words(told))

        return forked.Child(
            answer_and_child(catalogue.CANARY)[1], imports.telling_errors(work), self.timeout + 5.0, done
        )

    def _child(self, library: str, samples: List[catalogue.Sample]) -> forked.Child:
        def work(tell: Tell) -> None:
            from . import library_run

            device = self._device(samples[0].gpu if samples else None)
            library_run.run(library, samples, device, self.simulated_gpu, self.timeout, self.scratch, tell)

        def done(ended: forked.Ended) -> Optional[List[forked.Child]]:
            return self._ended(library, samples, ended)

        limit = self.timeout * len(samples) + 5.0
        return forked.Child(answer_and_child(library)[1], imports.telling_errors(work), limit, done)

    def _ended(
        self, library: str, samples: List[catalogue.Sample], ended: forked.Ended
    ) -> Optional[List[forked.Child]]:
        told = [line["value"] for line in ended.told if "value" in line]
        found = [line["sample"] for line in told if "sample" in line]
        rest = [sample for sample in samples if sample.name not in {one["name"] for one in found}]
        reason = next((line["stopped"] for line in told if "stopped" in line), _NOT_REACHED)
        again: List[catalogue.Sample] = []
        ending = imports.ending(ended)
        if ending is not None:
            outcome, reason = _ending(ended, ending, self.timeout)
            last = [line["started"] for line in told if "started" in line][-1:]
            # A sample that the child never reached did not crash: it is tried in another child.
            found += [verdicts.blank(sample, outcome, reason) for sample in rest if sample.name in last]
            rest = [sample for sample in rest if sample.name not in last]
            self._restarts[library] = self._restarts.get(library, 0) + 1
            if found and self._restarts[library] <= _MOST_RESTARTS:
                again, rest = rest, []
            reason = "not tried again after: " + reason
        self._found[library] += found + [verdicts.blank(sample, outcomes.UNASKED, reason) for sample in rest]
        self._finish(library, outcomes.UNASKED, _NOT_REACHED)
        return [self._child(library, again)] if again else None


def _ending(ended: forked.Ended, ending: Outcome, timeout: float) -> Tuple[str, str]:
    """(outcome, message) for a child that did not end normally; an alarm means a hang."""
    if ending.get("signal_name") == "SIGALRM" or ending["outcome"] == outcomes.HUNG:
        frames = ended.frames or forked.frames(ended.stderr, None)
        where = " in {file}:{line}".format(**frames[0]) if frames else ""
        words = "no end within {:g} s{}".format(ended.seconds if ended.hung else timeout, where)
        if any("/triton/" in frame["file"] and "compile" in frame["file"] for frame in frames):
            return outcomes.UNASKED, "its kernels were still being compiled: " + words
        if ended.starved > timeout / 4:
            busy = "the machine is busy, and for {:.0f} s no processor was free: ".format(ended.starved)
            return outcomes.UNASKED, busy + words
        return outcomes.HUNG, words
    outcome = ending["outcome"] if ending["outcome"] == outcomes.CRASHED else outcomes.UNASKED
    return outcome, imports.in_words(ending)
