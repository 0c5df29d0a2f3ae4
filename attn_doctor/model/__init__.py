"""Immutable records that every other package uses: facts, findings, plans, traces, reports. No input or output."""
