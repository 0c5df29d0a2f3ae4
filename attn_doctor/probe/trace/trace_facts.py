"""Facts from a dtype trace."""

from __future__ import annotations

from attn_doctor.model.facts import Fact
from attn_doctor.model.outcomes import BROKEN, GRAVITY, TraceVerdict
from attn_doctor.model.trace import AttentionCall, Guarded, MathCost, Place, Promotion, Trace
from attn_doctor.probe.fact_notes import FactNotes

#: Verdicts, worst first; a clean call gets no finding.


def facts_of(trace: Trace) -> tuple[Fact, ...]:
    """Every fact about the traced run."""
    notes = FactNotes()
    how = f"traced {trace.words}" if trace.words else "traced"
    notes.known_or_absent("trace.verdict", trace.verdict, how, "no attention call was seen")
    notes.known_or_absent("trace.rules", trace.rules or None, how)
    notes.known_or_absent("trace.error_kind", trace.error_kind or None, how)
    notes.known_or_absent("trace.error", trace.error or None, how)
    notes.known_or_absent("trace.slow_paths", trace.slow_paths or None, how)
    words = trace.traceback if trace.error_kind == "model raised" else ""
    notes.known_or_absent("trace.traceback", words or None, how)
    # Operands of different dtypes are not a fault in themselves (a product promotes them, and may fail for its shapes).
    failure = trace.failure if trace.failure and trace.failure.over_dtypes else None
    notes.known_or_absent("trace.failed_call", failure.call if failure else None, how)
    notes.known_or_absent("trace.failed_place", str(failure.place) if failure and failure.place else None, how)
    notes.known_or_absent("trace.failed_dtypes", failure.dtypes if failure else None, how)
    notes.known("listed.promotion", len(trace.promotions), how)
    for promotion in trace.promotions:
        _note_promotion(notes, promotion, trace, how)
    notes.known("listed.attention", len(trace.calls), how)
    for number, call in enumerate(trace.calls):
        _note_call(notes, number, call, trace, how)
    notes.known("listed.kernel", len(trace.kernels), how)
    for number, kernel in enumerate(trace.kernels):
        own = f"kernel.{kernel.kernel}-{number}."
        compiled = f"{how}, its kernels compiled for {kernel.gpu}"
        if kernel.outcome == "could not look":
            notes.unknown(own + "outcome", compiled, kernel.message or "no child could look")
        else:
            notes.known(own + "outcome", kernel.outcome, compiled)
        notes.known(own + "gpu", kernel.gpu, compiled)
        notes.known_or_absent(own + "message", kernel.message or None, compiled)
        notes.known_or_absent(own + "place", kernel.call_site or None, compiled)
        notes.known_or_absent(own + "required_bytes", kernel.required_bytes, compiled)
        notes.known_or_absent(own + "limit_bytes", kernel.limit_bytes, compiled)
    return notes.facts()


def _note_promotion(notes: FactNotes, promotion: Promotion, trace: Trace, how: str) -> None:
    own = f"promotion.{promotion.id}."
    reached = _reached(promotion, trace)
    wide = [one for one in promotion.operands if one.dtype == promotion.dtype_out and one.kind != "computed"]
    operand = wide[0] if wide else None
    notes.known(own + "call", promotion.call, how)
    notes.known_or_absent(own + "place", str(promotion.place) if promotion.place else None, how)
    notes.known_or_absent(own + "function", (promotion.place.function or None) if promotion.place else None, how)
    notes.known_or_absent(own + "source", promotion.place.source if promotion.place else None, how)
    notes.known(own + "kind", promotion.kind, how)
    notes.known(own + "dtype_in", promotion.dtype_in, how)
    notes.known(own + "dtype_out", promotion.dtype_out, how)
    named = (f"{operand.kind} {operand.name}" if operand.name else operand.kind) if operand else None
    notes.known_or_absent(own + "operand", named, how)
    notes.known_or_absent(own + "born", "; ".join(promotion.born) or None, how)
    notes.known_or_absent(own + "roles", promotion.roles, how)
    notes.known(own + "widens_all", {"q", "k", "v"} <= set(promotion.roles), how)
    notes.known_or_absent(own + "module", promotion.module or None, how)
    notes.known(own + "calls", promotion.calls, how)
    notes.known(own + "latent", promotion.latent, how)
    notes.known_or_absent(own + "cast_back", str(promotion.cast_back) if promotion.cast_back else None, how)
    notes.known_or_absent(own + "kernel", reached.name if reached else None, how)
    notes.known_or_absent(own + "verdict", reached.verdict if reached else trace.verdict, how)


def _reached(promotion: Promotion, trace: Trace) -> AttentionCall | None:
    """The worst call that it reached. A latent promotion reaches a call only in a run with the first promotion
    fixed.
    """
    calls = [call for call in trace.calls if any(one.promotion == promotion.id for one in call.operands)]
    if not calls and promotion.latent:
        calls = [call for call in trace.calls if call.verdict in BROKEN]
    return min(calls, key=lambda call: _gravity(call.verdict), default=None)


def _gravity(verdict: str) -> int:
    return GRAVITY.index(TraceVerdict(verdict)) if verdict in GRAVITY else len(GRAVITY)


def _note_call(notes: FactNotes, number: int, call: AttentionCall, trace: Trace, how: str) -> None:
    own = f"attention.{number}."
    dtypes = {one.role: one.dtype for one in call.operands}
    blamed = [one for one in call.operands if one.blamed]
    notes.known(own + "name", call.name, how)
    notes.known(own + "library", call.library, how)
    notes.known(own + "verdict", call.verdict, how)
    notes.known_or_absent(own + "place", str(call.place) if call.place else None, how)
    made: dict[int | None, Place | None] = {
        one.id: one.place for one in trace.promotions if one.kind == "buffer's own dtype"
    }
    began = [one.began.place if one.began is not None else made.get(one.promotion) for one in blamed]
    notes.known_or_absent(own + "began_place", next((str(place) for place in began if place is not None), None), how)
    for role in ("q", "k", "v", "mask"):
        notes.known_or_absent(f"{own}{role}_dtype", dtypes.get(role), how)
    notes.known_or_absent(own + "head_dim", call.head_dim, how)
    notes.known_or_absent(own + "autocast", call.autocast, how)
    notes.known(own + "all_along", bool(blamed) and all(one.all_along for one in blamed), how)
    notes.known_or_absent(own + "broken", tuple(f"not met: {one.words}" for one in call.broken), how)
    notes.known_or_absent(own + "error", call.error or None, how)
    notes.known_or_absent(own + "stand_in", call.stand_in or None, how)
    notes.known(own + "calls", call.calls, how)
    _note_backend(notes, own, call, how)
    _note_guarded(notes, own, call.guarded, how)


def _note_backend(notes: FactNotes, own: str, call: AttentionCall, how: str) -> None:
    backend = call.backend
    if backend is None:
        notes.absent(own + "backend", how, "no call of torch's SDPA, or its choice cannot be told")
        return
    chosen = f"{how}, torch's rules of choice for {backend.gpu}"
    if backend.taken is not None and backend.doubts:
        notes.unknown(
            own + "backend", chosen, f"probably {backend.taken}, but {'; '.join(backend.doubts)}", asked=False
        )
    else:
        notes.known_or_absent(own + "backend", backend.taken, chosen, backend.error)
    refused = tuple(f"{name}: {reason}" for name, reason in backend.refused)
    notes.known_or_absent(own + "backend_refused", refused or None, chosen)
    notes.known_or_absent(own + "backend_warnings", backend.warnings or None, chosen)
    cost = backend.math
    small = cost.why_small if cost is not None else "math is not taken"
    if call.verdict == TraceVerdict.RAISES:
        small = "the call raises"
    notes.known_or_absent(own + "math_cost", _cost(cost) if cost is not None and not small else None, chosen, small)
    ways = tuple(f"{words} ({taken})" for taken, words in cost.ways) if cost is not None else ()
    notes.known_or_absent(own + "math_ways", ways or None, chosen, "no change of the call that is known here")


def _note_guarded(notes: FactNotes, own: str, guarded: Guarded | None, how: str) -> None:
    if guarded is None:
        for name in ("nonfinite", "spoiled", "nan_gradient", "wrong_rows"):
            notes.absent(own + name, how, "no guard watched the call")
        return
    rows = f"of {guarded.rows:,} rows in {guarded.examined:,} calls"
    bad = f"{guarded.nonfinite_rows:,} {rows}, first in step {guarded.nonfinite_step}"
    notes.known_or_absent(own + "nonfinite", bad if guarded.nonfinite_rows else None, how)
    spoiled = f"{guarded.spoiled_calls:,} of {guarded.examined:,} calls"
    notes.known_or_absent(own + "spoiled", spoiled if guarded.spoiled_calls else None, how)
    step = f"in {guarded.nan_gradients:,} gradients, first in step {guarded.nan_gradient_step}"
    notes.known_or_absent(own + "nan_gradient", step if guarded.nan_gradients else None, how)
    worst = f"batch, head, row {guarded.worst_row} in step {guarded.worst_step}"
    wrong = (
        f"{guarded.wrong_rows:,} of {guarded.shadowed_rows:,} sampled rows, by {guarded.worst or 0:.2g} where "
        f"{guarded.limit or 0:.2g} is rounding; the worst: {worst}"
    )
    notes.known_or_absent(own + "wrong_rows", wrong if guarded.wrong_rows else None, how)


def _cost(cost: MathCost) -> str:
    return (
        f"{cost.score_bytes / (1 << 20):,.0f} MiB of scores a call, {cost.q_length} queries by {cost.k_length} keys, "
        f"beside {cost.operand_bytes / (1 << 20):,.1f} MiB of q, k, v and output"
    )
