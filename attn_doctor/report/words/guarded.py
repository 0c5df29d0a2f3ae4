"""What a guard saw of calls alike, in one sentence."""

from __future__ import annotations

from attn_doctor.model.trace import AttentionCall
from attn_doctor.report.language import say


def told(call: AttentionCall) -> str:
    """`examined 15 calls in steps 0 to 800, all flash: 3,960 rows finite; …`; empty without a guard."""
    seen = call.guarded
    if seen is None:
        return ""
    taken = say(", all {taken}", taken=call.backend.taken) if call.backend is not None and call.backend.taken else ""
    steps = (
        say("steps {first_step} to {last_step}", first_step=seen.first_step, last_step=seen.last_step)
        if seen.last_step > seen.first_step
        else say("step {first_step}", first_step=seen.first_step)
    )
    bad = (
        say(
            "{nonfinite_rows:,} of {rows:,} rows not finite though q, k and v are",
            nonfinite_rows=seen.nonfinite_rows,
            rows=seen.rows,
        )
        if seen.nonfinite_rows
        else ""
    )
    spoiled = (
        say("q, k or v not finite in {spoiled_calls:,} of them", spoiled_calls=seen.spoiled_calls)
        if seen.spoiled_calls
        else ""
    )
    rows = ", ".join(one for one in (bad, spoiled) if one) or say("{rows:,} rows finite", rows=seen.rows)
    parts = [
        say(
            "examined {examined:,} calls in {steps}{taken}: {rows}",
            examined=seen.examined,
            steps=steps,
            taken=taken,
            rows=rows,
        )
    ]
    if seen.shadowed_rows:
        share = (seen.worst or 0.0) / (seen.limit or 1.0)
        parts.append(
            say(
                "{shadowed_rows:,} rows beside float64, {wrong_rows:,} wrong, worst {share:.2g} of the limit",
                shadowed_rows=seen.shadowed_rows,
                wrong_rows=seen.wrong_rows,
                share=share,
            )
        )
    elif seen.not_shadowed:
        parts.append(say("no row beside float64: {not_shadowed}", not_shadowed=seen.not_shadowed))
    if seen.nan_gradients:
        parts.append(say("{nan_gradients:,} gradients turned to NaN", nan_gradients=seen.nan_gradients))
    return "; ".join(parts)
