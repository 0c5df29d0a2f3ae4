"""A guard for a training run: every Nth step its attention calls are examined, all other steps run untouched.

Imports nothing itself. `guard.Guard` is started, told of each step, and stopped; hooks.py lets it see the calls;
shadow.py computes sampled rows in float64; callbacks.py has the callbacks of trainers.

`Guard.answer()` is in the tracer's format (../trace/__init__.py), outcome "watched". Each call has one key more:

guarded = {examined: how many calls alike were examined, first_step, last_step,
    rows, nonfinite_rows: of the outputs where q, k and v held numbers alone, nonfinite_step: the first one or None,
    spoiled_calls: those whose q, k or v were not finite themselves,
    nan_gradients: calls whose backward turned numbers into NaN, nan_gradient_step,
    shadowed_rows: rows that were computed in float64, worst: the largest error of one, limit: what it may be,
    worst_step, worst_row: [batch, head, row], wrong_rows, not_shadowed: why rows were not, or None}
"""
