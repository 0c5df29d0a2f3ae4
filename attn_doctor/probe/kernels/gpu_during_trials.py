"""Facts from NVML about a GPU during the trials: other processes, throttling."""

from __future__ import annotations

from attn_doctor.model import kernel_words
from attn_doctor.model.kernels import KernelTrials, TestedGpu
from attn_doctor.probe.fact_notes import FactNotes


def note_state(notes: FactNotes, own: str, gpu: TestedGpu, trials: KernelTrials) -> None:
    """Adds clock, throttle reasons, power, memory errors and Xids, for the subject `own`."""
    how = "NVML, while the kernels ran"
    load = gpu.load
    notes.known(own + "state", kernel_words.state(gpu, trials), how)
    if load is None:
        for name in ("clock", "throttle_reasons", "power", "ecc_errors", "remapped_rows"):
            notes.unknown(own + name, how, "NVML did not answer", asked=False)
        return
    rows = load.remapped_rows
    notes.known_or_absent(own + "clock", kernel_words.clock(load), how)
    notes.known_or_absent(own + "throttle_reasons", load.throttle_reasons, how)
    notes.known_or_absent(own + "power", kernel_words.power(load), how)
    notes.known_or_absent(own + "ecc_errors", load.ecc_errors, how)
    notes.known_or_absent(own + "remapped_rows", kernel_words.remapped(rows) if rows else None, how)


def note_busy(notes: FactNotes, own: str, gpu: TestedGpu) -> None:
    """Adds other processes on the GPU, for the subject `own`."""
    before = "NVML, before the kernels ran"
    if gpu.before is not None:
        notes.known_or_absent(own + "busy", gpu.busy, before)
    else:
        notes.unknown(own + "busy", before, "NVML did not answer")
