"""Task `examine`: imports torch once, then examines everything else in child processes forked from this one.

Request: `modules` (import names), `timeout` (seconds for each child), `scratch` (folder), `torch` (whether torch is
findable), `sample` (the plain attention block), `library_samples` (True: of all modules; or their names),
`simulated_gpu` (None, or `{"compute_capability": "9.0", "name": "H200"}`), `jobs` (children at once), `later` (a FIFO
for further requests, which this process waits for; an empty one ends it). A further request has `answers` (folder),
`in_place_of` (folders, and those that stand for them from then on) and `changed` (names that change by that, none of
which this process had touched): what did not touch them is not done again. Answers, each
written as soon as it is known: started, torch-started, torch, cuda, import-MODULE, sample, loaded, samples-LIBRARY,
canary, done. A missing answer was not reached: when torch itself crashes or hangs, this process does, after
torch-started.

Outcomes of an import: `imported`, `failed` (it raised), `crashed` (a signal, or the process was left by sys.exit or
os._exit), `hung`; and `unasked` with its reason, when no child could be started.

Elsewhere: running children (forked.py), torch's own facts (torch_facts.py), samples (samples/), evaluation (the
doctor).
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Union

from . import answers as _answers
from . import forked, imports, loaded_libraries, outcomes, torch_facts, touched
from .samples import catalogue, schedule

if TYPE_CHECKING:
    from types import ModuleType

    from .arguments import Function
    from .forked import Tell
    from .imports import Outcome
    from .loaded_libraries import AskedVersion, LoadedFile
    from .samples.sdpa_block import BlockCell
    from .simulate.cuda.simulated_gpu import Described
    from .torch_facts import Cuda, Device


_WITH_A_GPU = " with a GPU"


def main(request: Dict[str, Any], answers: str) -> None:
    one = Examination(request, answers)
    one.run()
    stood_in = False
    while request.get("later"):
        with open(request["later"], "rb") as stream:
            text = stream.read().decode("utf-8")
        if not text:
            break
        asked = json.loads(text)
        if not stood_in:
            touched.stand_in(asked["in_place_of"])
            stood_in = True
        one = Examination(asked, asked["answers"], one)
        one.run()
    sys.stdout.flush()
    sys.stderr.flush()
    # Every answer is written. A regular exit of torch would take another 0.3 s, and may crash.
    os._exit(0)


#: The key of what a sample's child says of the libraries that it has mapped.
_LOADED = "loaded"


class Examination:
    """One request in progress."""

    def __init__(self, request: Dict[str, Any], answers: str, before: Optional[Examination] = None) -> None:
        """`before`: the one that this process did before; what it heard is kept, and nobody listens any more."""
        self.modules: List[str] = [m for m in request.get("modules", ()) if m != "torch"]
        self.timeout = float(request.get("timeout") or 60.0)
        self.scratch: str = request.get("scratch") or answers
        self.wants_torch = bool(request.get("torch"))
        self.wants_sample = bool(request.get("sample"))
        self.simulated_gpu: Optional[Described] = request.get("simulated_gpu")
        self.jobs = max(1, int(request.get("jobs") or min(os.cpu_count() or 1, 4)))
        self._answers = answers
        self._led: List[List[str]] = request.get("in_place_of") or []
        self._listening: Optional[touched.Touched] = touched.Touched() if request.get("later") else None
        self._earlier: touched.Earlier = before._earlier if before is not None else touched.Earlier()
        if before is not None:
            self._earlier.changed = frozenset(request["changed"])
        self._keeps = before is None
        self._torch: Optional[ModuleType] = None
        self._outcome: Outcome = {}
        self._cells: List[BlockCell] = []
        self._samples_left = 0
        self._loaded: Optional[List[LoadedFile]] = None
        self._libraries = schedule.LibrarySamples(
            self._rest_of_libraries(request.get("library_samples")),
            self.modules,
            self.simulated_gpu,
            self.timeout,
            self.scratch,
            self._write,
        )

    def run(self) -> None:
        started = time.monotonic()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._write("started", {"pid": os.getpid(), "executable": sys.executable})
        if self.wants_torch:
            self._import_torch()
        first = self._looks_at_torch()
        rest = [child for module in self.modules for child in self._import_children(module)]
        listening = self._listening
        own = listening.names() if listening is not None else []
        forked.run(first + rest, self.jobs, self.scratch, listening.names if listening else None, self._note)
        self._write("done", {"seconds": round(time.monotonic() - started, 3), "touched": own})

    def _write(self, name: str, value: object) -> None:
        if self._keeps:
            self._earlier.answers[name] = value
        _answers.write(self._answers, name, touched.led(value, self._led) if self._led else value)

    def _note(self, ended: forked.Ended) -> None:
        if self._keeps:
            self._earlier.note(ended.name, ended.touched)

    def _rest_of_libraries(self, asked: Union[bool, List[str], None]) -> Union[bool, List[str], None]:
        """The libraries whose samples have to run; the answers of the others hold."""
        rest = []
        for name in self.modules if asked is True else list(asked or ()):
            library = catalogue.library_of(name)
            answer, child = schedule.answer_and_child(library)
            # Which samples there are depends on what can be imported.
            imports_ = [one for one in self.modules if catalogue.library_of(one) in schedule.needs(library)]
            held = self._earlier.answer(answer, child, *imports_)
            if held is None:
                rest.append(name)
            else:
                self._write(answer, held)
        return rest

    def _import_torch(self) -> None:
        # is_available(), which some packages call on import, initialises CUDA unless told to ask NVML: no
        # forked child could use CUDA after that.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        self._write("torch-started", {"pid": os.getpid(), "timeout": self.timeout})
        faulthandler.enable(2)
        faulthandler.dump_traceback_later(max(self.timeout * 0.5, self.timeout - 1.0), file=2)
        with _one_thread():
            outcome, error = imports.attempt("torch")
        faulthandler.cancel_dump_traceback_later()  # its thread has ended when this returns
        if outcome["outcome"] == outcomes.IMPORTED:
            self._torch = sys.modules["torch"]
            outcome["facts"] = torch_facts.facts(self._torch)
        elif error is not None:
            sys.meta_path.insert(0, imports.FailsAgain("torch", error))
        self._outcome = outcome
        self._write("torch", outcome)

    def _looks_at_torch(self) -> List[forked.Child]:
        """The children that need torch; facts that need no child are answered immediately."""
        torch = self._torch
        if torch is None:
            reason = "torch could not be imported" if self.wants_torch else "there is no torch"
            nothing: Cuda = {"is_available": None, "reason": reason, "device_count": None, "devices": []}
            self._write("cuda", nothing)
            if self.wants_sample:
                self._write("sample", {"cells": [], "reason": reason})
            self._libraries.without_torch(reason)
            return self._libraries.cuda(nothing)
        held = self._earlier.answer("cuda", "cuda", "build")
        if held is not None:
            self._write("torch", self._earlier.answers["torch"])
        if held is not None or torch_facts.is_cpu_build(torch):
            answer = held or torch_facts.cpu_build(torch)
            self._write("cuda", answer)
            return self._samples(answer)
        return [
            self._child("cuda", lambda tell: tell(torch_facts.cuda(torch)), self._cuda_done),
            self._child("build", lambda tell: tell(torch_facts.build_facts(torch)), self._build_done),
        ]

    def _child(
        self,
        name: str,
        work: Function,
        done: Callable[[forked.Ended], Optional[List[forked.Child]]],
    ) -> forked.Child:
        return forked.Child(name=name, work=imports.telling_errors(work), timeout=self.timeout, done=done)

    def _import_children(self, module: str) -> List[forked.Child]:
        held = self._earlier.answer("import-" + module, module)
        if held is None:
            return [self._import_child(module)]
        if "with_a_gpu" in held and self._earlier.answer("import-" + module, module + _WITH_A_GPU) is None:
            return [self._import_child(module)]
        self._write("import-" + module, held)
        return self._libraries.imported(module, held)

    def _import_child(self, module: str) -> forked.Child:
        def work(tell: Tell) -> None:
            tell(imports.attempt(module)[0])

        def done(ended: forked.Ended) -> List[forked.Child]:
            outcome = imports.outcome(ended)
            if imports.only_wants_a_gpu(outcome):
                return [self._import_with_a_gpu(module, outcome)]
            self._write("import-" + module, outcome)
            return self._libraries.imported(module, outcome)

        return forked.Child(name=module, work=work, timeout=self.timeout, done=done)

    def _import_with_a_gpu(self, module: str, first: Outcome) -> forked.Child:
        """Imports the module again with a simulated GPU and driver; the result is added to that of the first import."""

        def work(tell: Tell) -> None:
            from .simulate.cuda import stage

            with stage.virtual_node(self.simulated_gpu, self.scratch):
                tell(imports.attempt(module)[0])

        def done(ended: forked.Ended) -> List[forked.Child]:
            self._write("import-" + module, {**first, "with_a_gpu": imports.outcome(ended)})
            return self._libraries.imported(module, first)

        return forked.Child(name=module + _WITH_A_GPU, work=work, timeout=self.timeout, done=done)

    def _build_done(self, ended: forked.Ended) -> None:
        told = imports.outcome(ended)
        if told["outcome"] == outcomes.TOLD:
            self._outcome["facts"].update(told["value"])
        else:
            self._outcome["facts"]["build_reason"] = imports.in_words(told)
        self._write("torch", self._outcome)

    def _cuda_done(self, ended: forked.Ended) -> List[forked.Child]:
        told = imports.outcome(ended)
        if told["outcome"] == outcomes.TOLD:
            answer = told["value"]
        else:
            reason = imports.in_words(told)
            answer = {
                "is_available": None,
                "reason": reason,
                "device_count": None,
                "devices": [],
                "ended": told,
            }
        self._write("cuda", answer)
        return self._samples(answer)

    def _samples(self, cuda: Cuda) -> List[forked.Child]:
        """Children for the plain block: one for each GPU, and one for CUDA's rules without a GPU or for a simulated
        one; and for libraries whose samples need not wait for their import."""
        libraries = self._libraries.cuda(cuda)
        if not self.wants_sample:
            return libraries
        held = self._earlier.answer("sample", "sample")
        if held is not None:
            self._write("sample", held)
            if _LOADED in self._earlier.answers:
                self._write(_LOADED, self._earlier.answers[_LOADED])
            return libraries
        devices = [device for device in cuda["devices"] if "error" not in device]
        places: List[Optional[Device]] = list(devices)
        if not devices or self.simulated_gpu:
            places.append(None)
        self._samples_left = len(places)
        return [self._sample(place) for place in places] + libraries

    def _sample(self, device: Optional[Device]) -> forked.Child:
        from .samples import sdpa_block  # needs torch, which a patient may lack

        def work(tell: Tell) -> None:
            tell({_LOADED: loaded_libraries.mapped()})  # what torch itself brings, should the pass end the process
            sdpa_block.run(device, self.simulated_gpu, tell)
            tell({_LOADED: loaded_libraries.mapped()})

        def done(ended: forked.Ended) -> List[forked.Child]:
            told = [line["value"] for line in ended.told if "value" in line]
            for line in told:
                if line.get(_LOADED) is not None:
                    self._loaded = max(self._loaded or [], line[_LOADED], key=len)
            told = [line for line in told if _LOADED not in line]
            ending = imports.ending(ended)
            reason = imports.in_words(ending) if ending else ""
            self._cells += sdpa_block.cells(device, self.simulated_gpu, told, ending, reason)
            self._samples_left -= 1
            if self._samples_left > 0:
                return []
            self._write("sample", {"cells": self._cells})
            return self._versions()

        return self._child("sample", work, done)

    def _versions(self) -> List[forked.Child]:
        """A child for each library that the samples had mapped, which asks it for its version."""
        main = [one for one in self._loaded or () if one["main"]]
        answers: Dict[str, AskedVersion] = {}

        def asked(file: LoadedFile) -> forked.Child:
            def work(tell: Tell) -> None:
                tell(loaded_libraries.version(file["family"], file["path"]))

            def done(ended: forked.Ended) -> None:
                told = imports.outcome(ended)
                answers[file["path"]] = (
                    told["value"] if told["outcome"] == outcomes.TOLD else {"reason": imports.in_words(told)}
                )
                if len(answers) == len(main):
                    self._write("loaded", {"files": self._loaded, "versions": answers})

            return self._child("version of " + file["family"], work, done)

        if not main:
            self._write("loaded", {"files": self._loaded, "versions": {}})
        return [asked(file) for file in main]


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Prevents the OpenBLAS in numpy, which torch imports, from starting a thread for every core.

    A fork copies only one thread, and locks held by the others stay locked.
    """
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
