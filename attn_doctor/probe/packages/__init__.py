"""Installed packages, read from metadata and source files: nothing is imported."""
