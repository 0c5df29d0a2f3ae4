"""Driver and GPUs: NVML in a child process, nvidia-smi when NVML is missing, both with a timeout."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Completed, Running
from attn_doctor.machine.which import which
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes

_SMI_FIELDS = ("index", "name", "uuid", "compute_cap", "memory.total", "mig.mode.current", "driver_version")
_LASTING = (
    "pcie_width", "pcie_max_width", "pcie_generation", "persistence", "ecc", "ecc_errors", "remapped_rows",
    "row_remapping", "nvlinks", "nvlinks_up",
)  # fmt: skip
#: Seconds for nvidia-smi with --quick: a hanging one would take longer than all other probes.
_QUICK = 2.0
#: More seconds for NVML with --quick, for each GPU: a driver that nobody keeps awake has to wake them first.
_QUICK_A_GPU = 0.75
_NVML = "NVML (nvidia-ml-py)"
#: A folder for each GPU of the driver.
_DRIVERS_LIST = Path("/proc/driver/nvidia/gpus")
#: There while nvidia-persistenced keeps the driver awake.
_KEPT_AWAKE = Path("/run/nvidia-persistenced/socket")


def start_nvml(
    answer: Path, environment: Mapping[str, str], *, folder: Path, name: str, host: Path | None = None
) -> Running:
    """Starts the question what each GPU is; `answer` is the file to write.

    `host`: the file for what is read of the host meanwhile (probe/host/host_facts.py). Without it the GPUs are also
    asked how they are doing.
    """
    script = Path(__file__).with_name("node_child.py")
    # -S saves a third of its time; the location of nvidia-ml-py is already known here.
    return Running(
        [sys.executable, "-B", "-S", str(script), str(answer), "state" if host is None else str(host)],
        folder=folder,
        name=name,
        environment={**environment, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )


class GpuQuery:
    """A query that starts at once; call `facts` once."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._answer = folder / "nvml.json"
        self._host = folder / "host"
        self._running = start_nvml(self._answer, environment, folder=folder, name="nvml", host=self._host)
        self._completed: Completed | None = None

    def end(self) -> None:
        """Ends the query early."""
        self._running.end()

    def facts(self, timeout: float, *, hint: str | None, quick: bool = False) -> tuple[Fact, ...]:
        """Waits for the answer and returns its facts.

        `hint` is a sign of a GPU found without the driver library (probe/host/node.py). `quick`: NVML gets two seconds,
        and more only for GPUs that have to wake; nvidia-smi, which is used when the driver library is missing and then
        mostly fails too, gets two."""
        notes = FactNotes()
        completed = self._wait(timeout, quick=quick)
        try:
            answer: dict[str, Any] = json.loads(self._answer.read_text())
        except (OSError, ValueError):
            if quick and completed.timed_out and timeout > _quick_limit():
                # A slow answer does not prove that it hangs: a full check waits longer, and decides.
                reason = f"NVML {completed.ended()}, the longest that --quick waits"
                _driver_silent(notes, _NVML, reason, answers=None)
                return notes.facts()
            _driver_silent(notes, _NVML, f"NVML {completed.ended()}")
            return notes.facts()
        if answer["outcome"] == "ok":
            self._note(notes, answer, _NVML)
            return notes.facts()
        self._ask_smi(notes, answer, min(timeout, _QUICK) if quick else timeout, hint)
        return notes.facts()

    def host_answer(self, timeout: float, *, quick: bool = False) -> Path:
        """The file of what was read of the host meanwhile (probe/host/host_facts.py), there or not."""
        self._wait(timeout, quick=quick)
        return self._host

    def _wait(self, timeout: float, *, quick: bool) -> Completed:
        if self._completed is None:
            # Of somebody in a hurry the time counts from its start: other probes ran meanwhile.
            left = min(timeout, _quick_limit()) - self._running.seconds() if quick else timeout
            self._completed = self._running.wait(left)
        return self._completed

    def _ask_smi(self, notes: FactNotes, nvml: dict[str, Any], timeout: float, hint: str | None) -> None:
        smi = which("nvidia-smi", path=self._environment.get("PATH"))
        said = f"NVML: {nvml['message']}"
        if smi is None:
            if nvml["outcome"] == "no library" and hint is None:
                _no_gpu(notes, f"{_NVML}, nvidia-smi, devices", f"{said}; no nvidia-smi, no sign of a GPU")
            elif nvml["outcome"] == "no library":
                reason = f"{hint}, but there is no driver library ({said}) and no nvidia-smi"
                _driver_silent(notes, f"{_NVML}, nvidia-smi, devices", reason, answers=None)
            else:
                _driver_silent(notes, _NVML, said)
            return
        query = ",".join(_SMI_FIELDS)
        how = f"nvidia-smi --query-gpu={query}"
        completed = Running(
            [str(Path(smi).absolute()), f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            folder=self._folder,
            name="nvidia-smi",
            environment=self._environment,
        ).wait(timeout)
        answer = _of_smi(completed)
        if completed.ok and (answer["gpus"] or not completed.stdout.strip()):
            self._note(notes, answer, how)
            return
        last = (completed.stdout + completed.stderr).strip().splitlines()[-1:]
        reason = f"nvidia-smi {completed.ended()}" + (f": {last[0][:200]}" if last else "") + f" ({said})"
        if completed.status not in (None, 0) and nvml["outcome"] == "no library" and hint is None:
            _no_gpu(notes, how, reason)  # an nvidia-smi left on a node without GPU
        else:
            _driver_silent(notes, how, reason)

    def _note(self, notes: FactNotes, answer: dict[str, Any], how: str) -> None:
        notes.known("driver.answers", True, how)
        notes.known_or_absent("driver.version", answer.get("driver"), how)
        cuda = answer.get("cuda")
        notes.known_or_absent("driver.cuda", f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None, how)
        hidden = 0 if answer["gpus"] else _in_the_machine()
        if hidden:
            notes.unknown(
                "listed.gpu",
                f"{how}, {_DRIVERS_LIST}",
                f"{hidden} GPUs are in the machine, and this process may open none: it runs in a job or container that "
                "asked for none",
            )
        else:
            notes.known("listed.gpu", len(answer["gpus"]), how)
        visible = _visible(self._environment.get("CUDA_VISIBLE_DEVICES"), answer["gpus"])
        for gpu in answer["gpus"]:
            index = gpu["index"]
            for attribute in ("name", "uuid", "compute_capability", "memory_mib", "mig"):
                value = gpu.get(attribute)
                if value is not None:
                    notes.known(f"gpu.{index}.{attribute}", value, how)
                elif attribute == "mig":
                    notes.absent(f"gpu.{index}.mig", how, "this GPU has no MIG")
                else:
                    notes.unknown(f"gpu.{index}.{attribute}", how, gpu.get("error") or "the driver does not tell")
            notes.known(f"gpu.{index}.visible", index in visible, "CUDA_VISIBLE_DEVICES")
            _note_lasting(notes, index, gpu.get("lasting"), how)


def _note_lasting(notes: FactNotes, index: int, lasting: dict[str, Any] | None, how: str) -> None:
    """Bus, modes, memory rows and NVLinks of one GPU, which only NVML tells."""
    for attribute in _LASTING:
        value = None if lasting is None else lasting.get(attribute)
        if lasting is None:
            notes.unknown(f"gpu.{index}.{attribute}", how, "only NVML tells, and it did not answer")
        elif isinstance(value, dict):
            notes.unknown(f"gpu.{index}.{attribute}", how, value["unknown"])
        else:
            notes.known_or_absent(f"gpu.{index}.{attribute}", value, how, "this GPU has no such thing")


def _quick_limit() -> float:
    """Seconds that --quick waits for NVML."""
    return _QUICK + (0.0 if _KEPT_AWAKE.exists() else _QUICK_A_GPU * _in_the_machine())


def _in_the_machine() -> int:
    """How many GPUs the driver has, whether this process may open them or not: device cgroups do not hide /proc."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in _DRIVERS_LIST.iterdir())
    return 0


def _no_gpu(notes: FactNotes, how: str, reason: str) -> None:
    for name in ("driver.version", "driver.cuda", "driver.answers"):
        notes.absent(name, how, reason)
    notes.known("listed.gpu", 0, how)


def _driver_silent(notes: FactNotes, how: str, reason: str, *, answers: bool | None = False) -> None:
    if answers is None:
        notes.unknown("driver.answers", how, reason)
    else:
        notes.known("driver.answers", answers, f"{how}: {reason}")
    for name in ("driver.version", "driver.cuda", "listed.gpu"):
        notes.unknown(name, how, reason)


def _of_smi(completed: Completed) -> dict[str, Any]:
    gpus = []
    driver = None
    for line in completed.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_SMI_FIELDS) or not cells[0].isdigit():
            continue
        driver = cells[6]
        gpus.append(
            {
                "index": int(cells[0]),
                "name": cells[1],
                "uuid": cells[2],
                "compute_capability": cells[3] if re.fullmatch(r"\d+\.\d", cells[3]) else None,
                "memory_mib": int(cells[4]) if cells[4].isdigit() else None,
                "mig": {"enabled": "on", "disabled": "off"}.get(cells[5].lower()),
            }
        )
    return {"driver": driver, "cuda": None, "gpus": gpus}


def _visible(variable: str | None, gpus: list[dict[str, Any]]) -> set[int]:
    """Indices of the GPUs visible under CUDA_VISIBLE_DEVICES; CUDA stops at the first invalid entry.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars
    """
    everything = {gpu["index"] for gpu in gpus}
    if variable is None:
        return everything
    seen: set[int] = set()
    for entry in (part.strip() for part in variable.split(",")):
        if entry.isdigit() and int(entry) in everything:
            seen.add(int(entry))
        elif entry.startswith("GPU-"):
            named = [gpu["index"] for gpu in gpus if str(gpu.get("uuid") or "").startswith(entry)]
            if len(named) != 1:
                break
            seen.add(named[0])
        elif entry.startswith("MIG-"):
            # A MIG device's UUID does not identify its parent: count every MIG GPU as visible.
            seen.update(gpu["index"] for gpu in gpus if gpu.get("mig") == "on")
        else:
            break
    return seen
