"""Facts about Triton kernels compiled for a GPU that is not present (patient/kernels/compilation.py).

None of them ran. Each backend has its own kernels, even when two launch the same function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attn_doctor.formats import records
from attn_doctor.model import kernel_words
from attn_doctor.model.compiled_kernels import COMPILES, Compilation, CompiledBackend, CompiledKernel
from attn_doctor.model.facts import Fact
from attn_doctor.model.gpu_state import PlannedGpu
from attn_doctor.probe.fact_notes import FactNotes

_MOST_CALLS = 6
_SLUG = re.compile(r"\W+")


def collate(plan: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], ended: str) -> Compilation | None:
    """The results, or None when no GPU was named; `ended` describes how the process ended."""
    if "to_compile" not in plan:
        return None
    done = {line["compiled"]["backend"]: line["compiled"] for line in lines if "compiled" in line}
    begun = {line["begun"] for line in lines if "begun" in line}
    titles = {one["name"]: one["title"] for one in plan["backends"]}
    backends: list[CompiledBackend] = []
    kernels: list[CompiledKernel] = []
    for name in plan["to_compile"]["backends"]:
        missed = f"the examination {ended} while it was compiled" if name in begun else "the time was up"
        told = done.get(name, {"error": missed, "kernels": []})
        own = [records.from_json(CompiledKernel, {"backend": name, **one}) for one in told["kernels"]]
        kernels += own
        backends.append(
            CompiledBackend(
                name=name,
                title=titles[name],
                kernels=len(own),
                compile=sum(one.outcome == COMPILES for one in own),
                not_reached=sum(not one.looked_at for one in own),
                error=told["error"],
                nothing=told.get("nothing") or None,
            )
        )
    return Compilation(
        gpu=records.from_json(PlannedGpu, plan["gpu"]),
        why_not=plan["to_compile"]["why_not"],
        backends=tuple(backends),
        kernels=tuple(kernels),
    )


def facts(compiled: Compilation | None) -> tuple[Fact, ...]:
    """Facts about each kernel of a library's layer, and for other kernels about each kind of failure."""
    if compiled is None or not compiled.backends:
        return ()
    notes = FactNotes()
    gpu = compiled.gpu.words
    how = f"compiled for {gpu}, not run (--kernels)"
    open_because = gaps(one for one in compiled.backends if not one.by_calls)
    if open_because:
        notes.unknown("listed.kernel", how, open_because)
    else:
        notes.known("listed.kernel", sum(not one.by_calls for one in compiled.kernels), how)
    for number, one in enumerate(compiled.kernels):
        if not one.looked_at:
            continue  # reported once, in listed.kernel: forty kernels not reached in time are one open question
        if one.by_calls:
            continue  # handled below: a model may never make that call
        own = f"kernel.{one.backend}-{one.kernel}-{number}."
        notes.known(own + "outcome", one.outcome, how)
        notes.known(own + "gpu", gpu, how)
        notes.known_or_absent(own + "message", one.message or None, how)
        notes.known_or_absent(own + "place", one.place or None, how)
        notes.known_or_absent(own + "required_bytes", one.required_bytes, how)
        notes.known_or_absent(own + "limit_bytes", one.limit_bytes, how)
    _of_calls(compiled, notes, how)
    return notes.facts()


def _of_calls(compiled: Compilation, notes: FactNotes, how: str) -> None:
    """Adds failures of calls constructed over dtypes, head dimensions and forms: one of each kind for each backend."""
    titles = {one.name: one.title for one in compiled.backends}
    sorts: dict[tuple[str, str], list[CompiledKernel]] = {}
    for one in compiled.kernels:
        if one.by_calls and one.looked_at and one.outcome != COMPILES:
            sorts.setdefault((one.backend, one.outcome), []).append(one)
    open_because = gaps(one for one in compiled.backends if one.by_calls)
    if open_because:
        notes.unknown("listed.compiled", how, open_because)
    else:
        notes.known("listed.compiled", len(sorts), how)
    for (backend, outcome), which in sorts.items():
        own = f"compiled.{_SLUG.sub('-', backend)}-{outcome.replace(' ', '-')}."
        worst = max(which, key=lambda one: one.required_bytes or 0)
        calls = list(dict.fromkeys(str(one.call) for one in which))
        more = f"; and {len(calls) - _MOST_CALLS} more" if len(calls) > _MOST_CALLS else ""
        mended = list(dict.fromkeys(one.mended_by for one in which if one.mended_by))
        notes.known(own + "outcome", outcome, how)
        notes.known(own + "title", titles[backend], how)
        notes.known(own + "gpu", compiled.gpu.words, how)
        notes.known(own + "calls", "; ".join(calls[:_MOST_CALLS]) + more, how)
        notes.known_or_absent(own + "message", kernel_words.compiler(worst) or None, how)
        notes.known_or_absent(own + "place", worst.place or None, how)
        notes.known_or_absent(own + "mended_by", " or ".join(mended) or None, how)


def gaps(backends: Iterable[CompiledBackend]) -> str:
    """Which kernels were not compiled, and why; empty when all were."""
    backends = tuple(backends)
    words = [f"{one.title}: {one.error}" for one in backends if one.error]
    words += [
        f"{one.title}: {one.not_reached} of {one.kernels} kernels could not be looked at"
        for one in backends
        if one.not_reached
    ]
    return "; ".join(words)
