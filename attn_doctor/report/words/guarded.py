"""What a guard saw of calls alike, in one sentence."""

from __future__ import annotations

from attn_doctor.model.trace import AttentionCall


def told(call: AttentionCall) -> str:
    """`examined 15 calls in steps 0 to 800, all flash: 3,960 rows finite; …`; empty without a guard."""
    seen = call.guarded
    if seen is None:
        return ""
    taken = f", all {call.backend.taken}" if call.backend is not None and call.backend.taken else ""
    steps = (
        f"steps {seen.first_step} to {seen.last_step}"
        if seen.last_step > seen.first_step
        else f"step {seen.first_step}"
    )
    bad = (
        f"{seen.nonfinite_rows:,} of {seen.rows:,} rows not finite though q, k and v are" if seen.nonfinite_rows else ""
    )
    spoiled = f"q, k or v not finite in {seen.spoiled_calls:,} of them" if seen.spoiled_calls else ""
    rows = ", ".join(one for one in (bad, spoiled) if one) or f"{seen.rows:,} rows finite"
    parts = [f"examined {seen.examined:,} calls in {steps}{taken}: {rows}"]
    if seen.shadowed_rows:
        share = (seen.worst or 0.0) / (seen.limit or 1.0)
        parts.append(
            f"{seen.shadowed_rows:,} rows beside float64, {seen.wrong_rows:,} wrong, worst {share:.2g} of the limit"
        )
    elif seen.not_shadowed:
        parts.append(f"no row beside float64: {seen.not_shadowed}")
    if seen.nan_gradients:
        parts.append(f"{seen.nan_gradients:,} gradients turned to NaN")
    return "; ".join(parts)
