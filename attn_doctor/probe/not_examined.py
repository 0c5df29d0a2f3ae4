"""Facts that stay unknown because nothing is run or traced. Separate from their probes, which --quick does not load."""

from __future__ import annotations

from attn_doctor.model.facts import Fact
from attn_doctor.model.kinds import KINDS
from attn_doctor.probe.fact_notes import FactNotes

#: Facts that only attention calls provide, from a trace or from a library's sample.
FAILED_CALL = ("trace.failed_call", "trace.failed_place", "trace.failed_dtypes")
CALLS = tuple(kind.name for kind in KINDS if kind.by_call)

_NOT_RUN = (
    "listed.import", "listed.sample", "listed.loaded", "torch.cuda_available", "torch.cuda_error", "torch.device_count",
)  # fmt: skip


def not_run(reason: str) -> tuple[Fact, ...]:
    """The facts that imports and samples would provide."""
    notes = FactNotes()
    for name in _NOT_RUN:
        notes.unknown(name, "nothing was imported or run", reason, asked=False)
    return (*notes.facts(), *no_samples(reason))


def no_samples(reason: str) -> tuple[Fact, ...]:
    """The facts that library samples would provide."""
    notes = FactNotes()
    listed = (f"listed.{kind}" for kind in CALLS)
    for name in (*listed, *FAILED_CALL, "triton.canary", "triton.bf16_becomes_i16"):
        notes.unknown(name, "no library sample was run", reason, asked=False)
    return notes.facts()


def no_configurations() -> tuple[Fact, ...]:
    """The facts about configurations, when none was named with --config."""
    notes = FactNotes()
    notes.known("listed.config", 0, "--config")
    return notes.facts()


def not_traced() -> tuple[Fact, ...]:
    """The facts that only a traced run provides, when none was requested."""
    notes = FactNotes()
    told = (
        "trace.verdict",
        "trace.rules",
        "trace.error_kind",
        "trace.error",
        "trace.traceback",
        "trace.slow_paths",
        *FAILED_CALL,
    )
    listed = (f"listed.{kind.name}" for kind in KINDS if kind.plural and kind.traced)
    for name in (*told, *listed):
        notes.unknown(name, "attn-doctor trace", "nothing was traced", asked=False)
    return notes.facts()
