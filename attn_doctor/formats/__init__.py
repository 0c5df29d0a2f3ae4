"""Reads and writes the stable formats: reports, traces, plans, fleet verdicts. A change here changes a format."""
