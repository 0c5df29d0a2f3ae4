"""The outcome of a full examination of one environment, kept for those who look at its files alone."""

from __future__ import annotations

from attn_doctor.model.exit_status import Status
from attn_doctor.quick_dataclasses import dataclass

ERROR = "error"
#: Findings about one machine's hardware: they say nothing of another node with the same software.
OF_ONE_NODE = frozenset({"gpu-xid", "gpu-slower-than-siblings", "kernel-slower-than-elsewhere"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FullFinding:
    """One finding of the full examination, reduced to what is said of it."""

    id: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FullVerdict:
    """What a full examination of an environment came to."""

    content: str
    """Key of the environment's content (probe/packages/content_key.py)."""
    node: str
    created: str
    prefix: str
    compute_capability: tuple[str, ...]
    """Of the GPUs that it was examined with."""
    exit_status: int
    findings: tuple[FullFinding, ...]
    """Those that were not accepted."""
    doctor_version: str

    @property
    def errors(self) -> tuple[FullFinding, ...]:
        """The findings that gate."""
        return tuple(one for one in self.findings if one.severity == ERROR)

    @property
    def ill(self) -> bool:
        """The environment was found to be ill."""
        return self.exit_status == Status.FOUND or bool(self.errors)

    def words(self) -> str:
        """`examined in full on node17 on 2026-11-21: error x-transformers-rotary-fp32`."""
        gating = self.errors or self.findings
        if self.ill:
            came = f"{gating[0].severity if gating else 'findings'} {', '.join(one.id for one in gating)}"
        else:
            came = "no error" if self.exit_status == Status.HEALTHY else "could not examine"
        return f"examined in full on {self.node} on {self.created[:10]}: {came}"
