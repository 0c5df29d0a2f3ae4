"""Probes of installed packages, which read metadata and source files: nothing is imported."""
