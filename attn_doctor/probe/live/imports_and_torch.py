"""Starts patient/examine.py in the patient's interpreter and makes facts of its answers.

A missing answer is information too: a torch that crashes or hangs during import ends the process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Completed, Running, signal_name
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.facts import Fact
from attn_doctor.model.outcomes import Outcome
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.live import library_samples
from attn_doctor.probe.live.kept_process import KeptProcess
from attn_doctor.probe.not_examined import no_samples

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
_NO_SAMPLES = "not asked for (--no-samples)"

_MOST_WORDS = 200
#: Failures with these attributes also happen on a node with GPUs: a missing module or symbol.
_NOT_FOR_WANT_OF_A_GPU = ("missing_module", "undefined_symbol", "missing_version")

#: No library has more samples; each may use its whole time limit.
_MOST_SAMPLES = 8


class Examination:
    """A running examination; call `facts` once."""

    def __init__(
        self,
        target: Target,
        *,
        modules: tuple[str, ...],
        torch: bool,
        timeout: float,
        simulated_gpu: Mapping[str, Any] | None,
        folder: Path,
        samples: bool = True,
        kept: KeptProcess | None = None,
    ) -> None:
        """Starts the examination. `samples`: also runs the samples of the libraries among `modules`.

        `kept`: the process to do it in.
        """
        self._modules = modules
        self._torch = torch
        self._timeout = timeout
        self._wants_samples = samples
        self._libraries = library_samples.libraries_of(modules) if samples else ()
        # Hanging children wait in parallel: at least two, even on one core.
        self._jobs = max(2, min(len(os.sched_getaffinity(0)), 4))
        scratch = folder / "examine-scratch"
        scratch.mkdir()
        request = {
            "modules": list(modules),
            "timeout": timeout,
            "scratch": str(scratch),
            "torch": torch,
            "sample": torch,
            "library_samples": list(self._libraries),
            "simulated_gpu": dict(simulated_gpu) if simulated_gpu else None,
            "jobs": self._jobs,
        }
        self._kept = kept
        self._running: Running
        if kept is None:
            self._running, self._answers = target.start_in_patient("examine", request, folder=folder)
        else:
            self._running, self._answers = kept.start(target, request, folder=folder)
        self._begun = self._running.seconds()

    def end(self) -> None:
        """Ends it early, unless its process is kept."""
        if not self._waits():
            self._running.end()

    def _waits(self) -> bool:
        return self._kept is not None and self._kept.waits(self._answers)

    def facts(self, say: Callable[[str], None], *, no_gpu: bool = False) -> tuple[Fact, ...]:
        """Waits for the answers: torch within one timeout, everything within one timeout for each round of children.

        `no_gpu`: the node has none, so an import that fails only for lack of one shows nothing about its package.
        """
        completed = self._wait(say)
        notes = FactNotes()
        self._note_torch(notes, completed)
        for module in self._modules:
            self._note_import(notes, module, completed, no_gpu=no_gpu)
        imported = len(self._modules) + self._torch
        notes.known("listed.import", imported, "modules of the attention stack on the interpreter's sys.path")
        samples, count = self._library_samples(completed)
        self._note_samples(notes, completed, count)
        return (*notes.facts(), *samples)

    def loaded(self) -> dict[str, Any] | None:
        """What the samples' process had loaded, once `facts` has waited for it; None where it was not reached."""
        return self._answer("loaded")

    def answers(self) -> Path:
        """Waits until it has ended; the folder of its answers."""
        self._wait(lambda _: None)
        return self._answers

    def _library_samples(self, completed: Completed) -> tuple[tuple[Fact, ...], int]:
        if not self._wants_samples:
            return no_samples(_NO_SAMPLES), 0
        return library_samples.facts(self._libraries, self._answer, completed.ended())

    def _wait(self, say: Callable[[str], None]) -> Completed:
        torch_limit = self._timeout + 2.0
        kinds = 0
        while self._running.alive():
            waited = self._running.seconds() - self._begun
            if self._waits():
                return self._running.so_far()
            kinds = kinds or self._kinds_of_gpus()
            samples = len(self._libraries) * _MOST_SAMPLES * max(kinds, 1)
            rounds = 2 + -(-(len(self._modules) + samples + 2) // self._jobs)
            if waited > self._timeout * rounds + 10.0 or (
                self._torch and waited > torch_limit and self._answer("torch") is None
            ):
                break
            done = sum(1 for _ in self._answers.glob("import-*.json"))
            what = (
                "importing torch"
                if self._torch and self._answer("torch") is None
                else f"{done} of {len(self._modules)} imports"
                if done < len(self._modules)
                else "samples of the libraries"
            )
            say(f"examining from inside: {what}")
            time.sleep(0.01 if waited < 5 else 0.1)
        return self._running.wait(0.5 if self._answer("done") is not None else 0.0)

    def _kinds_of_gpus(self) -> int:
        """Number of different GPUs; 0 until torch has reported them. Samples run on one GPU of each model."""
        devices = (self._answer("cuda") or {}).get("devices") or ()
        return len({(one.get("name"), one.get("compute_capability")) for one in devices})

    def _answer(self, name: str) -> dict[str, Any] | None:
        return read_answer(self._answers / f"{name}.json")

    def _note_torch(self, notes: FactNotes, completed: Completed) -> None:
        how = "import torch in a child of its own"
        if not self._torch:
            for name in ("cuda_available", "cuda_error", "device_count"):
                notes.absent(f"torch.{name}", how, "no torch")
            return
        answer = self._answer("torch")
        if answer is None:
            answer = self._ended_on_torch(completed)
        _note_outcome(notes, "torch", answer, how)
        facts = answer.get("facts") or {}
        why_not = f"importing torch {answer['outcome']}"
        cuda = self._answer("cuda") or {}
        for name, value, reason in (
            ("cudnn", facts.get("cudnn"), facts.get("cudnn_reason")),
            ("cuda_available", cuda.get("is_available"), cuda.get("reason")),
            ("device_count", cuda.get("device_count"), cuda.get("reason")),
        ):
            if value is not None:
                notes.known(f"torch.{name}", value, how)
            elif answer["outcome"] == Outcome.IMPORTED and not reason:
                notes.absent(f"torch.{name}", how)
            elif name != "cudnn":  # the files have answered this as far as possible
                notes.unknown(f"torch.{name}", how, reason or why_not)
        notes.known_or_absent("torch.cuda_error", cuda.get("reason") or None, "torch.cuda.init() in a child")
        if facts.get("arch_list"):
            codes = tuple(str(code) for code in facts["arch_list"])
            notes.known("torch.arch_list", codes, "torch._C._cuda_getArchFlags()")
        if isinstance(facts.get("cxx11_abi"), bool):
            notes.known("torch.cxx11_abi", facts["cxx11_abi"], "torch.compiled_with_cxx11_abi()")
        for device in cuda.get("devices") or ():
            index = device["index"]
            if device.get("shared_memory_per_block_optin"):
                notes.known(
                    f"gpu.{index}.shared_memory_bytes",
                    device["shared_memory_per_block_optin"],
                    "torch.cuda.get_device_properties()",
                )

    def _ended_on_torch(self, completed: Completed) -> dict[str, Any]:
        """The answer when the process ended, or was ended, while it imported torch."""
        frame = _FRAME.search(completed.stderr)
        where = f"{frame[1]}:{frame[2]}" if frame else None
        if self._answer("torch-started") is None:
            last = (completed.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return {"outcome": Outcome.UNASKED, "reason": f"the examination {completed.ended()}: {last[:300]}"}
        if completed.timed_out:
            return {"outcome": Outcome.HUNG, "seconds": round(completed.seconds, 1), "where": where}
        if completed.signal is not None:
            name = signal_name(completed.signal)
            return {"outcome": Outcome.CRASHED, "signal_name": name, "how": f"killed by {name}", "where": where}
        return {
            "outcome": Outcome.CRASHED,
            "how": f"left the process with exit status {completed.status}",
            "where": where,
            "stderr": completed.stderr,
        }

    def _note_import(self, notes: FactNotes, module: str, completed: Completed, *, no_gpu: bool) -> None:
        answer = self._answer(f"import-{module}")
        how = f"import {module} in a child of its own, within {self._timeout:g} s"
        if answer is None:
            torch = self._answer("torch")
            reason = (
                "not tried, since importing torch ends the process"
                if self._torch and torch is None
                else f"the examination {completed.ended()} before it came to it"
            )
            answer = {"outcome": Outcome.UNASKED, "reason": reason}
        if no_gpu and "with_a_gpu" in answer:
            answer, how = _as_on_a_gpu_node(module, answer, how)
        _note_outcome(notes, module, answer, how)

    def _note_samples(self, notes: FactNotes, completed: Completed, libraries: int) -> None:
        """Adds facts of samples; `libraries`: number of library samples, without the cells of the plain block."""
        how = "sample attention block, forward and backward"
        if not self._torch:
            notes.known("listed.sample", libraries, how)
            return
        answer = self._answer("sample")
        if answer is None:
            notes.unknown("listed.sample", how, f"the examination {completed.ended()} before it came to it")
            return
        if answer.get("reason"):
            notes.unknown("listed.sample", how, f"not run: {answer['reason']}")
            return
        cells = answer["cells"]
        notes.known("listed.sample", len(cells) + libraries, how)
        for cell in cells:
            own = f"sample.sdpa-{cell['device']}-{cell['dtype']}-{cell['mode']}."
            if cell["outcome"] == Outcome.UNASKED:
                notes.unknown(own + "outcome", how, cell.get("error") or "not run")
            else:
                notes.known(own + "outcome", cell["outcome"], how)
            notes.known(own + "device", cell["device"], how)
            notes.known(own + "rules", cell["rules"], how)
            for name in ("handed_dtypes", "kernel_dtypes"):
                notes.known_or_absent(own + name, tuple(cell.get(name) or ()), how)
            notes.known_or_absent(own + "kernel", cell.get("kernel"), how)
            notes.known_or_absent(own + "error", cell.get("error"), how)
            notes.known_or_absent(own + "seconds", cell.get("seconds"), how)
            finite = [cell.get(key) for key in ("output_finite", "gradients_finite")]
            if all(isinstance(one, bool) for one in finite):
                notes.known(own + "finite", all(finite), how)
            else:
                notes.absent(own + "finite", how, "it did not come to its end")


def _as_on_a_gpu_node(module: str, answer: dict[str, Any], how: str) -> tuple[dict[str, Any], str]:
    """For an import that fails only for lack of a GPU: its result with a simulated one."""
    words = (str(answer.get("error") or "").strip().splitlines() or ["it says no more"])[-1][:_MOST_WORDS]
    simulated: dict[str, Any] = answer["with_a_gpu"]
    if simulated["outcome"] == Outcome.IMPORTED:
        return simulated, f"import {module} with a GPU simulated; without one it says: {words}"
    if simulated["outcome"] == Outcome.FAILED and any(simulated.get(key) for key in _NOT_FOR_WANT_OF_A_GPU):
        return simulated, f"import {module} with a GPU simulated"
    reason = f"it wants a GPU with its driver, and this node has none: {words}; it can be told on a node that has one"
    return {"outcome": Outcome.UNASKED, "reason": reason}, how


def _note_outcome(notes: FactNotes, module: str, answer: Mapping[str, Any], how: str) -> None:
    own = f"import.{module}."
    outcome = answer["outcome"]
    if outcome == Outcome.UNASKED:
        notes.unknown(own + "outcome", how, answer.get("reason") or "no child could look")
        return
    notes.known(own + "outcome", outcome, how)
    error = answer.get("error") or answer.get("how")
    if outcome == Outcome.CRASHED and answer.get("stderr"):
        error = f"{error}; last words: {_last_words(answer['stderr'])}"
    if outcome == Outcome.HUNG:
        error = f"no answer within {answer['seconds']:g} s"
    notes.known_or_absent(own + "error", error, how)
    for name, key in (
        ("version", "version"),
        ("path", "path"),
        ("error_type", "error_type"),
        ("undefined_symbol", "undefined_symbol"),
        ("missing_library", "missing_library"),
        ("missing_module", "missing_module"),
        ("signal", "signal_name"),
        ("where", "where"),
        ("seconds", "seconds"),
    ):
        notes.known_or_absent(own + name, answer.get(key), how)


def _last_words(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # faulthandler's own listing is in `where` already
    spoken = [
        line
        for line in lines
        if not line.startswith(("File ", "Fatal Python", "Current thread", "Thread 0x", "Extension modules"))
    ]
    return (spoken or lines or [""])[-1][:300]
